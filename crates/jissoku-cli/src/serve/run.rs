//! Workers and their cores, and the life of the process from its first listener to its last worker.

use std::io::{self, Write};

use clap::{Args, ValueEnum};
use jissoku_os::driver::{self, Choice};
use jissoku_os::socket::Endpoint;
use jissoku_os::uring;
use jissoku_server::{Event, Running, Server, Settings, Site, Words};

use super::failure::Failure;
use crate::units;

/// One value to clap, which would take a plain vector for a repeated option.
type CoreList = Vec<usize>;

/// Flags about workers.
#[derive(Debug, Args)]
pub(super) struct Run {
    /// Threads, each with its own connections [default: one per allowed core]
    #[arg(long, value_name = "N", allow_hyphen_values = true,
        value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: Option<u16>,
    /// Cores to keep the workers on, in turn, such as 0,1 or 0-3
    #[arg(long, value_name = "LIST", value_parser = units::cores)]
    cores: Option<CoreList>,
    /// The kernel interface that moves the bytes; auto is epoll, until a measurement says otherwise
    #[arg(long, value_enum, default_value = "auto")]
    driver: DriverChoice,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DriverChoice {
    Auto,
    Epoll,
    Uring,
}

/// How many workers there are to be, and where.
#[derive(Debug)]
pub(super) struct Crew {
    pub(super) workers: usize,
    pub(super) cores: Vec<usize>,
}

impl Run {
    /// Chooses workers and cores for this machine.
    pub(super) fn crew(&self) -> Result<Crew, Failure> {
        let allowed = jissoku_os::core::allowed().map_err(|error| Failure::of_work(&error))?;
        let cores = self.cores.clone().unwrap_or_default();
        if let Some(core) = cores.iter().find(|core| !allowed.contains(core)) {
            let allowed: Vec<String> = allowed.iter().map(ToString::to_string).collect();
            return Err(Failure::of_input(&format!(
                "core {core} is not ours to use: choose from {}",
                allowed.join(",")
            )));
        }
        let default_workers = if cores.is_empty() { allowed.len() } else { cores.len() };
        Ok(Crew { workers: self.workers.map_or(default_workers, usize::from), cores })
    }

    /// Chooses the workers' drivers.
    pub(super) fn driver(&self) -> Result<driver::Settings, Failure> {
        let choice = match self.driver {
            DriverChoice::Auto => Choice::Auto,
            DriverChoice::Epoll => Choice::Epoll,
            DriverChoice::Uring => Choice::Uring,
        };
        if choice == Choice::Uring && !uring::is_available() {
            return Err(Failure::of_input(
                "this kernel lacks io_uring, or keeps it from us: leave --driver away",
            ));
        }
        Ok(driver::Settings { choice, ..driver::Settings::default() })
    }
}

/// Serves until a signal comes, and says on standard output where. `prepare` is asked at the start and at
/// every reload.
pub(super) fn serve(
    prepare: impl Fn() -> Result<(Settings, Site), Failure>,
) -> Result<(), Failure> {
    let (settings, site) = prepare()?;
    let server = Server::listen(settings).map_err(|error| Failure::of_input(&error))?;
    // Caught before anybody can know that we listen, so that no signal ends us half-way.
    let mut words = Words::listen().map_err(|error| Failure::of_work(&error))?;
    // With fewer descriptors than hoped for, fewer connections are taken at once, and that is all.
    let _raised = jissoku_os::descriptors::raise_limit();
    let mut running = server.start(site).map_err(|error| Failure::of_work(&error))?;
    announce(&running.endpoints());
    loop {
        match running.wait(&mut words, None).map_err(|error| Failure::of_work(&error))? {
            Event::Reload => {
                if let Err(failure) = reload(&mut running, &prepare) {
                    failure.tell_and_go_on();
                }
            }
            Event::Ended => break,
            Event::Replace | Event::Stopping | Event::Other | Event::Nothing => {}
        }
    }
    running.join().map_err(|error| Failure::of_work(&error))
}

fn reload(
    running: &mut Running,
    prepare: impl Fn() -> Result<(Settings, Site), Failure>,
) -> Result<(), Failure> {
    let (settings, site) = prepare()?;
    running.reload(&settings, site).map_err(|error| Failure::of_input(&error))
}

fn announce(endpoints: &[Endpoint]) {
    let mut stdout = io::stdout().lock();
    for endpoint in endpoints {
        let line = match endpoint {
            Endpoint::Tcp(address) => format!("listening on http://{address}/"),
            Endpoint::Unix(path) => format!("listening on unix:{}", path.display()),
        };
        // Whoever closed our standard output does not want to know.
        let _told = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
    }
}
