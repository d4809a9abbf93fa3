//! Flags for the supervision of worker processes: when one is killed or replaced.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, IsTerminal};
use std::time::Duration;

use clap::Args;
use jissoku_os::crash_stack;
use jissoku_server::{HangWatch, ProcessSettings};

use super::failure::{Failure, print_error};
use super::systemd_env;
use crate::units;

/// The default of `--hang-timeout`, and that of `--start-timeout`: an application may load a model.
const HANG_TIMEOUT: Duration = Duration::from_secs(30);
const START_TIMEOUT: Duration = Duration::from_mins(10);

/// Flags for worker processes of applications.
#[derive(Debug, Args)]
pub(super) struct SupervisionArgs {
    /// Time that a worker process of an application may take for one iteration of its event loop;
    /// then its Python stacks are logged and it is replaced; 0 for no limit [default: 30s, and no
    /// limit with --reload or if standard input is a terminal]
    #[arg(long, value_name = "TIME", value_parser = units::duration_ns, allow_hyphen_values = true)]
    hang_timeout: Option<u64>,
    /// Time until a worker process of an application has imported it and is ready, and until a new
    /// program is ready after SIGUSR2; then it is killed; 0 for no limit [default: 10m, and no limit
    /// with --reload or if standard input is a terminal]
    #[arg(long, value_name = "TIME", value_parser = units::duration_ns, allow_hyphen_values = true)]
    start_timeout: Option<u64>,
    /// Replace a worker process after N responses; 0 for never
    #[arg(long, value_name = "N", default_value_t = 0)]
    max_requests: u64,
    /// Add a random number of up to N responses to --max-requests, for each worker process
    #[arg(long, value_name = "N", default_value_t = 0)]
    max_requests_jitter: u64,
    /// Replace a worker process whose resident memory exceeds SIZE
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    worker_memory_max: Option<u64>,
}

impl SupervisionArgs {
    /// Rejects flags that need worker processes.
    pub(super) fn check(&self, has_processes: bool) -> Result<(), Failure> {
        let given = [
            ("--max-requests", self.max_requests > 0),
            ("--max-requests-jitter", self.max_requests_jitter > 0),
            ("--worker-memory-max", self.worker_memory_max.is_some()),
        ];
        if has_processes {
            return Ok(());
        }
        Failure::of_first(&given, |flag| {
            format!(
                "{flag} needs worker processes: those of an application, MODULE:APP, or of a handler \
                 in C, FILE.c"
            )
        })
    }

    /// How worker processes are started and watched.
    pub(super) fn processes(&self, reloads_on_change: bool) -> ProcessSettings {
        ProcessSettings {
            program: systemd_env::worker_program,
            variables: Vec::new(),
            inherited: Vec::new(),
            report: print_error,
            memory_max: self.worker_memory_max,
            start_timeout: self.start_timeout(reloads_on_change),
        }
    }

    /// When a worker process counts as hung.
    pub(super) fn hang_watch(&self, reloads_on_change: bool) -> Option<HangWatch> {
        let timeout = limit(self.hang_timeout, HANG_TIMEOUT, may_be_debugged(reloads_on_change))?;
        Some(HangWatch { timeout, on_hang })
    }

    /// How long a worker process or a new program may take until it is ready.
    pub(super) fn start_timeout(&self, reloads_on_change: bool) -> Option<Duration> {
        limit(self.start_timeout, START_TIMEOUT, may_be_debugged(reloads_on_change))
    }

    /// The number of responses after which a worker process is replaced.
    pub(super) fn requests_max(&self) -> Option<u64> {
        let jitter = match self.max_requests_jitter {
            0 => 0,
            // The keys of a hash map are random.
            largest => RandomState::new().build_hasher().finish() % largest.saturating_add(1),
        };
        (self.max_requests > 0).then(|| self.max_requests.saturating_add(jitter))
    }
}

/// Whether a user may stop the application in a debugger.
fn may_be_debugged(reloads_on_change: bool) -> bool {
    reloads_on_change || io::stdin().is_terminal()
}

/// A limit of the time that the code of an application takes, unless it is 0. Without one that is
/// given, there is none where a user may be in a debugger, which occupies the worker.
fn limit(given_ns: Option<u64>, default: Duration, may_be_debugged: bool) -> Option<Duration> {
    let default = (!may_be_debugged).then_some(default);
    given_ns.map(Duration::from_nanos).or(default).filter(|limit| !limit.is_zero())
}

/// Ends this process with the signal on which the interpreter writes its stacks (`faulthandler`), or
/// the thread of a handler its own.
fn on_hang(index: usize) {
    print_error(&format!("worker {index} is busy for longer than --hang-timeout and is killed"));
    crash_stack::abort_here();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_debugger_has_no_limit_unless_one_is_given() {
        let second = Duration::from_secs(1);
        for default in [HANG_TIMEOUT, START_TIMEOUT] {
            assert_eq!(limit(None, default, false), Some(default));
            assert_eq!(limit(None, default, true), None);
            for may_be_debugged in [false, true] {
                assert_eq!(limit(Some(1_000_000_000), default, may_be_debugged), Some(second));
                assert_eq!(limit(Some(0), default, may_be_debugged), None);
            }
        }
    }

    #[test]
    fn a_large_model_can_be_loaded_by_default() {
        assert!(START_TIMEOUT >= Duration::from_mins(5));
    }
}
