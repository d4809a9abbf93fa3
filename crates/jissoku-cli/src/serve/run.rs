//! Workers, their cores, and the time they get to part.

use std::time::Duration;

use clap::{Args, ValueEnum};
use jissoku_os::driver::{self, Choice};
use jissoku_os::uring;
use jissoku_server::Limits;

use super::failure::Failure;
use crate::units;

/// Longer than anybody waits for a server to end.
const DURATION_MAX: Duration = Duration::from_hours(24);

/// One value to clap, which would take a plain vector for a repeated option.
type CoreList = Vec<usize>;

/// Flags about workers.
#[derive(Debug, Args)]
pub(super) struct Run {
    /// Threads, each with its own connections [default: one per physical core]
    #[arg(long, value_name = "N", allow_hyphen_values = true,
        value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: Option<u16>,
    /// Cores to keep the workers on, in turn, such as 0,1 or 0-3
    #[arg(long, value_name = "LIST", value_parser = units::cores)]
    cores: Option<CoreList>,
    /// The kernel interface that moves the bytes; auto is epoll, until a measurement says otherwise
    #[arg(long, value_enum, default_value = "auto")]
    driver: DriverChoice,
    /// Keep every worker on a core of its own, as far as there are enough
    #[arg(long, conflicts_with = "cores")]
    pin: bool,
    /// After a reload, how long the workers of before keep an idle connection for one more request
    /// [default: --idle-time-max]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    drain_window: Option<Duration>,
    /// After a reload, how long the workers of before may take to answer their last clients
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "5m")]
    drain_timeout: Duration,
    /// After SIGTERM, how long a connection is kept after its last answer for one more request
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1s")]
    stop_window: Duration,
    /// After SIGTERM, how long answers may still take
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s")]
    stop_timeout: Duration,
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
        let physical = jissoku_os::core::physical().map_err(|error| Failure::of_work(&error))?;
        let default_workers = if cores.is_empty() { physical.len() } else { cores.len() };
        let workers = self.workers.map_or(default_workers, usize::from);
        let cores = match self.pin {
            true if workers <= physical.len() => physical,
            true => allowed,
            false => cores,
        };
        Ok(Crew { workers, cores })
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

    /// These limits, but for how long parting takes. Unless told otherwise, no idle connection ends sooner
    /// because of a reload.
    pub(super) fn parting(&self, limits: Limits) -> Limits {
        Limits {
            drain_idle_ns: self.drain_window.map_or(limits.idle_ns_max, nanoseconds),
            drain_ns_max: nanoseconds(self.drain_timeout),
            stop_idle_ns: nanoseconds(self.stop_window),
            stop_ns_max: nanoseconds(self.stop_timeout),
            ..limits
        }
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let duration = Duration::from_nanos(units::duration_ns(text)?);
    if duration > DURATION_MAX {
        return Err(format!("that is longer than {} h", DURATION_MAX.as_secs() / 3_600));
    }
    Ok(duration)
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
