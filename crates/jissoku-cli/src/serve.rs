//! `jissoku serve`: a folder, a fixed text, or the common contract, until a signal comes.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use jissoku_os::signal::{SIGINT, SIGTERM, Signals};
use jissoku_os::socket::Endpoint;
use jissoku_server::{Contract, Files, Fixed, Limits, Server, Settings, Site};

/// Exit codes, as everywhere in jissoku.
const FINE: u8 = 0;
const FAILED: u8 = 1;
const BAD_INPUT: u8 = 2;

/// Longer than anybody waits for an answer.
const DELAY_MAX: Duration = Duration::from_secs(3600);

/// A slowdown of a second per request is no slowdown but an outage.
const BUSY_NS_MAX: u64 = 1_000_000_000;

/// Serves a folder, a fixed text, or the common contract.
#[derive(Debug, Args)]
#[group(id = "what", required = true, multiple = true, args = ["folder", "fixed", "contract"])]
pub(crate) struct Serve {
    /// The folder to serve, kept in memory; with --contract it appears under /files/
    #[arg(value_name = "DIR", conflicts_with = "fixed")]
    folder: Option<PathBuf>,
    /// Answer every request with TEXT
    #[arg(long, value_name = "TEXT", conflicts_with = "contract")]
    fixed: Option<String>,
    /// Serve what every target of a race serves: /, /42, /delay?ms=N and /files/NAME
    #[arg(long)]
    contract: bool,
    /// Answer TEXT, or / of the contract, no sooner than this after the request (10ms, 2s)
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "0s")]
    delay: Duration,
    /// Burn N nanoseconds of CPU time before that answer: a slowdown of known size
    #[arg(long, value_name = "N", default_value_t = 0,
        value_parser = clap::value_parser!(u64).range(..=BUSY_NS_MAX))]
    busy_ns: u64,
    /// Where to listen: HOST:PORT or unix:PATH; may be repeated; port 0 takes a free one
    #[arg(long, value_name = "WHERE", default_value = "127.0.0.1:8000")]
    listen: Vec<Endpoint>,
    /// Threads, each with its own connections [default: one per allowed core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: Option<u16>,
    /// Cores to keep the workers on, in turn (0,1)
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    cores: Vec<usize>,
}

impl Serve {
    /// Serves until SIGTERM or SIGINT, and says on standard output where.
    pub(crate) fn run(self) -> u8 {
        match self.prepare().and_then(|(server, site)| serve(server, site)) {
            Ok(()) => FINE,
            Err(Failure { code, message }) => {
                // If standard error is closed, the exit code still speaks.
                let _told = writeln!(std::io::stderr(), "jissoku serve: {message}");
                code
            }
        }
    }

    fn prepare(self) -> Result<(Server, Site), Failure> {
        let allowed = jissoku_os::core::allowed().map_err(Failure::of_work)?;
        if let Some(core) = self.cores.iter().find(|core| !allowed.contains(core)) {
            let allowed: Vec<String> = allowed.iter().map(ToString::to_string).collect();
            return Err(Failure::of_input(format!(
                "core {core} is not ours to use: choose from {}",
                allowed.join(",")
            )));
        }
        let unused = !self.delay.is_zero() || self.busy_ns > 0;
        if unused && self.fixed.is_none() && !self.contract {
            return Err(Failure::of_input("--delay and --busy-ns need --fixed or --contract"));
        }
        let default_workers = if self.cores.is_empty() { allowed.len() } else { self.cores.len() };
        let files = self.folder.as_deref().map(load).transpose()?;
        let site = match (self.fixed, files) {
            (Some(text), _) => Site::Fixed(Fixed::new(&text, self.delay, self.busy_ns)),
            (None, Some(files)) if !self.contract => Site::Files(files),
            (None, files) => Site::Contract(Contract::new(files, self.delay, self.busy_ns)),
        };
        let server = Server::listen(Settings {
            endpoints: self.listen,
            workers: self.workers.map_or(default_workers, usize::from),
            cores: self.cores,
            limits: Limits::DEFAULT,
            driver: jissoku_os::driver::Settings::default(),
        });
        Ok((server.map_err(Failure::of_input)?, site))
    }
}

fn load(folder: &Path) -> Result<Files, Failure> {
    Files::load(folder).map_err(Failure::of_input)
}

fn serve(server: Server, site: Site) -> Result<(), Failure> {
    // Caught before anybody can know that we listen, so that no signal ends us half-way.
    let signals = Signals::catch(&[SIGTERM, SIGINT]).map_err(Failure::of_work)?;
    let endpoints = server.endpoints().to_vec();
    let running = server.start(site).map_err(Failure::of_work)?;
    let mut stdout = std::io::stdout().lock();
    for endpoint in endpoints {
        let line = match endpoint {
            Endpoint::Tcp(address) => format!("listening on http://{address}/"),
            Endpoint::Unix(path) => format!("listening on unix:{}", path.display()),
        };
        // Whoever closed our standard output does not want to know.
        let _told = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
    }
    drop(stdout);
    running.wait_for_signal(signals).map_err(Failure::of_work)
}

/// Why serving has come to nothing.
struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    fn of_input(message: impl ToString) -> Self {
        Self { code: BAD_INPUT, message: message.to_string() }
    }

    fn of_work(error: impl ToString) -> Self {
        Self { code: FAILED, message: error.to_string() }
    }
}

/// Reads a number and a unit, `10ms` or `2s`.
fn duration(text: &str) -> Result<Duration, String> {
    let units = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
    let read = |(unit, unit_ns): (&str, u64)| -> Option<Duration> {
        let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
        Some(Duration::from_nanos(number.checked_mul(unit_ns)?))
    };
    match units.into_iter().find_map(read) {
        Some(duration) if duration <= DELAY_MAX => Ok(duration),
        Some(_) => Err(format!("longer than {} s", DELAY_MAX.as_secs())),
        None => Err("write a whole number and a unit, as in 10ms or 2s".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_number_and_a_unit() {
        assert_eq!(duration("10ms"), Ok(Duration::from_millis(10)));
        assert_eq!(duration("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(duration("0s"), Ok(Duration::ZERO));
        assert_eq!(duration("250us"), Ok(Duration::from_micros(250)));
        for nonsense in ["", "10", "ms", "-1s", "1.5s", "1 s", "1h", "3601s", "99999999999999999s"] {
            assert!(duration(nonsense).is_err(), "{nonsense:?}");
        }
    }
}
