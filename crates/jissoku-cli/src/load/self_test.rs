//! `--self-test`: how far the stopwatch itself could go, here and now.
//!
//! Two short closed loops against the floor, which answers without looking, on another core where there is
//! one: with the connections that were asked for, for the highest rate and what a request costs; and with a
//! single one, for the least latency that can be told. Floor and kernel have their part in both, so the
//! stopwatch alone is better than that.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::thread::scope;

use jissoku_floor::Driver;
use jissoku_load::report::{Format, Report, SelfTest};
use jissoku_load::{
    Address, Arrival, Expected, Idle, LanePlan, OnBusy, Pace, Plan, Request, Reuse, Shape, Think,
    Until, Verify,
};
use jissoku_os::core;
use jissoku_os::signal::Signals;
use jissoku_os::socket::Endpoint;

use super::errand::{self, Curiosity, carry_out};
use super::wishes::Wishes;
use crate::load::{Load, complain};

/// Stands for the floor's URL until the floor has one.
const SOMEWHERE: &str = "http://127.0.0.1/";

/// How long everything runs before it is measured.
const WARMUP_NS: u64 = 200_000_000;

/// With all connections.
const ALL_NS: u64 = 1_000_000_000;

/// With one connection.
const SINGLE_NS: u64 = 300_000_000;

/// Who runs where.
#[derive(Debug, PartialEq, Eq)]
struct Seats {
    stopwatch: Vec<usize>,
    floor: Vec<usize>,
}

/// The self-test and nothing else.
pub(super) fn alone(mut load: Load) -> u8 {
    if load.asks_for_a_measurement() {
        let refusal = "without a URL --self-test is a second of a closed loop by itself: -R, -n, -d and what \
                       goes with them need a URL";
        return complain(refusal, 2);
    }
    load.urls.extend(SOMEWHERE.parse::<Address>());
    let prepared = load.wishes(false).and_then(|wishes| Ok((wishes, load.plan()?)));
    let (wishes, plan) = match prepared {
        Ok(prepared) => prepared,
        Err(refusal) => return complain(&refusal, 2),
    };
    let found = errand::catch().and_then(|signals| run(&plan, &signals));
    match found.map(|found| tell(&found, &wishes)) {
        Ok(Ok(())) => 0,
        Ok(Err(refusal)) => complain(&format!("the report cannot be written: {refusal}"), 1),
        Err(code) => code,
    }
}

fn tell(found: &SelfTest, wishes: &Wishes) -> Result<(), String> {
    wishes.write_all(|format| match format {
        Format::Human => Ok(found.to_string()),
        Format::Quiet => Ok(String::new()),
        Format::Json => {
            let object = serde_json::json!({"schema": "jissoku.self-test/1", "self_test": found});
            Ok(format!("{object}\n"))
        }
        Format::Csv | Format::OpenMetrics | Format::Benchstat | Format::Github => {
            Err("--self-test by itself is told as human, json or quiet".to_owned())
        }
    })
}

/// The self-test with what `asked` has of connections, threads and kernel interfaces. What went wrong has
/// been told, and the exit code says it.
pub(super) fn run(asked: &Plan, signals: &Signals) -> Result<SelfTest, u8> {
    // Both ends of each connection are ours.
    errand::has_descriptors_for(asked.connections * 2)?;
    let broken = |error: io::Error| complain(&format!("the self-test's floor broke: {error}"), 1);
    let allowed = core::allowed().map_err(broken)?;
    let Seats { stopwatch, floor } = seats(&asked.cores, asked.threads, &allowed);
    let workers = floor.len().clamp(1, asked.threads);
    let anywhere = Endpoint::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let bound = jissoku_floor::bind(&[anywhere], workers).map_err(|(_, error)| broken(error))?;
    let url = format!("http://{}/", bound.endpoints()[0]);
    let (halt, halted) = UnixStream::pair().map_err(broken)?;
    let (all, single) = scope(|scope| -> Result<(Report, Report), u8> {
        let floor = &floor;
        let serving = scope.spawn(move || {
            core::pin(floor)?;
            bound.serve(Driver::Epoll, halted.as_fd())
        });
        let measure = |connections, duration_ns| {
            let mut plan = against(asked, &url, connections, duration_ns)
                .map_err(|refusal| complain(&refusal, 1))?;
            plan.cores.clone_from(&stopwatch);
            let find = carry_out(&plan, signals, Curiosity::default())?;
            if find.outcome.interrupted { Err(130) } else { Ok(find.report) }
        };
        let reports =
            measure(asked.connections, ALL_NS).and_then(|all| Ok((all, measure(1, SINGLE_NS)?)));
        drop(halt);
        let served = serving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let reports = reports?;
        served.map_err(broken)?;
        Ok(reports)
    })?;
    SelfTest::new(&all, &single, (stopwatch, floor)).map_err(|refusal| complain(&refusal, 1))
}

/// The floor gets what the stopwatch leaves, and shares with it if that is nothing.
fn seats(asked: &[usize], threads: usize, allowed: &[usize]) -> Seats {
    let stopwatch: Vec<usize> = match asked {
        [] => allowed.iter().copied().take(threads.min(allowed.len().max(2) - 1)).collect(),
        _ => asked.iter().copied().take(threads).collect(),
    };
    let left: Vec<usize> =
        allowed.iter().copied().filter(|core| !stopwatch.contains(core)).collect();
    Seats { floor: if left.is_empty() { allowed.to_vec() } else { left }, stopwatch }
}

/// A closed loop against the floor, otherwise as `asked`.
fn against(asked: &Plan, url: &str, connections: usize, ns: u64) -> Result<Plan, String> {
    let address: Address = url.parse().map_err(|bad| format!("{bad}"))?;
    let request = Request::default();
    let wire = request.render(&address, Reuse::KeepAlive).map_err(|bad| bad.to_string())?;
    let expected = Expected::new(Verify::Length, Vec::new(), None);
    let shape = Shape { name: request.method, wire, head_only: false, expected };
    let plan = Plan {
        lanes: vec![LanePlan { address, tls: None, shapes: vec![shape], watch: None }],
        connections,
        threads: asked.threads.min(connections),
        pipeline: if connections == 1 { 1 } else { asked.pipeline },
        pace: Pace::Closed,
        arrival: Arrival::Constant,
        on_busy: OnBusy::Queue,
        deadline_ns: None,
        reuse: Reuse::KeepAlive,
        think: Think::Never,
        ramp_up_ns: 0,
        local: Vec::new(),
        warmup_ns: WARMUP_NS,
        until: Until { duration_ns: Some(ns), requests: None },
        timeout_ns: asked.timeout_ns,
        driver: asked.driver,
        clock: asked.clock,
        buffering: asked.buffering,
        keeps_entries: false,
        idle: if asked.idle == Idle::Spin { Idle::Spin } else { Idle::Block },
        seed: asked.seed,
        cores: Vec::new(),
    };
    plan.check().map_err(|bad| bad.to_string())?;
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_gets_what_the_stopwatch_leaves() {
        let sit = |asked: &[usize], threads, allowed: &[usize]| {
            let Seats { stopwatch, floor } = seats(asked, threads, allowed);
            (stopwatch, floor)
        };
        assert_eq!(sit(&[], 1, &[0, 1]), (vec![0], vec![1]));
        assert_eq!(sit(&[], 2, &[0, 1]), (vec![0], vec![1]));
        assert_eq!(sit(&[], 2, &[2, 3, 4, 5]), (vec![2, 3], vec![4, 5]));
        assert_eq!(sit(&[1], 1, &[0, 1]), (vec![1], vec![0]));
        assert_eq!(sit(&[0, 1], 1, &[0, 1]), (vec![0], vec![1]));
        assert_eq!(sit(&[0, 1], 2, &[0, 1]), (vec![0, 1], vec![0, 1]));
        assert_eq!(sit(&[], 4, &[7]), (vec![7], vec![7]));
    }
}
