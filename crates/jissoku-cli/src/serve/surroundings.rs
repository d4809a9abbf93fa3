//! What the process was started with beside its arguments: listeners, and somebody who wants to be told.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;

use jissoku_os::inherited::{self, Handover, Inherited};
use jissoku_os::notify::Notifier;
use jissoku_os::successor;
use jissoku_server::Sockets;

use super::failure::{Failure, complain};

/// The environment, read once.
#[derive(Debug)]
pub(super) struct Surroundings {
    /// Listeners that another process has opened for us: systemd, or the server that we succeed.
    pub(super) sockets: Sockets,
    notifier: Option<Notifier>,
    /// The server that we succeed waits at the other end.
    predecessor: Option<File>,
}

impl Surroundings {
    /// Takes over what is there.
    pub(super) fn read() -> Result<Self, Failure> {
        let values = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"].map(std::env::var_os);
        let [pid, count, names] = values.each_ref().map(|value| value.as_ref()?.to_str());
        let handover = Handover { pid, count, names };
        let mut inherited = inherited::take(handover).map_err(|error| Failure::of_input(&error))?;
        let ready = inherited.iter().position(|found| found.name == successor::READY);
        let predecessor =
            ready.map(|index| inherited.remove(index)).map(|Inherited { fd, .. }| fd.into());
        let notifier = std::env::var_os("NOTIFY_SOCKET").filter(|address| !address.is_empty());
        let notifier = notifier.and_then(|address| {
            let made = Notifier::new(&address);
            // Without it everything works but the telling.
            made.inspect_err(|error| complain(&format!("cannot use NOTIFY_SOCKET: {error}"))).ok()
        });
        let sockets = Sockets::adopt(inherited).map_err(|error| Failure::of_input(&error))?;
        Ok(Self { sockets, notifier, predecessor })
    }

    /// Tells the service manager, if there is one (`sd_notify(3)`).
    pub(super) fn tell(&self, lines: &str) {
        if let Some(notifier) = &self.notifier {
            // A manager that is not there does not want to know.
            let _told = notifier.tell(lines);
        }
    }

    /// As [`Surroundings::tell`], and nothing after that: somebody else speaks for the service.
    pub(super) fn tell_last(&mut self, lines: &str) {
        self.tell(lines);
        self.notifier = None;
    }

    /// As [`Surroundings::tell`], about a sentence that is for people.
    pub(super) fn tell_status(&self, prefix: &str, status: &str) {
        self.tell(&format!("{prefix}STATUS={}", status.replace('\n', " ")));
    }

    /// Lets the server that we succeed go.
    pub(super) fn relieve_predecessor(&mut self) {
        if let Some(mut predecessor) = self.predecessor.take() {
            // If it has gone, there is nobody to let go.
            let _told = predecessor.write_all(&[1]);
        }
    }
}

/// What a successor gets to see of it.
pub(super) fn environment() -> Vec<(OsString, OsString)> {
    std::env::vars_os().collect()
}
