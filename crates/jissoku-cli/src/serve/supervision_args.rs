//! Flags for the supervision of worker processes: when one is killed or replaced.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use clap::Args;
use jissoku_server::{HangWatch, ProcessSettings};

use super::failure::{Failure, print_error};
use super::systemd_env;
use crate::units;

/// Flags for worker processes of applications.
#[derive(Debug, Args)]
pub(super) struct SupervisionArgs {
    /// Time that a worker process of an application may take for one iteration of its event loop;
    /// then its Python stacks are logged and it is replaced; 0 for no limit
    #[arg(long, value_name = "TIME", value_parser = units::duration_ns, default_value = "30s",
        allow_hyphen_values = true)]
    hang_timeout: u64,
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
        match given.into_iter().find(|(_, is_given)| *is_given && !has_processes) {
            Some((flag, _)) => {
                let why = "needs worker processes: those of an application by its name, MODULE:APP";
                Err(Failure::of_input(&format!("{flag} {why}")))
            }
            None => Ok(()),
        }
    }

    /// How worker processes are started and watched.
    pub(super) fn processes(&self) -> ProcessSettings {
        ProcessSettings {
            program: systemd_env::worker_program,
            report: print_error,
            memory_max: self.worker_memory_max,
        }
    }

    /// When a worker process counts as hung.
    pub(super) fn hang_watch(&self) -> Option<HangWatch> {
        let timeout = Duration::from_nanos(self.hang_timeout);
        (!timeout.is_zero()).then_some(HangWatch { timeout, on_hang })
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

/// Ends this process with the signal on which the interpreter writes its stacks (`faulthandler`).
fn on_hang(index: usize) {
    print_error(&format!("worker {index} is busy for longer than --hang-timeout and is killed"));
    std::process::abort();
}
