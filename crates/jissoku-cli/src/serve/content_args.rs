//! Flags for responses other than files, and for injected delays and faults.

use std::path::Path;
use std::time::Duration;

use clap::Args;
use jissoku_lab::fixtures::{Contract, Echo, Faulty, Fixture, FortyTwo, InjectedFault, SlowText};
use jissoku_server::{DynService, Files, Fixed};

use super::failure::Failure;
use crate::units;

/// Upper limit of `--delay`.
const DELAY_MAX: Duration = Duration::from_hours(1);

/// Upper limit of `--busy-ns`: one second per request.
const BUSY_NS_MAX: u64 = 1_000_000_000;

/// The flags that only the laboratory needs.
pub(super) const LAB_IDS: &str = "contract echo delay busy_ns cause";

/// The refusal of one of them, by its flag or its key.
pub(super) fn only_in_lab(name: &str) -> Failure {
    Failure::of_input(&format!("{name} is for the laboratory: write jissoku lab serve"))
}

/// Flags that choose the responses.
#[derive(Debug, Args)]
pub(super) struct ContentArgs {
    /// Respond to every request with TEXT
    #[arg(long, value_name = "TEXT", conflicts_with = "contract")]
    fixed: Option<String>,
    /// Serve the paths that every benchmark target serves: /, /42, /delay?ms=N and /files/NAME;
    /// `--contract e5` serves 42 at / and nothing else
    #[arg(long)]
    contract: bool,
    /// Respond with the parsed request: POST returns the body, /echo the header fields, /json all
    /// of it
    #[arg(long, conflicts_with_all = ["contract", "fixed", "folder"])]
    echo: bool,
    /// Delay the response to TEXT, or to / of the contract, by TIME after the request (10ms, 2s; at
    /// most 1h)
    #[arg(long, value_name = "TIME", value_parser = delay, allow_hyphen_values = true, default_value = "0s")]
    delay: Duration,
    /// Busy-wait for N nanoseconds of CPU time before that response (at most 1 s)
    #[arg(long, value_name = "N", default_value_t = 0, allow_hyphen_values = true,
        value_parser = clap::value_parser!(u64).range(..=BUSY_NS_MAX))]
    busy_ns: u64,
    /// Inject a fault, to test whether a benchmark detects it; may be repeated. peername[=N]: call
    /// getpeername(2) N times per request. open[=N]: open a file N times per request. split: send
    /// head and body in two sends. split-delayed: the same with Nagle's algorithm, so that the body
    /// waits for a delayed acknowledgement. close-after=N: close a connection after N requests.
    /// single-worker: give all connections to one worker. linear-timers: scan all pending delays on
    /// each wake-up. herd: wake all workers for each connection. log: write an unbuffered log line
    /// per request. crash=N: panic in a worker at its Nth request. crash-metrics=N: the same in the
    /// worker of --metrics
    #[arg(long, value_name = "NAME[=N]")]
    pub(super) cause: Vec<InjectedFault>,
}

impl ContentArgs {
    /// What is served, unless it is a directory alone.
    pub(super) fn name(&self) -> Option<&'static str> {
        let named = [
            (self.fixed.is_some(), "a fixed text"),
            (self.contract, "the benchmark contract"),
            (self.echo, "an echo"),
        ];
        named.into_iter().find_map(|(is_served, name)| is_served.then_some(name))
    }

    /// Whether the argument is the contract named `e5`, rather than a directory, written `./e5`.
    pub(super) fn is_forty_two(&self, folder: Option<&Path>) -> bool {
        self.contract && folder == Some(Path::new("e5"))
    }

    /// Rejects contradictory flags, before anything is read or opened.
    pub(super) fn check(&self, folder: Option<&Path>) -> Result<(), Failure> {
        let has_cost = self.has_cost();
        if has_cost && self.fixed.is_none() && !self.contract {
            return Err(Failure::of_input("--delay and --busy-ns need --fixed or --contract"));
        }
        if has_cost && self.is_forty_two(folder) {
            return Err(Failure::of_input(
                "--delay and --busy-ns cannot be used with --contract e5",
            ));
        }
        Ok(())
    }

    /// The service for `workers` workers: the content of these flags, else the files that `load`
    /// opens.
    pub(super) fn service(
        &self,
        folder: Option<&Path>,
        load: impl FnOnce() -> Result<Option<Files>, Failure>,
        workers: usize,
    ) -> Result<DynService, Failure> {
        if self.is_forty_two(folder) {
            return Ok(self.with_faults(FortyTwo::new().into(), workers));
        }
        let files = load()?;
        Ok(match (&self.fixed, files) {
            _ if self.echo => self.with_faults(Echo::new().into(), workers),
            (Some(text), _) if self.has_cost() => {
                self.with_faults(SlowText::new(text, self.delay, self.busy_ns).into(), workers)
            }
            (Some(text), _) if self.cause.is_empty() => Fixed::new(text).into(),
            (Some(text), _) => self.with_faults(Fixed::new(text).into(), workers),
            (None, Some(files)) if !self.contract && self.cause.is_empty() => files.into(),
            (None, Some(files)) if !self.contract => self.with_faults(files.into(), workers),
            (None, files) => {
                let contract = Contract::new(files, self.delay, self.busy_ns);
                self.with_faults(contract.into(), workers)
            }
        })
    }

    fn has_cost(&self) -> bool {
        !self.delay.is_zero() || self.busy_ns > 0
    }

    fn with_faults(&self, service: Fixture, workers: usize) -> DynService {
        if self.cause.is_empty() {
            service.into()
        } else {
            Faulty::new(service, &self.cause, workers).into()
        }
    }
}

fn delay(text: &str) -> Result<Duration, String> {
    let delay = Duration::from_nanos(units::duration_ns(text)?);
    if delay > DELAY_MAX {
        return Err(format!("the longest delay is {} s", DELAY_MAX.as_secs()));
    }
    Ok(delay)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_parsed() {
        assert_eq!(delay("10ms"), Ok(Duration::from_millis(10)));
        assert_eq!(delay("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(delay("0"), Ok(Duration::ZERO));
        assert!(delay("1x").is_err() && delay("").is_err() && delay("61m").is_err());
    }
}
