//! `--self-test`: the limits of the load generator itself on this machine.
//!
//! Two short closed loops against the floor, on another core if there is one: with all connections,
//! for the highest rate and the CPU time per request, and with one connection, for the smallest
//! latency. Both include the floor and the kernel, so the load generator alone is better than that.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::thread::scope;

use jissoku_load::report::{Format, Report, SelfTest};
use jissoku_load::{
    Address, Expected, Idle, Plan, Request, RequestSpec, ResponseFraming, Reuse, StopCondition,
    TargetPlan, Verify,
};
use jissoku_os::affinity;
use jissoku_os::signal::Signals;
use jissoku_os::socket::Endpoint;

use super::measure;
use super::output_options::OutputOptions;
use crate::usage::print_error;

/// Load before each measurement.
const WARMUP_NS: u64 = 200_000_000;

/// Duration with all connections.
const ALL_NS: u64 = 1_000_000_000;

/// Duration with one connection.
const SINGLE_NS: u64 = 300_000_000;

/// The cores of the load generator and of the floor.
#[derive(Debug, PartialEq, Eq)]
struct CoreLayout {
    generator: Vec<usize>,
    floor: Vec<usize>,
}

/// Runs only the self-test and writes its result. In `Ok` and `Err` is the process exit code; the
/// error is already on stderr.
pub(super) fn run_alone(plan: &Plan, output_options: &OutputOptions) -> Result<u8, u8> {
    let signals = measure::catch_signals().map_err(|failure| failure.print("load"))?;
    let found = run(plan, &signals)?;
    let written = write(&found, output_options);
    written.map_err(|refusal| print_error(&format!("cannot write the report: {refusal}"), 1))?;
    Ok(0)
}

fn write(found: &SelfTest, output_options: &OutputOptions) -> Result<(), String> {
    output_options.write_all(|format| match format {
        Format::Human => Ok(found.to_string()),
        Format::Quiet => Ok(String::new()),
        Format::Json => {
            let object = serde_json::json!({"schema": "jissoku.self-test/1", "self_test": found});
            Ok(format!("{object}\n"))
        }
        Format::Csv | Format::OpenMetrics | Format::Benchstat | Format::Github => {
            Err("--self-test without a URL supports the formats human, json and quiet".to_owned())
        }
    })
}

/// Runs the self-test with the connections, threads and driver of `plan_of_run`. On failure the
/// error is already on stderr; `Err` is the process exit code.
pub(super) fn run(plan_of_run: &Plan, signals: &Signals) -> Result<SelfTest, u8> {
    // Both ends of each connection are in this process.
    measure::require_descriptors(plan_of_run.connections * 2)
        .map_err(|failure| failure.print("load"))?;
    let broken =
        |error: io::Error| print_error(&format!("the floor of the self-test failed: {error}"), 1);
    let allowed = affinity::allowed().map_err(broken)?;
    let CoreLayout { generator, floor } =
        layout_cores(&plan_of_run.cores, plan_of_run.threads, &allowed);
    let workers = floor.len().clamp(1, plan_of_run.threads);
    let anywhere = Endpoint::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let bound =
        jissoku_lab::floor::bind(&[anywhere], workers).map_err(|(_, error)| broken(error))?;
    let url = format!("http://{}/", bound.endpoints()[0]);
    let (halt, halted) = UnixStream::pair().map_err(broken)?;
    let (all, single) = scope(|scope| -> Result<(Report, Report), u8> {
        let floor = &floor;
        let serving = scope.spawn(move || {
            affinity::pin(floor)?;
            bound.serve(halted.as_fd())
        });
        let measure = |connections, duration_ns| {
            let mut plan = floor_plan(plan_of_run, &url, connections, duration_ns)
                .map_err(|refusal| print_error(&refusal, 1))?;
            plan.cores.clone_from(&generator);
            measure::report_of(&plan, signals)
        };
        let reports = measure(plan_of_run.connections, ALL_NS)
            .and_then(|all| Ok((all, measure(1, SINGLE_NS)?)));
        drop(halt);
        let served = serving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let reports = reports?;
        served.map_err(broken)?;
        Ok(reports)
    })?;
    SelfTest::new(&all, &single, (generator, floor)).map_err(|refusal| print_error(&refusal, 1))
}

/// The floor gets the cores that the load generator leaves free, or all if there are none.
fn layout_cores(plan_of_run: &[usize], threads: usize, allowed: &[usize]) -> CoreLayout {
    let generator: Vec<usize> = match plan_of_run {
        [] => allowed.iter().copied().take(threads.min(allowed.len().max(2) - 1)).collect(),
        _ => plan_of_run.iter().copied().take(threads).collect(),
    };
    let left: Vec<usize> =
        allowed.iter().copied().filter(|core| !generator.contains(core)).collect();
    CoreLayout { floor: if left.is_empty() { allowed.to_vec() } else { left }, generator }
}

/// A closed loop against the floor, otherwise like `plan_of_run`.
fn floor_plan(plan_of_run: &Plan, url: &str, connections: usize, ns: u64) -> Result<Plan, String> {
    let address: Address = url.parse().map_err(|bad| format!("{bad}"))?;
    let request = Request::default();
    let template = request.render(&address, Reuse::KeepAlive).map_err(|bad| bad.to_string())?;
    let expected = Expected::new(Verify::Length, Vec::new(), None);
    let framing = ResponseFraming::Http;
    let spec = RequestSpec { name: request.method, template, framing, expected };
    let plan = Plan {
        connections,
        threads: plan_of_run.threads.min(connections),
        pipeline: if connections == 1 { 1 } else { plan_of_run.pipeline },
        warmup_ns: WARMUP_NS,
        stop: StopCondition { duration_ns: Some(ns), requests: None },
        timeout_ns: plan_of_run.timeout_ns,
        driver: plan_of_run.driver,
        clock: plan_of_run.clock,
        buffering: plan_of_run.buffering,
        idle: if plan_of_run.idle == Idle::Spin { Idle::Spin } else { Idle::Block },
        seed: plan_of_run.seed,
        ..Plan::new(vec![TargetPlan::new(address, vec![spec])])
    };
    plan.check().map_err(|bad| bad.to_string())?;
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_gets_the_cores_that_are_left() {
        let layout = |plan_of_run: &[usize], threads, allowed: &[usize]| {
            let CoreLayout { generator, floor } = layout_cores(plan_of_run, threads, allowed);
            (generator, floor)
        };
        assert_eq!(layout(&[], 1, &[0, 1]), (vec![0], vec![1]));
        assert_eq!(layout(&[], 2, &[0, 1]), (vec![0], vec![1]));
        assert_eq!(layout(&[], 2, &[2, 3, 4, 5]), (vec![2, 3], vec![4, 5]));
        assert_eq!(layout(&[1], 1, &[0, 1]), (vec![1], vec![0]));
        assert_eq!(layout(&[0, 1], 1, &[0, 1]), (vec![0], vec![1]));
        assert_eq!(layout(&[0, 1], 2, &[0, 1]), (vec![0, 1], vec![0, 1]));
        assert_eq!(layout(&[], 4, &[7]), (vec![7], vec![7]));
    }
}
