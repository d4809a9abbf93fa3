//! `jissoku floor`: a minimal server, a minimal forwarder and a minimal client.

use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::time::Duration;

use clap::{Subcommand, ValueEnum};
use jissoku_floor::{Bound, Driver, LoadResult};
use jissoku_load::Address;
use jissoku_os::signal::{SIGINT, SIGTERM, Signals};
use jissoku_os::socket::Endpoint;

use crate::units;

/// Limit of a connection attempt to one of several addresses.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// A minimal server, a minimal forwarder and a minimal client
#[derive(Debug, clap::Args)]
pub(crate) struct Floor {
    #[command(subcommand)]
    side: Side,
}

#[derive(Debug, Subcommand)]
enum Side {
    Serve(Serve),
    Forward(Forward),
    Load(Load),
}

/// Answers every request with the same bytes, as cheaply as possible
#[derive(Debug, clap::Args)]
struct Serve {
    /// Address to listen on: HOST:PORT or unix:PATH; may be repeated; port 0 picks a free port
    #[arg(long, value_name = "WHERE", default_value = "127.0.0.1:8000")]
    listen: Vec<Endpoint>,
    /// Worker threads, each with its own connections
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: u16,
    /// Kernel interface of the event loop. epoll is cheapest at moderate rates, uring with large
    /// batches; auto is uring if the kernel supports it
    #[arg(long, value_enum, default_value = "epoll")]
    driver: DriverChoice,
}

/// Relays bytes between each accepted connection and one of its own to a server, or asks it the same
/// for each request
#[derive(Debug, clap::Args)]
struct Forward {
    /// The server: HOST:PORT or unix:PATH
    #[arg(long, value_name = "WHERE")]
    to: Endpoint,
    /// Opens a connection for each request and sends the same variables in the uwsgi protocol; only
    /// to a server on this machine
    #[arg(long)]
    uwsgi: bool,
    /// Address to listen on: HOST:PORT or unix:PATH; may be repeated; port 0 picks a free port
    #[arg(long, value_name = "WHERE", default_value = "127.0.0.1:8000")]
    listen: Vec<Endpoint>,
    /// Worker threads, each with its own connections
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: u16,
}

/// Counts responses, by their size alone
#[derive(Debug, clap::Args)]
struct Load {
    /// `http://HOST:PORT/PATH` or `unix:/PATH.sock:/URI`
    #[arg(value_name = "URL")]
    url: Address,
    /// Number of connections
    #[arg(short, long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    connections: u32,
    /// Length of the measurement window, such as 5s or 300ms
    #[arg(short, long, default_value = "5s", value_parser = units::duration_ns)]
    duration: u64,
    /// Load before the window, not counted
    #[arg(long, default_value = "300ms", value_parser = units::duration_ns)]
    warmup: u64,
    /// Requests in flight on one connection
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u16).range(1..))]
    pipeline: u16,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DriverChoice {
    Auto,
    Epoll,
    Uring,
}

impl Floor {
    pub(crate) fn run(self) -> u8 {
        let ended = match self.side {
            Side::Serve(serve) => serve.run(),
            Side::Forward(forward) => forward.run(),
            Side::Load(load) => load.run(),
        };
        match ended {
            Ok(()) => 0,
            Err((code, message)) => {
                // The error is ignored: stderr may be closed.
                let _written = writeln!(io::stderr(), "jissoku floor: {message}");
                code
            }
        }
    }
}

/// The exit code and the message of a failure.
type ExitError = (u8, String);

impl Serve {
    fn run(self) -> Result<(), ExitError> {
        let driver = match self.driver {
            DriverChoice::Auto => Driver::Auto,
            DriverChoice::Epoll => Driver::Epoll,
            DriverChoice::Uring => Driver::Uring,
        };
        let (bound, signals) = listen(&self.listen, self.workers)?;
        bound.serve(driver, signals.as_fd()).map_err(|error| match error.kind() {
            io::ErrorKind::Unsupported => (2, error.to_string()),
            _ => failed(&error),
        })
    }
}

impl Forward {
    fn run(self) -> Result<(), ExitError> {
        let (bound, signals) = listen(&self.listen, self.workers)?;
        let ended = if self.uwsgi {
            bound.forward_uwsgi(&self.to, signals.as_fd())
        } else {
            bound.forward(&self.to, signals.as_fd())
        };
        ended.map_err(|error| failed(&error))
    }
}

/// Listens, and announces where.
fn listen(endpoints: &[Endpoint], workers: u16) -> Result<(Bound, Signals), ExitError> {
    let bound = jissoku_floor::bind(endpoints, usize::from(workers));
    let bound =
        bound.map_err(|(place, error)| (2, format!("cannot listen on {place}: {error}")))?;
    // Registered before the listeners are announced, so that no signal ends the process half-way.
    let signals = Signals::register(&[SIGTERM, SIGINT]).map_err(|error| failed(&error))?;
    for endpoint in bound.endpoints() {
        let line = match endpoint {
            Endpoint::Tcp(address) => format!("listening on http://{address}/\n"),
            Endpoint::Unix(path) => format!("listening on unix:{}\n", path.display()),
        };
        print(&line);
    }
    Ok((bound, signals))
}

fn failed(error: &io::Error) -> ExitError {
    (1, format!("the floor failed: {error}"))
}

impl Load {
    fn run(self) -> Result<(), ExitError> {
        let url = &self.url;
        let endpoint = url.endpoint(CONNECT_LIMIT);
        let plan = jissoku_floor::Load {
            endpoint: endpoint.map_err(|error| (1, format!("cannot resolve {url}: {error}")))?,
            authority: url.authority().to_owned(),
            request_target: url.request_target().to_owned(),
            connections: usize::try_from(self.connections).unwrap_or(usize::MAX),
            pipeline: usize::from(self.pipeline),
            warmup_ns: self.warmup,
            duration_ns: self.duration,
        };
        let signals = Signals::register(&[SIGTERM, SIGINT]);
        let signals = signals.map_err(|error| (1, format!("cannot register signals: {error}")))?;
        let result = jissoku_floor::load(&plan, signals.as_fd());
        let result = result.map_err(|error| (1, format!("loading {url} failed: {error}")))?;
        print(&if self.json { json(result) } else { text(result) });
        Ok(())
    }
}

fn json(result: LoadResult) -> String {
    let object = serde_json::json!({
        "schema": "jissoku.floor/2",
        "requests": result.requests,
        "duration_ns": result.duration_ns,
        "rate_rps": result.rate_rps(),
        "cpu_ns": result.cpu_ns,
        "response_size": result.response_size,
    });
    format!("{object}\n")
}

fn text(result: LoadResult) -> String {
    format!(
        "{} responses of {} bytes\nRequests/sec: {:10.2}\nClient: {:.2} us of CPU per request\n",
        result.requests,
        result.response_size,
        result.rate_rps(),
        result.cpu_us_per_request()
    )
}

fn print(text: &str) {
    let mut out = io::stdout().lock();
    // The error is ignored: stdout may be closed.
    let _written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
