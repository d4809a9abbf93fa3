//! A worker process: its messages, its exit, and its deadline once it has to end.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use jissoku_os::poll;
use jissoku_os::reexec::{ChildExit, ReexecChild};

use super::end_deadline::{EndAction, EndDeadline};
use crate::limits::Limits;
use crate::log::ErrorReporter;
use crate::metrics::{COUNTERS, ShardOwner, StoreCounts};
use crate::shutdown::{ABORT, MOVE_DRAIN, RELOAD_DRAIN};
use crate::worker_message::WorkerMessage;

#[derive(Debug)]
pub(super) struct Process {
    pub(super) child: ReexecChild,
    exited: OwnedFd,
    /// Received bytes that are not a whole message yet; `None` after the end.
    received: Option<Vec<u8>>,
    /// Whether it may still accept connections.
    pub(super) is_accepting: bool,
    /// Whether it has requested a replacement, which it does once.
    pub(super) wants_replacement: bool,
    /// Its counters as it last sent them.
    counters: [u64; COUNTERS],
    /// The same of stores, by their names.
    stores: BTreeMap<String, StoreCounts>,
    deadline: EndDeadline,
}

impl Process {
    pub(super) fn new(child: ReexecChild) -> io::Result<Self> {
        let exited = child.exit_fd()?;
        Ok(Self {
            child,
            exited,
            received: Some(Vec::new()),
            is_accepting: true,
            wants_replacement: false,
            counters: [0; COUNTERS],
            stores: BTreeMap::new(),
            deadline: EndDeadline::default(),
        })
    }

    /// Readable when it has exited, and when there are messages; see [`Process::take_events`].
    pub(super) fn sources(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let messages = self.received.is_some().then(|| self.child.as_fd());
        [self.exited.as_fd()].into_iter().chain(messages)
    }

    /// Reads messages if the sources say that there are some. Returns whether it has exited.
    pub(super) fn take_events(
        &mut self,
        ready: &mut impl Iterator<Item = bool>,
        (sum, limits, now_ns): (Option<&ShardOwner>, &Limits, u64),
    ) -> bool {
        let has_exited = ready.next() == Some(true);
        if self.received.is_some() && ready.next() == Some(true) {
            self.receive((sum, limits, now_ns));
        }
        has_exited
    }

    fn receive(&mut self, (sum, limits, now_ns): (Option<&ShardOwner>, &Limits, u64)) {
        let Some(received) = &mut self.received else { return };
        let mut bytes = [0; 4096];
        let size = self.child.receive(&mut bytes).unwrap_or(0);
        if size == 0 {
            self.received = None;
            self.is_accepting = false;
            // Without the pipe it cannot say when its connections have ended.
            self.deadline.on_drained(limits, now_ns);
            return;
        }
        received.extend_from_slice(&bytes[..size]);
        while let Some(message) = WorkerMessage::take(received) {
            match message {
                WorkerMessage::ReplaceMe => self.wants_replacement = true,
                WorkerMessage::NotAccepting => {
                    self.is_accepting = false;
                    // It may have received a signal from elsewhere.
                    self.deadline.on_signal(RELOAD_DRAIN, limits, now_ns);
                }
                WorkerMessage::Drained => self.deadline.on_drained(limits, now_ns),
                WorkerMessage::Overdue => self.deadline.on_overdue(now_ns),
                WorkerMessage::Counters(counters) => {
                    if let Some(sum) = sum {
                        sum.add_growth(&self.counters, &counters);
                    }
                    self.counters = *counters;
                }
                WorkerMessage::Store(name, counts) => {
                    let before = self.stores.get(&name).copied().unwrap_or_default();
                    if let Some(sum) = sum {
                        sum.add_store_growth(&name, &before, &counts);
                    }
                    self.stores.insert(name, counts);
                }
            }
        }
    }

    /// Reads the last messages of a process that has exited, and reaps it.
    pub(super) fn reap(mut self, sum: Option<&ShardOwner>) -> io::Result<ChildExit> {
        while self.received.is_some() && is_readable(&self.child) {
            self.receive((sum, &Limits::DEFAULT, 0));
        }
        self.child.wait()
    }

    /// As [`Process::reap`], for a process that was requested to end: reports how it has ended,
    /// unless it has ended well or was killed because its time was over, which is reported then.
    ///
    /// # Errors
    /// The error of `waitpid(2)`.
    pub(super) fn reap_requested(
        self,
        index: u16,
        sum: Option<&ShardOwner>,
        report: ErrorReporter,
    ) -> io::Result<()> {
        let (pid, is_killed) = (self.child.pid(), self.deadline.is_over());
        let exit = self.reap(sum)?;
        if exit.code != Some(0) && !is_killed {
            let how = exit.description;
            report(&format!("worker {index} (process {pid}) has failed while it ended: {how}"));
        }
        Ok(())
    }

    /// Requests the process to end.
    ///
    /// # Errors
    /// The error of `kill(2)`.
    pub(super) fn request_end(
        &mut self,
        signal: u8,
        limits: &Limits,
        now_ns: u64,
    ) -> io::Result<()> {
        self.deadline.on_signal(signal, limits, now_ns);
        match signal {
            ABORT => self.child.kill(),
            MOVE_DRAIN => self.child.hand_over(),
            RELOAD_DRAIN => self.child.drain(),
            _ => self.child.stop(),
        }
    }

    /// Time until [`Process::enforce_deadline`] has to be called.
    pub(super) fn left(&self, now_ns: u64) -> Option<Duration> {
        self.deadline.left(now_ns)
    }

    /// Kills the process if its time is over.
    ///
    /// # Errors
    /// The error of `kill(2)`.
    pub(super) fn enforce_deadline(
        &mut self,
        index: u16,
        report: ErrorReporter,
        now_ns: u64,
    ) -> io::Result<()> {
        match self.deadline.take_action(now_ns) {
            EndAction::Wait => Ok(()),
            EndAction::Abort => {
                let pid = self.child.pid();
                report(&format!(
                    "worker {index} (process {pid}) has not ended in time: it is killed"
                ));
                self.child.abort()
            }
            EndAction::Kill => self.child.kill(),
        }
    }
}

fn is_readable(child: &ReexecChild) -> bool {
    let readable = poll::wait_readable(&[child.as_fd()], Some(Duration::ZERO));
    readable.is_ok_and(|readable| readable.contains(&true))
}
