//! `jissoku floor`: the least a server and a client can do.

use std::io::{self, Write as _};
use std::os::fd::AsFd as _;

use clap::{Subcommand, ValueEnum};
use jissoku_floor::{Count, Driver};
use jissoku_load::Address;
use jissoku_os::signal::{SIGINT, SIGTERM, Signals};
use jissoku_os::socket::Endpoint;

use crate::units;

/// The least server, and the least client
#[derive(Debug, clap::Args)]
pub(crate) struct Floor {
    #[command(subcommand)]
    side: Side,
}

#[derive(Debug, Subcommand)]
enum Side {
    Serve(Serve),
    Load(Load),
}

/// Answers everything with the same bytes, as cheaply as this machine can
#[derive(Debug, clap::Args)]
struct Serve {
    /// Where to listen: HOST:PORT or unix:PATH; may be repeated; port 0 takes a free one
    #[arg(long, value_name = "WHERE", default_value = "127.0.0.1:8000")]
    listen: Vec<Endpoint>,
    /// Threads, each with its own connections
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: u16,
    /// The kernel interface that moves the bytes. epoll costs least at a moderate rate, uring in large
    /// batches; auto is uring where the kernel has it
    #[arg(long, value_enum, default_value = "epoll")]
    driver: DriverChoice,
}

/// Counts the answers that come back, by their length alone
#[derive(Debug, clap::Args)]
struct Load {
    /// `http://HOST:PORT/PATH` or `unix:/PATH.sock:/URI`
    #[arg(value_name = "URL")]
    url: Address,
    /// Connections
    #[arg(short, long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    connections: u32,
    /// Length of the measurement
    #[arg(short, long, default_value = "5s", value_parser = units::duration_ns)]
    duration: u64,
    /// Load before it, not counted
    #[arg(long, default_value = "300ms", value_parser = units::duration_ns)]
    warmup: u64,
    /// Requests in flight on one connection
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u16).range(1..))]
    pipeline: u16,
    /// Write one JSON object
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
            Side::Load(load) => load.run(),
        };
        match ended {
            Ok(()) => 0,
            Err((code, sentence)) => {
                // There is nowhere left to say that stderr is closed.
                let _written = writeln!(io::stderr(), "jissoku floor: {sentence}");
                code
            }
        }
    }
}

/// An exit code and the sentence that goes with it.
type Refusal = (u8, String);

impl Serve {
    fn run(self) -> Result<(), Refusal> {
        let broken = |error: io::Error| (1, format!("the floor broke: {error}"));
        let bound = jissoku_floor::bind(&self.listen, usize::from(self.workers));
        let bound = bound
            .map_err(|(place, error)| (2, format!("{place} cannot be listened on: {error}")))?;
        // Caught before anybody can know that we listen, so that no signal ends us half-way.
        let signals = Signals::catch(&[SIGTERM, SIGINT]).map_err(broken)?;
        let driver = match self.driver {
            DriverChoice::Auto => Driver::Auto,
            DriverChoice::Epoll => Driver::Epoll,
            DriverChoice::Uring => Driver::Uring,
        };
        for endpoint in bound.endpoints() {
            let line = match endpoint {
                Endpoint::Tcp(address) => format!("listening on http://{address}/\n"),
                Endpoint::Unix(path) => format!("listening on unix:{}\n", path.display()),
            };
            say(&line);
        }
        bound.serve(driver, signals.as_fd()).map_err(|error| match error.kind() {
            io::ErrorKind::Unsupported => (2, error.to_string()),
            _ => broken(error),
        })
    }
}

impl Load {
    fn run(self) -> Result<(), Refusal> {
        let url = &self.url;
        let endpoint = url.endpoint();
        let plan = jissoku_floor::Load {
            endpoint: endpoint.map_err(|error| (1, format!("{url} has no address: {error}")))?,
            authority: url.authority().to_owned(),
            target: url.target().to_owned(),
            connections: usize::try_from(self.connections).unwrap_or(usize::MAX),
            pipeline: usize::from(self.pipeline),
            warmup_ns: self.warmup,
            duration_ns: self.duration,
        };
        let signals = Signals::catch(&[SIGTERM, SIGINT]);
        let signals = signals.map_err(|error| (1, format!("signals cannot be caught: {error}")))?;
        let count = jissoku_floor::load(&plan, signals.as_fd());
        let count = count.map_err(|error| (1, format!("{url} could not be loaded: {error}")))?;
        say(&if self.json { json(count) } else { page(count) });
        Ok(())
    }
}

fn json(count: Count) -> String {
    let object = serde_json::json!({
        "schema": "jissoku.floor/1",
        "requests": count.requests,
        "duration_ns": count.duration_ns,
        "rate_rps": count.rate_rps(),
        "cpu_ns": count.cpu_ns,
        "answer_size": count.answer_size,
    });
    format!("{object}\n")
}

fn page(count: Count) -> String {
    format!(
        "{} answers of {} bytes\nRequests/sec: {:10.2}\nClient: {:.2} us of CPU per request\n",
        count.requests,
        count.answer_size,
        count.rate_rps(),
        count.cpu_us_per_request()
    )
}

fn say(text: &str) {
    let mut out = io::stdout().lock();
    // Whoever closed our standard output does not want to know.
    let _told = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
