//! `jissoku oracle`: a server whose every act is known, for `jissoku calibrate`.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::os::fd::AsFd as _;
use std::path::PathBuf;

use clap::ValueEnum;
use jissoku_oracle::{Delay, Fault, Framing, Freeze, Scenario, Witness};
use jissoku_os::signal::{SIGINT, SIGTERM, Signals};
use jissoku_os::socket::Endpoint;
use jissoku_os::{core, descriptors};

use crate::units;

/// A server whose every act is known beforehand and written down
///
/// When it ends (SIGTERM, SIGINT), it tells in one JSON object what happened.
#[derive(Debug, clap::Args)]
pub(crate) struct Oracle {
    /// Where to listen: HOST:PORT or unix:PATH; port 0 takes a free one
    #[arg(long, value_name = "WHERE", default_value = "127.0.0.1:8000")]
    listen: Endpoint,
    /// How long answers take: constant:TIME, exponential:MEAN, lognormal:MEDIAN:SIGMA,
    /// bimodal:SHARE:TIME:TIME, step:COUNT:TIME:TIME or every:COUNT:TIME:TIME
    #[arg(long, default_value = "constant:0s", value_parser = delay)]
    delay: Delay,
    /// So many answers are worked on at once [default: any number]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    workers: Option<u16>,
    /// An answer's time begins when the answer before it on its connection is due
    #[arg(long)]
    serial: bool,
    /// Answer nothing for so long (or: end), so long after the first request, as in 10s:3s
    #[arg(long, value_name = "AT:FOR", value_parser = freeze)]
    freeze: Vec<Freeze>,
    /// Answers per second while what a freeze has piled up is given out
    #[arg(long, value_name = "RATE", default_value = "100k", value_parser = units::count)]
    drain: u64,
    /// No two answers are due in the same slot of this length: sending one has to fit into it
    #[arg(long, value_name = "TIME", default_value = "10us", value_parser = units::duration_ns)]
    apart: u64,
    /// What goes wrong, and with which probability: status:P, reset:P, truncate:P, flip:P, drop:P
    #[arg(long, value_name = "FAULT:P", value_parser = fault)]
    fault: Vec<(Fault, f64)>,
    /// How the end of a body is told
    #[arg(long, value_enum, default_value = "length")]
    framing: FramingChoice,
    /// Bytes of a body
    #[arg(long, value_name = "BYTES", default_value_t = 13)]
    body: usize,
    /// A body is written in so many pieces
    #[arg(long, value_name = "N", default_value_t = 1)]
    pieces: usize,
    /// Time between the pieces
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = units::duration_ns)]
    drip: u64,
    /// Accept no connection before so long after the start
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = units::duration_ns)]
    accept_after: u64,
    /// So many connections may wait to be accepted
    #[arg(long, value_name = "N")]
    backlog: Option<u16>,
    /// Decides times and faults
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many requests can be written down; their memory is taken at the start
    #[arg(long, value_name = "N", default_value = "2M", value_parser = units::count)]
    entries: u64,
    /// Write every request to this file, 40 bytes each
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Cores to run on, such as 0
    #[arg(long, value_name = "LIST", value_parser = units::cores)]
    cores: Option<CoreList>,
    /// Cores of which is told how they stood still meanwhile. Whoever runs this puts the threads named
    /// `witness` into a real-time class
    #[arg(long, value_name = "LIST", value_parser = units::cores)]
    witness: Option<CoreList>,
    /// End when standard input ends, too
    #[arg(long)]
    until_eof: bool,
}

// Clap would take a bare `Vec` for an argument that may be given several times.
type CoreList = Vec<usize>;

#[derive(Clone, Copy, Debug, ValueEnum)]
enum FramingChoice {
    Length,
    Chunked,
    Close,
}

/// An exit code and the sentence that goes with it.
type Refusal = (u8, String);

impl Oracle {
    pub(crate) fn run(self) -> u8 {
        match self.serve() {
            Ok(()) => 0,
            Err((code, sentence)) => {
                // There is nowhere left to say that stderr is closed.
                let _written = writeln!(io::stderr(), "jissoku oracle: {sentence}");
                code
            }
        }
    }

    fn serve(self) -> Result<(), Refusal> {
        let broken = |error: io::Error| (1, format!("the oracle broke: {error}"));
        let scenario = self.scenario()?;
        // Where the limit cannot be raised, the one that is there has to do.
        let _raised = descriptors::raise_limit();
        if let Some(cores) = &self.cores {
            let pinned = core::pin(cores);
            pinned.map_err(|error| (2, format!("cores {cores:?} cannot be used: {error}")))?;
        }
        let place = &self.listen;
        let bound = jissoku_oracle::bind(place);
        let bound =
            bound.map_err(|error| (2, format!("{place} cannot be listened on: {error}")))?;
        let log = self.log.as_ref().map(|path| {
            let file = File::create(path);
            file.map_err(|error| (2, format!("{} cannot be written: {error}", path.display())))
        });
        let log = log.transpose()?;
        let witness = self.witness.as_ref().map(|cores| {
            let started = Witness::start(cores);
            started.map_err(|error| (2, format!("cores {cores:?} cannot be watched: {error}")))
        });
        let witness = witness.transpose()?;
        let signals = Signals::catch(&[SIGTERM, SIGINT]).map_err(broken)?;
        let input = io::stdin();
        let mut halts = vec![signals.as_fd()];
        if self.until_eof {
            halts.push(input.as_fd());
        }
        say(&match bound.endpoint() {
            Endpoint::Tcp(address) => format!("listening on http://{address}/\n"),
            Endpoint::Unix(path) => format!("listening on unix:{}\n", path.display()),
        });
        let (mut account, entries) = bound.serve(&scenario, &halts).map_err(broken)?;
        if let Some(file) = log {
            entries.write(BufWriter::new(file)).map_err(broken)?;
        }
        account.stalls = witness.map(Witness::end).unwrap_or_default();
        let account = serde_json::to_string(&account).map_err(|error| broken(error.into()))?;
        say(&format!("{account}\n"));
        Ok(())
    }

    fn scenario(&self) -> Result<Scenario, Refusal> {
        if self.fault.iter().map(|(_, share)| share).sum::<f64>() > 1.0 {
            return Err((2, "the faults' probabilities exceed 1 together".into()));
        }
        Ok(Scenario {
            delay: self.delay,
            workers: self.workers.map(usize::from),
            is_serial: self.serial,
            freezes: self.freeze.clone(),
            drain_rps: self.drain,
            apart_ns: self.apart,
            faults: self.fault.clone(),
            framing: match self.framing {
                FramingChoice::Length => Framing::Length,
                FramingChoice::Chunked => Framing::Chunked,
                FramingChoice::Close => Framing::Close,
            },
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

fn delay(text: &str) -> Result<Delay, String> {
    let parts: Vec<&str> = text.split(':').collect();
    let time = units::duration_ns;
    Ok(match parts[..] {
        ["constant", fixed] => Delay::Constant(time(fixed)?),
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
        _ => return Err("write for example constant:10ms or lognormal:5ms:0.8".to_owned()),
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

fn fault(text: &str) -> Result<(Fault, f64), String> {
    let (kind, share) = text.split_once(':').ok_or("write it as FAULT:P, as in reset:0.01")?;
    let fault = match kind {
        "status" => Fault::Status,
        "reset" => Fault::Reset,
        "truncate" => Fault::Truncated,
        "flip" => Fault::Flipped,
        "drop" => Fault::Dropped,
        _ => return Err("the faults are status, reset, truncate, flip and drop".to_owned()),
    };
    Ok((fault, probability(share)?))
}

fn probability(text: &str) -> Result<f64, String> {
    let found = number(text)?;
    if found <= 1.0 { Ok(found) } else { Err(format!("{text} is no probability: 0 to 1 are")) }
}

fn number(text: &str) -> Result<f64, String> {
    let found = text.parse().ok().filter(|found: &f64| found.is_finite() && *found >= 0.0);
    found.ok_or_else(|| format!("{text:?} is no number such as 0.8"))
}

fn say(text: &str) {
    let mut out = io::stdout().lock();
    // Whoever closed our standard output does not want to know.
    let _told = out.write_all(text.as_bytes()).and_then(|()| out.flush());
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
        assert_eq!(fault("flip:0.0001"), Ok((Fault::Flipped, 0.0001)));
        assert!(fault("flip:2").is_err());
        assert!(fault("fire:0.1").is_err());
    }
}
