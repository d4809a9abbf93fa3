//! Flags for workers, their cores, and draining.

use std::ffi::OsStr;
use std::time::Duration;

use clap::{ArgMatches, Args};
use jissoku_os::driver::{self, Backend};
use jissoku_os::uring;
use jissoku_server::Limits;

use super::failure::Failure;
use crate::units;

/// The most worker threads or processes.
const WORKERS_MAX: u16 = 1024;

/// Defaults of `--drain-timeout` and `--stop-timeout`, and of both with `--reload`.
const DRAIN_TIMEOUT: Duration = Duration::from_mins(5);
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
const DEVELOPMENT_TIMEOUT: Duration = Duration::from_secs(1);

/// Upper limit of the drain and stop times.
const DURATION_MAX: Duration = Duration::from_hours(24);

/// A type alias, because clap treats a field of type `Vec` as a repeated option.
type CoreList = Vec<usize>;

/// Flags for workers.
#[derive(Debug, Args)]
pub(super) struct WorkerArgs {
    /// Number of worker threads, or of worker processes of an application [default: one per
    /// physical core; for an application `$WEB_CONCURRENCY`, or one]
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = worker_count)]
    workers: Option<u16>,
    /// Cores to pin the workers to, round-robin, such as 0,1 or 0-3
    #[arg(long, value_name = "LIST", value_parser = units::cores)]
    cores: Option<CoreList>,
    /// I/O backend; auto is epoll
    #[arg(long, value_parser = units::word(DRIVERS), default_value = "auto")]
    driver: Backend,
    /// Pin every worker to a core of its own, if there are enough cores
    #[arg(long, conflicts_with = "cores")]
    pin: bool,
    /// After a reload, time that old workers keep an idle connection open for one more request
    /// [default: --idle-time-max]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    drain_window: Option<Duration>,
    /// After a reload, time until old workers close their remaining connections [default: 5m, and 1s
    /// with --reload]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    drain_timeout: Option<Duration>,
    /// After a reload, time until old workers close connections with a response that has begun, and
    /// tunnels (WebSocket) [default: --drain-timeout]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    drain_streams: Option<Duration>,
    /// After SIGTERM, time that a connection is kept open after its last response for one more
    /// request
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1s")]
    stop_window: Duration,
    /// After SIGTERM, time until remaining connections are closed; a worker that its application
    /// occupies is killed 1 s later, and one in the shutdown of the lifespan at most 5 s later
    /// [default: 10s, and 1s with --reload]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    stop_timeout: Option<Duration>,
}

const DRIVERS: [(&str, Backend); 3] =
    [("auto", Backend::Auto), ("epoll", Backend::Epoll), ("uring", Backend::Uring)];

/// The number of workers and their cores.
#[derive(Debug)]
pub(super) struct WorkerPlacement {
    pub(super) workers: usize,
    pub(super) cores: Vec<usize>,
}

impl WorkerPlacement {
    /// The placement of the worker process `index`.
    pub(super) fn of_worker(self, index: usize) -> Self {
        let core = self.cores.get(index % self.cores.len().max(1)).copied();
        Self { workers: 1, cores: core.into_iter().collect() }
    }
}

impl WorkerArgs {
    /// Chooses the number of workers and their cores.
    pub(super) fn placement(&self, is_app: bool) -> Result<WorkerPlacement, Failure> {
        let allowed = jissoku_os::affinity::allowed().map_err(|error| Failure::of_work(&error))?;
        let cores = self.cores.clone().unwrap_or_default();
        if let Some(core) = cores.iter().find(|core| !allowed.contains(core)) {
            let allowed: Vec<String> = allowed.iter().map(ToString::to_string).collect();
            return Err(Failure::of_input(&format!(
                "core {core} is not available: choose from {}",
                allowed.join(",")
            )));
        }
        let physical =
            jissoku_os::affinity::physical().map_err(|error| Failure::of_work(&error))?;
        let workers = match (self.workers, cores.len()) {
            (Some(workers), _) => usize::from(workers),
            _ if is_app => workers_of_platform(std::env::var_os("WEB_CONCURRENCY").as_deref())?,
            (None, 0) => physical.len(),
            (None, count) => count,
        };
        let cores = match self.pin {
            true if workers <= physical.len() => physical,
            true => allowed,
            false => cores,
        };
        Ok(WorkerPlacement { workers, cores })
    }

    /// Chooses the I/O backend.
    pub(super) fn driver(&self) -> Result<driver::Settings, Failure> {
        if self.driver == Backend::Uring && !uring::is_available() {
            return Err(Failure::of_input(
                "io_uring is not available on this kernel: omit --driver",
            ));
        }
        Ok(driver::Settings { backend: self.driver, ..driver::Settings::default() })
    }

    /// `limits` with the times of draining and stopping. By default no idle connection is closed
    /// sooner because of a reload. In development, where a reload is frequent, streams of events
    /// do not keep the code of old workers running.
    pub(super) fn with_shutdown_limits(&self, limits: Limits, reloads_on_change: bool) -> Limits {
        let or_default = |time: Option<Duration>, default| {
            time.unwrap_or(if reloads_on_change { DEVELOPMENT_TIMEOUT } else { default })
        };
        let drain_timeout = or_default(self.drain_timeout, DRAIN_TIMEOUT);
        Limits {
            drain_idle_ns: self.drain_window.map_or(limits.idle_ns_max, nanoseconds),
            drain_ns_max: nanoseconds(drain_timeout),
            drain_streams_ns_max: nanoseconds(self.drain_streams.unwrap_or(drain_timeout)),
            stop_idle_ns: nanoseconds(self.stop_window),
            stop_ns_max: nanoseconds(or_default(self.stop_timeout, STOP_TIMEOUT)),
            ..limits
        }
    }
}

/// Why the times of draining cannot be meant, if they cannot.
pub(super) fn refusal_of_times(matches: &ArgMatches) -> Option<String> {
    let time = |id| matches.try_get_one::<Duration>(id).ok().flatten().copied();
    let reloads_on_change = matches.try_get_one("reload").ok().flatten() == Some(&true);
    let default = if reloads_on_change { DEVELOPMENT_TIMEOUT } else { DRAIN_TIMEOUT };
    let (streams, timeout) = (time("drain_streams")?, time("drain_timeout").unwrap_or(default));
    (streams < timeout).then(|| {
        let why = "streams would end before other requests";
        format!("drain-streams is shorter than drain-timeout ({timeout:?}): {why}")
    })
}

/// The number of workers; other servers have `auto`.
fn worker_count(text: &str) -> Result<u16, String> {
    match text.parse::<u16>() {
        Ok(count) if (1..=WORKERS_MAX).contains(&count) => Ok(count),
        _ => Err(format!(
            "write a number from 1 to {WORKERS_MAX}, or leave it out for one per physical core (of an \
             application, one)"
        )),
    }
}

/// The number of worker processes that a platform for applications has set.
fn workers_of_platform(variable: Option<&OsStr>) -> Result<usize, Failure> {
    let Some(text) = variable.filter(|text| !text.is_empty()) else { return Ok(1) };
    let text = text.to_string_lossy();
    worker_count(&text).map(usize::from).map_err(|_| {
        let why = format!("write a number from 1 to {WORKERS_MAX}; --workers overrides it");
        Failure::of_input(&format!("the variable WEB_CONCURRENCY is {text}: {why}"))
    })
}

fn duration(text: &str) -> Result<Duration, String> {
    let duration = Duration::from_nanos(units::duration_ns(text)?);
    if duration > DURATION_MAX {
        return Err(format!("the longest time is {} h", DURATION_MAX.as_secs() / 3_600));
    }
    Ok(duration)
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_platform_may_set_the_number_of_worker_processes() {
        let count = |variable: Option<&str>| {
            workers_of_platform(variable.map(OsStr::new)).map_err(|failure| failure.to_string())
        };
        assert_eq!((count(None), count(Some("")), count(Some("3"))), (Ok(1), Ok(1), Ok(3)));
        for wrong in ["0", "auto", "-1", "100000"] {
            assert!(count(Some(wrong)).is_err_and(|why| why.contains(wrong)), "{wrong}");
        }
    }
}
