//! A run, from a plan to its outcome.

use std::thread::scope;
use std::time::Duration;

use jissoku_os::process;
use jissoku_os::tsc::Clock;

use crate::control::{Control, RunError};
use crate::cpu_monitor::CpuMonitor;
use crate::options::ClockSource;
use crate::outcome::Outcome;
use crate::plan::Plan;
use crate::recorder::WindowHooks;
use crate::worker_set::WorkerSet;

/// Runs a plan that has passed [`Plan::check`].
///
/// # Errors
/// See [`RunError`].
pub fn run(plan: &Plan, control: Control<'_>) -> Result<Outcome, RunError> {
    let timeout = Duration::from_nanos(plan.timeout_ns);
    let endpoints = plan.targets.iter().map(|target| {
        let no_such_host = |error| RunError::NoSuchHost { url: target.address.to_string(), error };
        target.address.endpoint(timeout).map_err(no_such_host)
    });
    let endpoints = endpoints.collect::<Result<Vec<_>, _>>()?;
    for pid in plan.targets.iter().filter_map(|target| target.watch_pid) {
        if process::process_tree(pid)?.is_empty() {
            return Err(RunError::NoSuchProcess { pid });
        }
    }
    let monitor = CpuMonitor::new(plan.targets.iter().map(|target| target.watch_pid).collect());
    let clock = match plan.clock {
        ClockSource::Best | ClockSource::Batch => Clock::calibrate(),
        ClockSource::Kernel => Clock::monotonic(),
    };
    scope(|scope| {
        let worker_set = WorkerSet::start(
            scope,
            plan,
            &endpoints,
            WindowHooks { monitor: &monitor, on_window_event: control.on_window_event },
            (clock, control.observer.map_or(&[], |observer| observer.lengths_ns)),
        )?;
        worker_set.measure(&monitor, control)
    })
}
