//! Socket activation and `sd_notify(3)`: what systemd, `Server::Starter` or a predecessor passed in
//! the environment.

use std::fs::File;
use std::io::{self, Write};

use jissoku_os::inherited::{self, Inherited};
use jissoku_os::notify::SdNotify;
use jissoku_os::reexec::{self, ExecSpec};
use jissoku_server::{ParentPipe, Sockets, WORKER_NAME};

use super::failure::{Failure, print_error};
use super::inputs::Inputs;
use super::instance;

/// The environment, read once.
#[derive(Debug)]
pub(super) struct SystemdEnv {
    /// Listeners passed by systemd, `Server::Starter` or the predecessor.
    pub(super) sockets: Sockets,
    notifier: Option<SdNotify>,
    /// The index of this worker, if this process is one (see [`jissoku_server::WORKER_NAME`]).
    pub(super) worker: Option<usize>,
    /// What the parent has read, if this process is a worker.
    pub(super) inputs: Inputs,
    /// The pipe on which the predecessor waits for readiness.
    predecessor: Option<File>,
}

impl SystemdEnv {
    /// Takes the listeners and the notification socket from the environment.
    pub(super) fn read() -> Result<Self, Failure> {
        let mut inherited =
            inherited::take_listen_fds().map_err(|error| Failure::of_input(&error))?;
        let ready = inherited.iter().position(|found| found.name == reexec::READY);
        let predecessor =
            ready.map(|index| inherited.remove(index)).map(|Inherited { fd, .. }| fd.into());
        let worker =
            inherited.iter().find_map(|found| found.name.strip_prefix(WORKER_NAME)?.parse().ok());
        if predecessor.is_some() {
            instance::inherit();
        }
        let inputs = match worker {
            Some(_) => Inputs::take(&mut inherited).map_err(|error| Failure::of_work(&error))?,
            None => Inputs::default(),
        };
        let notifier = std::env::var_os("NOTIFY_SOCKET").filter(|address| !address.is_empty());
        let notifier = notifier.and_then(|address| {
            let made = SdNotify::new(&address);
            // The server works without notifications.
            made.inspect_err(|error| print_error(&format!("cannot use NOTIFY_SOCKET: {error}")))
                .ok()
        });
        let sockets =
            Sockets::from_inherited(inherited).map_err(|error| Failure::of_input(&error))?;
        let notifier = notifier.filter(|_| worker.is_none());
        Ok(Self { sockets, notifier, worker, inputs, predecessor })
    }

    /// Whether another process waits for this one to be ready.
    pub(super) const fn has_predecessor(&self) -> bool {
        self.predecessor.is_some()
    }

    /// Notifies the service manager, if there is one (`sd_notify(3)`).
    pub(super) fn notify(&self, lines: &str) {
        if let Some(notifier) = &self.notifier {
            // The error is ignored: the manager may have closed its socket.
            let _sent = notifier.send(lines);
        }
    }

    /// As [`SystemdEnv::notify`], and disables notifications: the successor sends them from now on.
    pub(super) fn notify_last(&mut self, lines: &str) {
        self.notify(lines);
        self.notifier = None;
    }

    /// As [`SystemdEnv::notify`], with a STATUS line for the administrator.
    pub(super) fn notify_status(&self, prefix: &str, status: &str) {
        self.notify(&format!("{prefix}STATUS={}", status.replace('\n', " ")));
    }

    /// Reports to the predecessor, if there is one, that this process is ready. Returns `false` if
    /// it has exited.
    pub(super) fn notify_predecessor(&mut self) -> bool {
        self.send(reexec::IS_READY)
    }

    /// Reports to the predecessor that this process cannot start and has printed the reason.
    pub(super) fn notify_failure(&mut self) {
        // The error is ignored: the predecessor may have exited.
        let _is_there = self.send(reexec::HAS_REPORTED);
    }

    /// The pipe to the parent, if this process is a worker.
    pub(super) fn parent_pipe(&self) -> Option<ParentPipe> {
        let pipe = self.predecessor.as_ref().filter(|_| self.worker.is_some())?;
        Some(ParentPipe::new(pipe.try_clone().ok()?))
    }

    fn send(&mut self, message: u8) -> bool {
        // A worker keeps the pipe open, because it sends further messages.
        let kept = self.worker.and(self.predecessor.as_ref()).map(File::try_clone);
        let sent = self.predecessor.take();
        self.predecessor = kept.and_then(Result::ok);
        sent.is_none_or(|mut predecessor| predecessor.write_all(&[message]).is_ok())
    }
}

/// The program of a worker process: this one, as it is on disk.
pub(super) fn worker_program() -> io::Result<ExecSpec> {
    ExecSpec::of_this_process(instance::environment())
}
