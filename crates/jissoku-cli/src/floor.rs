//! `jissoku floor`: a minimal server and a minimal forwarder.

use std::io;
use std::os::fd::AsFd as _;

use clap::Subcommand;
use jissoku_lab::floor::Bound;
use jissoku_os::signal::{SIGINT, SIGTERM, Signals};
use jissoku_os::socket::Endpoint;

use crate::usage::{ExitError, announce, exit_code};

/// A minimal server and a minimal forwarder
#[derive(Debug, clap::Args)]
pub(crate) struct Floor {
    #[command(subcommand)]
    side: Side,
}

#[derive(Debug, Subcommand)]
enum Side {
    Serve(Serve),
    Forward(Forward),
}

/// Answers every request with the same bytes, as cheaply as possible
#[derive(Debug, clap::Args)]
struct Serve {
    #[command(flatten)]
    listeners: Listeners,
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
    #[command(flatten)]
    listeners: Listeners,
}

#[derive(Debug, clap::Args)]
struct Listeners {
    /// Address to listen on: HOST:PORT or unix:PATH; may be repeated; port 0 picks a free port
    #[arg(long, value_name = "WHERE", default_value = "127.0.0.1:8000")]
    listen: Vec<Endpoint>,
    /// Worker threads, each with its own connections
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: u16,
}

impl Floor {
    pub(crate) fn run(self) -> u8 {
        let ended = match self.side {
            Side::Serve(serve) => serve.run(),
            Side::Forward(forward) => forward.run(),
        };
        exit_code("floor", ended)
    }
}

impl Serve {
    fn run(self) -> Result<(), ExitError> {
        let (bound, signals) = self.listeners.open()?;
        bound.serve(signals.as_fd()).map_err(|error| failed(&error))
    }
}

impl Forward {
    fn run(self) -> Result<(), ExitError> {
        let (bound, signals) = self.listeners.open()?;
        let ended = if self.uwsgi {
            bound.forward_uwsgi(&self.to, signals.as_fd())
        } else {
            bound.forward(&self.to, signals.as_fd())
        };
        ended.map_err(|error| failed(&error))
    }
}

impl Listeners {
    fn open(&self) -> Result<(Bound, Signals), ExitError> {
        let bound = jissoku_lab::floor::bind(&self.listen, usize::from(self.workers));
        let bound =
            bound.map_err(|(place, error)| (2, format!("cannot listen on {place}: {error}")))?;
        // Registered before the listeners are announced, so that no signal ends the process half-way.
        let signals = Signals::register(&[SIGTERM, SIGINT]).map_err(|error| failed(&error))?;
        bound.endpoints().iter().for_each(announce);
        Ok((bound, signals))
    }
}

fn failed(error: &io::Error) -> ExitError {
    (1, format!("the floor failed: {error}"))
}
