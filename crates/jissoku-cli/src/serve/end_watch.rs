//! Ends a process whose application keeps it from ending: a worker without a parent that would do
//! that, and a program that serves an object of its own. Neither thread needs the interpreter.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use jissoku_os::{clock, poll, signal};
use jissoku_server::ParentPipe;

use super::failure::{Failure, print_error};

/// Time for what follows after the connections are closed, such as the shutdown of the application.
const MARGIN: Duration = Duration::from_secs(5);

/// How much later than its parent a worker ends itself.
const WORKER_DELAY: Duration = Duration::from_secs(5);

/// Ends this worker when its parent has gone, also one that was killed: as a signal to stop would, and
/// by `SIGABRT` if that does not end it after `connections_time` and a margin.
///
/// The kernel has sent `SIGTERM` then ([`jissoku_os::reexec::Attachment`]), but the application may
/// ignore that while it is imported, or occupy the thread that has to answer it.
pub(super) fn end_with_parent(
    parent: ParentPipe,
    connections_time: Duration,
) -> Result<(), Failure> {
    let watch = move || {
        // An interrupted wait is repeated.
        while let Ok([false]) = poll::wait_readable(&[parent.as_fd()], None).as_deref() {}
        signal::stop_this_process();
        if EndWatch::start(connections_time, true).is_err() {
            std::process::abort();
        }
    };
    let thread = thread::Builder::new().name("parent-watch".to_owned());
    thread.spawn(watch).map(drop).map_err(|error| Failure::of_work(&error))
}

/// A process that is to end. Dropping it ends the watch.
#[derive(Debug)]
pub(super) struct EndWatch {
    _end: Option<UnixStream>,
}

impl EndWatch {
    /// Kills this process unless it ends, or the watch, within a margin after `connections_time`. A
    /// worker process is watched until its exit: threads of its application may keep it from that.
    pub(super) fn start(connections_time: Duration, is_worker: bool) -> Result<Self, Failure> {
        let (ended, end) = UnixStream::pair().map_err(|error| Failure::of_work(&error))?;
        let time =
            connections_time + MARGIN + if is_worker { WORKER_DELAY } else { Duration::ZERO };
        // A worker keeps both ends in the thread.
        let (kept, end) = if is_worker { (Some(end), None) } else { (None, Some(end)) };
        let watch = move || {
            let _kept = kept;
            let start_ns = clock::monotonic_ns();
            loop {
                let elapsed = Duration::from_nanos(clock::monotonic_ns() - start_ns);
                let left = time.saturating_sub(elapsed);
                match poll::wait_readable(&[ended.as_fd()], Some(left)) {
                    Ok(ready) if !ready.contains(&true) => {}
                    _ => return,
                }
                if left.is_zero() {
                    print_error("this process has not ended in time: it is killed");
                    // An interpreter writes its stacks on the signal of this (`faulthandler`).
                    std::process::abort();
                }
            }
        };
        let thread = thread::Builder::new().name("end-watch".to_owned());
        thread.spawn(watch).map_err(|error| Failure::of_work(&error))?;
        Ok(Self { _end: end })
    }
}
