//! `jissoku oracle`: a server with known behaviour, for `jissoku calibrate`.

use std::fs::File;
use std::io::{self, BufWriter};
use std::os::fd::AsFd as _;
use std::path::PathBuf;

use jissoku_lab::oracle::{Delay, Framing, Freeze, InjectedFault, Scenario, StallMonitor};
use jissoku_os::signal::{SIGINT, SIGTERM, Signals};
use jissoku_os::socket::Endpoint;
use jissoku_os::{affinity, process};

use crate::units;
use crate::usage::{ExitError, announce, exit_code, print_line};

/// A server with known behaviour that logs every request
///
/// When it ends (SIGTERM, SIGINT), it prints a summary as one JSON object.
#[derive(Debug, clap::Args)]
pub(crate) struct Oracle {
    /// Address to listen on: HOST:PORT or unix:PATH; port 0 picks a free port
    #[arg(long, value_name = "WHERE", default_value = "127.0.0.1:8000")]
    listen: Endpoint,
    /// Response delays: constant:TIME, uniform:TIME, exponential:MEAN,
    /// lognormal:MEDIAN:SIGMA, bimodal:SHARE:TIME:TIME, step:COUNT:TIME:TIME or every:COUNT:TIME:TIME
    #[arg(long, default_value = "constant:0s", value_parser = delay)]
    delay: Delay,
    /// Responses worked on at the same time [default: any number]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    workers: Option<u16>,
    /// Start work on a request when the previous response on its connection is due
    #[arg(long)]
    serial: bool,
    /// Send no responses from time AT after the first request, for a duration or until the end:
    /// 10s:3s, 20s:end
    #[arg(long, value_name = "AT:FOR", value_parser = freeze)]
    freeze: Vec<Freeze>,
    /// Responses per second after a freeze, until its backlog is sent
    #[arg(long, value_name = "RATE", default_value = "100k", value_parser = units::count)]
    drain: u64,
    /// Length of a departure slot; no two responses are due in the same slot, which has to be long
    /// enough for sending one
    #[arg(long, value_name = "TIME", default_value = "10us", value_parser = units::duration_ns)]
    apart: u64,
    /// Inject a fault with probability P: status:P, reset:P, truncate:P, flip:P, drop:P
    #[arg(long, value_name = "FAULT:P", value_parser = fault)]
    fault: Vec<(InjectedFault, f64)>,
    /// Framing of bodies
    #[arg(long, value_parser = units::word(FRAMINGS), default_value = "length")]
    framing: Framing,
    /// Size of a body, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 13)]
    body: usize,
    /// Number of pieces in which a body is sent
    #[arg(long, value_name = "N", default_value_t = 1)]
    pieces: usize,
    /// Time between the pieces
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = units::duration_ns)]
    drip: u64,
    /// Time after the start before which no connection is accepted
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = units::duration_ns)]
    accept_after: u64,
    /// Backlog of the listening socket [default: the system's]
    #[arg(long, value_name = "N")]
    backlog: Option<u16>,
    /// Seed of delays and faults
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Capacity of the log, in requests; its memory is allocated at the start
    #[arg(long, value_name = "N", default_value = "2M", value_parser = units::count)]
    entries: u64,
    /// Write every request to this file, 40 bytes each
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Cores to run on, such as 0 [default: any]
    #[arg(long, value_name = "LIST", value_parser = units::cores)]
    cores: Option<CoreList>,
    /// Cores whose stalls are measured [default: none]. The caller puts the threads named
    /// `stall-monitor` into a real-time class
    #[arg(long, value_name = "LIST", value_parser = units::cores)]
    stall_monitor: Option<CoreList>,
    /// Also end when standard input ends
    #[arg(long)]
    until_eof: bool,
}

// Clap would treat a bare `Vec` as an argument that may be repeated.
type CoreList = Vec<usize>;

const FRAMINGS: [(&str, Framing); 3] =
    [("length", Framing::Length), ("chunked", Framing::Chunked), ("close", Framing::Close)];

impl Oracle {
    pub(crate) fn run(self) -> u8 {
        exit_code("oracle", self.serve())
    }

    fn serve(self) -> Result<(), ExitError> {
        let failed = |error: io::Error| (1, format!("the oracle failed: {error}"));
        let scenario = self.scenario()?;
        // If the limit cannot be raised, the current one is used.
        let _raised = process::raise_descriptor_limit();
        if let Some(cores) = &self.cores {
            let pinned = affinity::pin(cores);
            pinned.map_err(|error| (2, format!("cannot use cores {cores:?}: {error}")))?;
        }
        let place = &self.listen;
        let bound = jissoku_lab::oracle::bind(place);
        let bound = bound.map_err(|error| (2, format!("cannot listen on {place}: {error}")))?;
        let log = self.log.as_ref().map(|path| {
            let file = File::create(path);
            file.map_err(|error| (2, format!("cannot write {}: {error}", path.display())))
        });
        let log = log.transpose()?;
        let stall_monitor = self.stall_monitor.as_ref().map(|cores| {
            let started = StallMonitor::start(cores);
            started.map_err(|error| (2, format!("cannot monitor cores {cores:?}: {error}")))
        });
        let stall_monitor = stall_monitor.transpose()?;
        let signals = Signals::register(&[SIGTERM, SIGINT]).map_err(failed)?;
        let input = io::stdin();
        let mut halts = vec![signals.as_fd()];
        if self.until_eof {
            halts.push(input.as_fd());
        }
        announce(bound.endpoint());
        let (mut summary, entries) = bound.serve(&scenario, &halts).map_err(failed)?;
        if let Some(file) = log {
            entries.write(BufWriter::new(file)).map_err(failed)?;
        }
        summary.stalls = stall_monitor.map(StallMonitor::end).unwrap_or_default();
        let summary = serde_json::to_string(&summary).map_err(|error| failed(error.into()))?;
        print_line(&summary);
        Ok(())
    }

    fn scenario(&self) -> Result<Scenario, ExitError> {
        if self.fault.iter().map(|(_, share)| share).sum::<f64>() > 1.0 {
            return Err((2, "the probabilities of the faults add up to more than 1".into()));
        }
        Ok(Scenario {
            delay: self.delay,
            workers: self.workers.map(usize::from),
            is_serial: self.serial,
            freezes: self.freeze.clone(),
            drain_rps: self.drain,
            apart_ns: self.apart,
            faults: self.fault.clone(),
            framing: self.framing,
            body_size: self.body,
            pieces: self.pieces,
            piece_gap_ns: self.drip,
            accept_after_ns: self.accept_after,
            backlog: self.backlog,
            seed: self.seed,
            entries: usize::try_from(self.entries).unwrap_or(usize::MAX),
        })
    }
}

pub(crate) fn delay(text: &str) -> Result<Delay, String> {
    let parts: Vec<&str> = text.split(':').collect();
    let time = units::duration_ns;
    Ok(match parts[..] {
        ["constant", fixed] => Delay::Constant(time(fixed)?),
        ["uniform", most] => Delay::Uniform(time(most)?),
        ["exponential", mean] => Delay::Exponential(time(mean)?),
        ["lognormal", median, sigma] => Delay::Lognormal(time(median)?, number(sigma)?),
        ["bimodal", share, first, second] => {
            Delay::Bimodal(probability(share)?, time(first)?, time(second)?)
        }
        ["step", count, first, second] => {
            Delay::Step(units::count(count)?, time(first)?, time(second)?)
        }
        ["every", count, first, second] => {
            Delay::Every(units::count(count)?, time(first)?, time(second)?)
        }
        _ => {
            return Err(
                "write a distribution such as constant:10ms or lognormal:5ms:0.8".to_owned()
            );
        }
    })
}

fn freeze(text: &str) -> Result<Freeze, String> {
    let (at, duration) =
        text.split_once(':').ok_or("write it as AT:FOR, as in 10s:3s or 20s:end")?;
    let duration_ns = match duration {
        "end" => None,
        duration => Some(units::duration_ns(duration)?),
    };
    Ok(Freeze { start_ns: units::duration_ns(at)?, duration_ns })
}

fn fault(text: &str) -> Result<(InjectedFault, f64), String> {
    let (kind, share) = text.split_once(':').ok_or("write it as FAULT:P, as in reset:0.01")?;
    let fault = match kind {
        "status" => InjectedFault::Status,
        "reset" => InjectedFault::Reset,
        "truncate" => InjectedFault::Truncated,
        "flip" => InjectedFault::Flipped,
        "drop" => InjectedFault::Dropped,
        _ => return Err("the faults are status, reset, truncate, flip and drop".to_owned()),
    };
    Ok((fault, probability(share)?))
}

fn probability(text: &str) -> Result<f64, String> {
    let found = number(text)?;
    if found <= 1.0 { Ok(found) } else { Err(format!("invalid probability {text}: give 0 to 1")) }
}

pub(crate) fn number(text: &str) -> Result<f64, String> {
    let found = text.parse().ok().filter(|found: &f64| found.is_finite() && *found >= 0.0);
    found.ok_or_else(|| format!("invalid number {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_read_as_they_are_written() {
        assert_eq!(delay("constant:10ms"), Ok(Delay::Constant(10_000_000)));
        assert_eq!(delay("lognormal:5ms:0.8"), Ok(Delay::Lognormal(5_000_000, 0.8)));
        assert_eq!(delay("every:1k:1ms:7s"), Ok(Delay::Every(1000, 1_000_000, 7_000_000_000)));
        for text in ["", "10ms", "constant", "bimodal:2:1ms:2ms", "lognormal:5ms:x", "step:1:1ms"] {
            assert!(delay(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn freezes_and_faults_are_read_as_they_are_written() {
        let freezes = |duration_ns| Ok(Freeze { start_ns: 10_000_000_000, duration_ns });
        assert_eq!(freeze("10s:3s"), freezes(Some(3_000_000_000)));
        assert_eq!(freeze("10s:end"), freezes(None));
        assert!(freeze("10s").is_err());
        assert_eq!(fault("flip:0.0001"), Ok((InjectedFault::Flipped, 0.0001)));
        assert!(fault("flip:2").is_err());
        assert!(fault("fire:0.1").is_err());
    }
}
