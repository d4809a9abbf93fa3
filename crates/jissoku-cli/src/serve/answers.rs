//! Answers that come from no folder: a fixed text, the common contract, and what they cost on purpose.

use std::path::Path;
use std::time::Duration;

use clap::Args;
use jissoku_server::{Cause, Contract, Echo, Files, Fixed, FortyTwo, Site};

use super::failure::Failure;
use crate::units;

/// Longer than anybody waits for an answer.
const DELAY_MAX: Duration = Duration::from_hours(1);

/// A slowdown of a second per request is no slowdown but an outage.
const BUSY_NS_MAX: u64 = 1_000_000_000;

/// Flags about answers.
#[derive(Debug, Args)]
pub(super) struct Answers {
    /// Answer every request with TEXT
    #[arg(long, value_name = "TEXT", conflicts_with = "contract")]
    fixed: Option<String>,
    /// Serve what every target of a race serves: /, /42, /delay?ms=N and /files/NAME; `--contract e5`
    /// serves 42 at / and nothing else
    #[arg(long)]
    contract: bool,
    /// Say what was understood of each request: POST gives the body back, /echo the fields, /json everything
    #[arg(long, conflicts_with_all = ["contract", "fixed", "folder"])]
    echo: bool,
    /// Answer TEXT, or / of the contract, no sooner than this after the request (10ms, 2s)
    #[arg(long, value_name = "TIME", value_parser = delay, allow_hyphen_values = true, default_value = "0s")]
    delay: Duration,
    /// Burn N nanoseconds of CPU time before that answer: a slowdown of known size
    #[arg(long, value_name = "N", default_value_t = 0, allow_hyphen_values = true,
        value_parser = clap::value_parser!(u64).range(..=BUSY_NS_MAX))]
    busy_ns: u64,
    /// Be slow on purpose, to see whether a laboratory finds out; may be repeated. peername[=N]: ask N times
    /// per request who the peer is. open[=N]: open a file N times per request. split: send head and body
    /// apart. split-delayed: with Nagle's algorithm on too, so that the body waits for a delayed
    /// acknowledgement. close-after=N: end a connection after N requests. single-worker: give one worker all
    /// connections. linear-timers: go through all delays each time. herd: wake all workers for each
    /// connection. log: write a line per request. crash=N: let a worker fail at its Nth request.
    /// crash-metrics=N: so does the worker that tells the numbers
    #[arg(long, value_name = "NAME[=N]", hide_short_help = true)]
    cause: Vec<Cause>,
}

impl Answers {
    /// What makes the server slow on purpose.
    pub(super) fn causes(&self) -> Vec<Cause> {
        self.cause.clone()
    }

    /// Whether it is 42 that is served, and not a folder of that name, which is written `./e5`.
    pub(super) fn is_forty_two(&self, folder: Option<&Path>) -> bool {
        self.contract && folder == Some(Path::new("e5"))
    }

    /// Refuses what makes no sense together, before anything is read or opened.
    pub(super) fn check(&self, folder: Option<&Path>) -> Result<(), Failure> {
        let has_cost = !self.delay.is_zero() || self.busy_ns > 0;
        if has_cost && self.fixed.is_none() && !self.contract {
            return Err(Failure::of_input("--delay and --busy-ns need --fixed or --contract"));
        }
        if has_cost && self.is_forty_two(folder) {
            return Err(Failure::of_input("--delay and --busy-ns do not go with --contract e5"));
        }
        Ok(())
    }

    /// 42 at / and nothing else.
    pub(super) fn forty_two() -> Site {
        Site::FortyTwo(FortyTwo::new())
    }

    /// What is served: these answers, or else the files.
    pub(super) fn site(&self, files: Option<Files>) -> Site {
        match (&self.fixed, files) {
            _ if self.echo => Site::Echo(Echo::new()),
            (Some(text), _) => Site::Fixed(Fixed::new(text, self.delay, self.busy_ns)),
            (None, Some(files)) if !self.contract => Site::Files(files),
            (None, files) => Site::Contract(Contract::new(files, self.delay, self.busy_ns)),
        }
    }
}

fn delay(text: &str) -> Result<Duration, String> {
    let delay = Duration::from_nanos(units::duration_ns(text)?);
    if delay > DELAY_MAX {
        return Err(format!("nobody waits longer than {} s", DELAY_MAX.as_secs()));
    }
    Ok(delay)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_read() {
        assert_eq!(delay("10ms"), Ok(Duration::from_millis(10)));
        assert_eq!(delay("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(delay("0"), Ok(Duration::ZERO));
        assert!(delay("1x").is_err() && delay("").is_err() && delay("61m").is_err());
    }
}
