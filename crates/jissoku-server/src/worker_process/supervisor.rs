//! Watches the process of one worker: forwards signals, collects its counters, and replaces it on
//! its request or if it uses too much memory. The new process is ready before the old one drains.

use std::fmt::Debug;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use jissoku_os::driver::Waker;
use jissoku_os::reexec::ReexecChild;
use jissoku_os::{clock, poll, process};

use super::pause::Pause;
use super::start::{ProcessSettings, StopRequest, start_now};
use crate::metrics::{COUNTERS, ShardOwner};
use crate::shutdown::{ABORT, MOVE_DRAIN, RELOAD_DRAIN};
use crate::worker_message::WorkerMessage;
use crate::worker_thread::WorkerListeners;

/// How often the memory of a process is compared with its limit.
const MEMORY_INTERVAL: Duration = Duration::from_millis(500);

/// A process and its messages.
#[derive(Debug)]
struct Process {
    child: ReexecChild,
    exited: OwnedFd,
    /// Received bytes that are not a whole message yet; `None` after the end.
    received: Option<Vec<u8>>,
    /// Whether it may still accept connections.
    is_accepting: bool,
    /// Its counters as it last sent them.
    counters: [u64; COUNTERS],
}

impl Process {
    fn new(child: ReexecChild) -> io::Result<Self> {
        let exited = child.exit_fd()?;
        Ok(Self {
            child,
            exited,
            received: Some(Vec::new()),
            is_accepting: true,
            counters: [0; COUNTERS],
        })
    }

    /// Reads messages. Returns whether the process requests a replacement.
    fn receive(&mut self, sum: Option<&ShardOwner>) -> bool {
        let Some(received) = &mut self.received else { return false };
        let mut bytes = [0; 4096];
        let size = self.child.receive(&mut bytes).unwrap_or(0);
        if size == 0 {
            self.received = None;
            self.is_accepting = false;
            return false;
        }
        received.extend_from_slice(&bytes[..size]);
        let mut wants_replacement = false;
        while let Some(message) = WorkerMessage::take(received) {
            match message {
                WorkerMessage::ReplaceMe => wants_replacement = true,
                WorkerMessage::NotAccepting => self.is_accepting = false,
                WorkerMessage::Counters(counters) => {
                    if let Some(sum) = sum {
                        sum.add_growth(&self.counters, &counters);
                    }
                    self.counters = *counters;
                }
            }
        }
        wants_replacement
    }

    /// Reads the last messages before the process is reaped.
    fn receive_last(&mut self, sum: Option<&ShardOwner>) {
        while self.received.is_some() && is_readable(&self.child) {
            self.receive(sum);
        }
    }
}

fn is_readable(child: &ReexecChild) -> bool {
    let readable = poll::wait_readable(&[child.as_fd()], Some(Duration::ZERO));
    readable.is_ok_and(|readable| readable.contains(&true))
}

/// The process of one worker, and those that it has replaced.
#[derive(Debug)]
pub(super) struct Supervisor {
    settings: ProcessSettings,
    index: u16,
    /// For replacements. Dropped with the first signal, so that the last process closes them.
    listeners: Option<WorkerListeners>,
    sum: Option<ShardOwner>,
    current: Process,
    draining: Vec<Process>,
    /// Whether the current process has requested a replacement, which it does once.
    is_requested: bool,
    /// After a replacement that did not start, and after one because of memory.
    pause: Pause,
}

impl Supervisor {
    pub(super) fn new(
        settings: ProcessSettings,
        index: u16,
        listeners: WorkerListeners,
        sum: Option<ShardOwner>,
        child: ReexecChild,
    ) -> io::Result<Self> {
        Ok(Self {
            settings,
            index,
            listeners: Some(listeners),
            sum,
            current: Process::new(child)?,
            draining: Vec::new(),
            is_requested: false,
            pause: Pause::default(),
        })
    }

    /// Watches until the process has exited, and after a signal until all have. `accepting` is
    /// dropped when the process has accepted its last connection because of a signal.
    pub(super) fn run(mut self, stop: StopRequest<'_>, accepting: impl Debug) -> io::Result<()> {
        let mut accepting = Some(accepting);
        let mut is_signalled = false;
        loop {
            let (is_over, is_woken, wants_replacement) = self.wait(stop.waker)?;
            if is_woken {
                stop.waker.take();
                self.forward(stop.signal.get())?;
                self.listeners = None;
                is_signalled = true;
            }
            if is_signalled && !self.current.is_accepting {
                drop(accepting.take());
            }
            if is_over {
                self.current.receive_last(self.sum.as_ref());
                let exit = self.current.child.wait()?;
                if !is_signalled {
                    return Err(io::Error::other(exit.description));
                }
                // A requested exit is the end, whatever its code. The others were requested
                // to exit earlier.
                return self.draining.into_iter().try_for_each(|old| old.child.wait().map(drop));
            }
            self.is_requested = !is_signalled && (self.is_requested || wants_replacement);
            if is_signalled || self.pause.left_ns(clock::monotonic_ns()) > 0 {
                continue;
            }
            let size_above_limit = self.memory_above_limit();
            if self.is_requested {
                self.replace("has served as many requests as it is to serve", stop)?;
            } else if let Some(size) = size_above_limit {
                self.replace(&format!("uses {} MiB of memory", size >> 20), stop)?;
            }
            // The limit may be below what any process uses.
            if self.is_requested || size_above_limit.is_some() {
                self.pause.begin(clock::monotonic_ns());
            }
        }
    }

    /// Waits for events. Returns whether the process has exited, whether there is a signal, and
    /// whether the process requests a replacement.
    fn wait(&mut self, waker: &Waker) -> io::Result<(bool, bool, bool)> {
        let mut sources = vec![self.current.exited.as_fd(), waker.as_fd()];
        let is_open = self.current.received.is_some();
        sources.extend(is_open.then(|| self.current.child.as_fd()));
        sources.extend(self.draining.iter().map(|old| old.exited.as_fd()));
        let now_ns = clock::monotonic_ns();
        let retry = self.is_requested.then(|| Duration::from_nanos(self.pause.left_ns(now_ns)));
        let memory = self.settings.memory_max.map(|_| MEMORY_INTERVAL);
        let ready = poll::wait_readable(&sources, retry.into_iter().chain(memory).min())?;
        let (is_over, is_woken) = (ready[0], ready[1]);
        let wants_replacement = is_open && ready[2] && self.current.receive(self.sum.as_ref());
        let ended = ready[2 + usize::from(is_open)..].iter();
        for (index, _) in ended.enumerate().filter(|(_, ended)| **ended).rev().collect::<Vec<_>>() {
            let mut old = self.draining.remove(index);
            old.receive_last(self.sum.as_ref());
            old.child.wait()?;
        }
        Ok((is_over, is_woken, wants_replacement))
    }

    fn memory_above_limit(&self) -> Option<u64> {
        let size_max = self.settings.memory_max?;
        // The process may have exited.
        let size = process::resident_size(self.current.child.pid()).ok()?;
        Some(size).filter(|&size| size > size_max)
    }

    /// Starts another process, and lets the current one drain once that is ready.
    fn replace(&mut self, why: &str, stop: StopRequest<'_>) -> io::Result<()> {
        let Some(listeners) = self.listeners.as_ref() else { return Ok(()) };
        let report = self.settings.report;
        match start_now(&self.settings, self.index, listeners, stop).and_then(Process::new) {
            Ok(new) => {
                let old = std::mem::replace(&mut self.current, new);
                let drained = old.child.hand_over();
                self.draining.push(old);
                self.is_requested = false;
                report(&format!("worker {} {why} and is replaced", self.index));
                drained?;
            }
            // The current one stops, too.
            Err(_) if stop.signal.get() != 0 => {}
            Err(error) => {
                report(&format!("worker {} {why}, and stays: {error}", self.index));
            }
        }
        Ok(())
    }

    fn forward(&self, signal: u8) -> io::Result<()> {
        [&self.current].into_iter().chain(&self.draining).try_for_each(|process| match signal {
            ABORT => process.child.kill(),
            MOVE_DRAIN => process.child.hand_over(),
            RELOAD_DRAIN => process.child.drain(),
            _ => process.child.stop(),
        })
    }
}
