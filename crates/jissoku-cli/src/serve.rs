//! `jissoku serve`: a folder, a fixed text, or the common contract, until a signal comes.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgGroup, Args};
use jissoku_os::socket::Endpoint;
use jissoku_server::{Contract, Files, Fixed, Limits, Server, Settings, Site, Words};

use crate::units;

/// Exit codes, as everywhere in jissoku.
const FINE: u8 = 0;
const FAILED: u8 = 1;
const BAD_INPUT: u8 = 2;

/// Longer than anybody waits for an answer.
const DELAY_MAX: Duration = Duration::from_hours(1);

/// A slowdown of a second per request is no slowdown but an outage.
const BUSY_NS_MAX: u64 = 1_000_000_000;

/// Serves a folder, a fixed text, or the common contract.
#[derive(Debug, Args)]
#[command(group(
    ArgGroup::new("what").args(["folder", "fixed", "contract"]).required(true).multiple(true)
))]
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
    #[arg(long, value_name = "TIME", value_parser = delay, allow_hyphen_values = true, default_value = "0s")]
    delay: Duration,
    /// Burn N nanoseconds of CPU time before that answer: a slowdown of known size
    #[arg(long, value_name = "N", default_value_t = 0, allow_hyphen_values = true,
        value_parser = clap::value_parser!(u64).range(..=BUSY_NS_MAX))]
    busy_ns: u64,
    /// Where to listen: HOST:PORT or unix:PATH; may be repeated; port 0 takes a free one
    #[arg(long, value_name = "WHERE", default_value = "127.0.0.1:8000")]
    listen: Vec<Endpoint>,
    /// Threads, each with its own connections [default: one per allowed core]
    #[arg(long, value_name = "N", allow_hyphen_values = true,
        value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: Option<u16>,
    /// Cores to keep the workers on, in turn, such as 0,1 or 0-3
    #[arg(long, value_name = "LIST", value_parser = units::cores)]
    cores: Option<CoreList>,
}

/// One value to clap, which would take a plain vector for a repeated option.
type CoreList = Vec<usize>;

impl Serve {
    /// Serves until SIGTERM or SIGINT, and says on standard output where.
    pub(crate) fn run(self) -> u8 {
        match self.prepare().and_then(|(server, site)| serve(server, site)) {
            Ok(()) => FINE,
            Err(Failure { code, message }) => {
                // If standard error is closed, the exit code still speaks.
                let _told = writeln!(io::stderr(), "jissoku serve: {message}");
                code
            }
        }
    }

    fn prepare(self) -> Result<(Server, Site), Failure> {
        let allowed = jissoku_os::core::allowed().map_err(|error| Failure::of_work(&error))?;
        let cores = self.cores.unwrap_or_default();
        if let Some(core) = cores.iter().find(|core| !allowed.contains(core)) {
            let allowed: Vec<String> = allowed.iter().map(ToString::to_string).collect();
            return Err(Failure::of_input(&format!(
                "core {core} is not ours to use: choose from {}",
                allowed.join(",")
            )));
        }
        let has_cost = !self.delay.is_zero() || self.busy_ns > 0;
        if has_cost && self.fixed.is_none() && !self.contract {
            return Err(Failure::of_input("--delay and --busy-ns need --fixed or --contract"));
        }
        let default_workers = if cores.is_empty() { allowed.len() } else { cores.len() };
        let files = self.folder.as_deref().map(load).transpose()?;
        let site = match (self.fixed, files) {
            (Some(text), _) => Site::Fixed(Fixed::new(&text, self.delay, self.busy_ns)),
            (None, Some(files)) if !self.contract => Site::Files(files),
            (None, files) => Site::Contract(Contract::new(files, self.delay, self.busy_ns)),
        };
        let server = Server::listen(Settings {
            endpoints: self.listen,
            workers: self.workers.map_or(default_workers, usize::from),
            cores,
            limits: Limits::DEFAULT,
            driver: jissoku_os::driver::Settings::default(),
        });
        Ok((server.map_err(|error| Failure::of_input(&error))?, site))
    }
}

fn load(folder: &Path) -> Result<Files, Failure> {
    Files::load(folder).map_err(|error| Failure::of_input(&error))
}

fn serve(server: Server, site: Site) -> Result<(), Failure> {
    // Caught before anybody can know that we listen, so that no signal ends us half-way.
    let words = Words::listen().map_err(|error| Failure::of_work(&error))?;
    // With fewer descriptors than hoped for, fewer connections are taken at once, and that is all.
    let _raised = jissoku_os::descriptors::raise_limit();
    let endpoints = server.endpoints().to_vec();
    let running = server.start(site).map_err(|error| Failure::of_work(&error))?;
    let mut stdout = io::stdout().lock();
    for endpoint in endpoints {
        let line = match endpoint {
            Endpoint::Tcp(address) => format!("listening on http://{address}/"),
            Endpoint::Unix(path) => format!("listening on unix:{}", path.display()),
        };
        // Whoever closed our standard output does not want to know.
        let _told = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
    }
    drop(stdout);
    running.wait_for_word(words).map_err(|error| Failure::of_work(&error))
}

/// Why serving has come to nothing.
struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    fn of_input(message: &(impl ToString + ?Sized)) -> Self {
        Self { code: BAD_INPUT, message: message.to_string() }
    }

    fn of_work(error: &io::Error) -> Self {
        Self { code: FAILED, message: error.to_string() }
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

    fn check_refused(arguments: &[&str]) {
        let all = ["jissoku", "serve"].iter().chain(arguments).map(ToString::to_string);
        assert_eq!(crate::run(all), BAD_INPUT, "{arguments:?}");
    }

    #[test]
    fn bad_input_is_refused_before_anything_starts() {
        check_refused(&[]);
        check_refused(&["--workers", "1"]);
        check_refused(&["/nowhere/at/all"]);
        check_refused(&["--contract", "--workers", "0"]);
        check_refused(&["--contract", "--delay", "soon"]);
        check_refused(&["--contract", "--delay", "-1s"]);
        check_refused(&["--contract", "--delay", "2h"]);
        check_refused(&["--contract", "--busy-ns", "-1"]);
        check_refused(&["--contract", "--listen", "nonsense"]);
        check_refused(&["--contract", "--listen", "unix:/nowhere/at/all"]);
        check_refused(&["--contract", "--cores", "4095"]);
        check_refused(&["--contract", "--fixed", "x"]);
        check_refused(&["--fixed", "x", "."]);
        check_refused(&[".", "--delay", "1s"]);
    }

    #[test]
    fn a_port_in_use_is_refused() {
        let somebody = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = somebody.local_addr().expect("an address").to_string();
        check_refused(&["--contract", "--listen", &address]);
        check_refused(&["--contract", "--workers", "2", "--listen", &address]);
    }

    #[test]
    fn delays_are_read() {
        assert_eq!(delay("10ms"), Ok(Duration::from_millis(10)));
        assert_eq!(delay("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(delay("0"), Ok(Duration::ZERO));
        assert!(delay("1x").is_err() && delay("").is_err() && delay("61m").is_err());
    }
}
