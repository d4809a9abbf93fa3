//! Runs a plan once, in a series, or in a search. What follows from the results is decided by
//! `judge.rs`, `series.rs` and `search.rs`, and written by `output.rs`.

use std::io::{self, Write as _};
use std::os::fd::AsFd;

use jissoku_load::{Pace, Plan};
use jissoku_os::signal::Signals;

use super::judge;
use super::measure::{INTERRUPTED, Measurement, report_of, run_plan};
use super::output_options::OutputOptions;
use super::progress::{ProgressOptions, Shown};
use super::search::Search;
use super::series::{self, Point};
use crate::usage::{Failure, print_error};

/// Runs one measurement and writes its results. In `Ok` and `Err` is the process exit code; the
/// error is already on stderr.
pub(super) fn run_once(plan: &Plan, options: &OutputOptions, signals: &Signals) -> Result<u8, u8> {
    let shown = if options.events { Shown::Events } else { Shown::Line };
    let measured = measure_once(plan, options, signals, shown);
    let measurement = measured.map_err(|failure| failure.print("load"))?;
    if measurement.outcome.interrupted {
        return Err(INTERRUPTED);
    }
    Ok(options.judge(&measurement.report))
}

/// Runs one measurement until its end or `interrupt`, and writes its results.
pub(super) fn measure_once(
    plan: &Plan,
    options: &OutputOptions,
    interrupt: &impl AsFd,
    shown: Shown,
) -> Result<Measurement, Failure> {
    let progress_options = ProgressOptions {
        shown,
        rows: options.timeseries.as_ref().map(|rows| (rows.length_ns, rows.layout)),
        log: options.hlog.is_some(),
        armed: options.armed,
    };
    let _reserved = options.reserve_files().map_err(|refusal| unwritten(&refusal))?;
    let mut measurement = run_plan(plan, interrupt, progress_options)?;
    options.add_self_test(&mut measurement.report);
    options.write(&measurement).map_err(|refusal| unwritten(&refusal))?;
    Ok(measurement)
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
    options.check_formats(series::supports).map_err(|refusal| print_error(&refusal, 2))?;
    let _reserved = options.reserve_files().map_err(|refusal| cannot_write(&refusal))?;
    let first_seed = plan.seed;
    let (mut results, mut exit_code) = (Vec::new(), 0);
    for (number, point) in (0..).zip(points) {
        point.set(&mut plan);
        plan.seed = first_seed.wrapping_add(number);
        let mut report = match report_of(&plan, signals) {
            Ok(report) => report,
            // What was measured before is written all the same.
            Err(code) => {
                exit_code = code;
                break;
            }
        };
        options.add_self_test(&mut report);
        exit_code = judge::worse(exit_code, options.judge(&report));
        results.push((*point, report));
    }
    let (done, all) = (results.len(), points.len());
    if done < all {
        let end = if exit_code == INTERRUPTED { "interrupted" } else { "ended" };
        print_error(&format!("{end} after {done} of {all} measurements"), exit_code);
    }
    if done > 0 {
        let written = options.write_all(|format| series::text(format, &results));
        written.map_err(|refusal| cannot_write(&refusal))?;
    }
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
    let mut end = None;
    while let Some(rate_rps) = search.next_rps() {
        plan.pace = Pace::constant(rate_rps);
        let report = match report_of(&plan, signals) {
            Ok(report) => report,
            // What was found before is printed all the same.
            Err(code) => {
                end = Some(code);
                break;
            }
        };
        let step = search.add(rate_rps, report).map_err(|refusal| print_error(&refusal, 4))?;
        if !is_json {
            // The error is ignored: stderr may be closed.
            let _written = writeln!(io::stderr(), "{} requests/s: {}", step.rate_rps, step.why);
        }
    }
    if let Some(code) = end {
        print_error(&format!("ended after {} steps of the search", search.count()), code);
        if search.count() == 0 {
            return Err(code);
        }
    }
    let text = if is_json { search.to_json() } else { search.to_text() };
    let written = io::stdout().write_all(text.as_bytes());
    written.map_err(|error| cannot_write(&error.to_string()))?;
    Ok(end.unwrap_or_else(|| search.exit_code()))
}

fn cannot_write(refusal: &str) -> u8 {
    unwritten(refusal).print("load")
}

fn unwritten(refusal: &str) -> Failure {
    Failure::new(format!("cannot write the report: {refusal}"), 1)
}
