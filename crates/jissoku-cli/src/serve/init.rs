//! The first process of a container: starts the server as its child, forwards signals, and reaps
//! orphans, whose parent becomes process 1.

use std::os::fd::AsFd;

use jissoku_os::inherited::{self, Inherited};
use jissoku_os::poll;
use jissoku_os::reexec::{self, Attachment, ExecSpec, ReexecChild};
use jissoku_os::signal::{self, Signals};

use super::failure::{FAILED, Failure};
use super::instance::environment;

/// Whether this process is the first of a container.
pub(super) fn is_first() -> bool {
    std::process::id() == 1
}

/// Runs the server as a child, and returns its exit code.
pub(super) fn run() -> Result<u8, Failure> {
    let signals =
        [signal::SIGTERM, signal::SIGINT, signal::SIGHUP, signal::SIGUSR1, signal::SIGUSR2];
    let register = |signal: i32| Ok((signal, Signals::register(&[signal])?));
    let failed = |error: std::io::Error| Failure::of_work(&error);
    let mut signals: Vec<(i32, Signals)> =
        signals.into_iter().map(register).collect::<std::io::Result<_>>().map_err(failed)?;
    let mut child_exits = Signals::register(&[signal::SIGCHLD]).map_err(failed)?;
    let inherited = inherited::take_listen_fds().map_err(|error| Failure::of_input(&error))?;
    let sockets: Vec<_> = inherited.into_iter().map(|Inherited { name, fd }| (name, fd)).collect();
    let spec = ExecSpec::of_this_process(environment()).map_err(failed)?;
    let child = ReexecChild::start(&spec, &sockets, Attachment::Detached).map_err(failed)?;
    drop(sockets);
    loop {
        let sources = signals.iter().map(|(_, signals)| signals.as_fd());
        let sources: Vec<_> = sources.chain([child_exits.as_fd()]).collect();
        poll::wait_readable(&sources, None).map_err(failed)?;
        child_exits.count();
        for (signal, received) in &mut signals {
            if received.count() > 0 {
                // The error is ignored: the child may have exited.
                let _sent = child.send_signal(*signal);
            }
        }
        while let Some((pid, exit)) = reexec::reap_any() {
            if pid == child.pid() {
                return Ok(exit.code.and_then(|code| u8::try_from(code).ok()).unwrap_or(FAILED));
            }
        }
    }
}
