//! Runs a plan once, in a series, or in a search. What follows from the results is decided by
//! `judge.rs`, `series.rs` and `search.rs`, and written by `output.rs`.

use std::io::{self, Write as _};

use jissoku_load::{Pace, Plan};
use jissoku_os::signal::Signals;

use super::error::print_error;
use super::judge;
use super::measure::{Measurement, run_plan};
use super::output_options::OutputOptions;
use super::progress::ProgressOptions;
use super::search::Search;
use super::series::{self, Point};

/// Exit code after SIGINT or SIGTERM.
const INTERRUPTED: u8 = 130;

/// Runs one measurement and writes its results. In `Ok` and `Err` is the process exit code; the
/// error is already on stderr.
pub(super) fn run_once(plan: &Plan, options: &OutputOptions, signals: &Signals) -> Result<u8, u8> {
    let progress_options = ProgressOptions {
        events: options.events,
        rows: options.timeseries.as_ref().map(|rows| (rows.length_ns, rows.layout)),
        log: options.hlog.is_some(),
    };
    let mut measurement =
        run_plan(plan, signals, progress_options).map_err(|failure| failure.print("load"))?;
    options.add_self_test(&mut measurement.report);
    options.write(&measurement).map_err(|refusal| cannot_write(&refusal))?;
    if measurement.outcome.interrupted {
        return Err(INTERRUPTED);
    }
    Ok(options.judge(&measurement.report))
}

/// Runs all measurements of a series and writes their results. In `Ok` and `Err` is the process
/// exit code, the most severe one; the error is already on stderr.
pub(super) fn run_series(
    points: &[Point],
    mut plan: Plan,
    options: &OutputOptions,
    signals: &Signals,
) -> Result<u8, u8> {
    for point in points {
        point.set(&mut plan);
        plan.check().map_err(|bad| print_error(&bad.to_string(), 2))?;
    }
    let first_seed = plan.seed;
    let (mut results, mut exit_code) = (Vec::new(), 0);
    for (number, point) in (0..).zip(points) {
        point.set(&mut plan);
        plan.seed = first_seed.wrapping_add(number);
        let Measurement { mut report, outcome, .. } =
            run_plan(&plan, signals, ProgressOptions::default())
                .map_err(|failure| failure.print("load"))?;
        if outcome.interrupted {
            return Err(INTERRUPTED);
        }
        options.add_self_test(&mut report);
        exit_code = judge::worse(exit_code, options.judge(&report));
        results.push((*point, report));
    }
    let written = options.write_all(|format| series::text(format, &results));
    written.map_err(|refusal| cannot_write(&refusal))?;
    Ok(exit_code)
}

/// Searches for the highest rate that meets an objective, and prints it. In `Ok` and `Err` is the
/// process exit code; the error is already on stderr.
pub(super) fn run_search(
    mut search: Search,
    mut plan: Plan,
    is_json: bool,
    signals: &Signals,
) -> Result<u8, u8> {
    while let Some(rate_rps) = search.next_rps() {
        plan.pace = Pace::Constant { rate_rps };
        let Measurement { report, outcome, .. } =
            run_plan(&plan, signals, ProgressOptions::default())
                .map_err(|failure| failure.print("load"))?;
        if outcome.interrupted {
            return Err(INTERRUPTED);
        }
        let step = search.add(rate_rps, report).map_err(|refusal| print_error(&refusal, 4))?;
        if !is_json {
            // The error is ignored: stderr may be closed.
            let _written = writeln!(io::stderr(), "{} requests/s: {}", step.rate_rps, step.why);
        }
    }
    let text = if is_json { search.to_json() } else { search.to_text() };
    let written = io::stdout().write_all(text.as_bytes());
    written.map_err(|error| cannot_write(&error.to_string()))?;
    Ok(search.exit_code())
}

fn cannot_write(refusal: &str) -> u8 {
    print_error(&format!("cannot write the report: {refusal}"), 1)
}
