//! The way from a thread that calls an application to the worker that owns the connection.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};

use jissoku_http::Head;
use jissoku_os::clock;
use jissoku_os::driver::{SendBuffer, Waker};
use jissoku_server::{AppClock, AppTimes, OwnedIdentity};
use pyo3::prelude::*;

use crate::body::Body;
use crate::body_writer::{BodyWriter, WriteOutcome};

/// A complete request.
#[derive(Debug)]
pub(crate) struct Task {
    /// Its number.
    pub(crate) request: u64,
    pub(crate) head: Head,
    /// The bytes of the head.
    pub(crate) bytes: Box<[u8]>,
    /// The listener and the address of the client.
    pub(crate) client: (usize, Option<SocketAddr>),
    pub(crate) identity: Option<Box<OwnedIdentity>>,
    pub(crate) body: Option<Body>,
    pub(crate) is_head: bool,
    pub(crate) persists: bool,
    /// When its last byte was received, on the monotonic clock.
    pub(crate) received_ns: u64,
    /// The header line with the id of the request, if it has one.
    pub(crate) request_id: Option<Arc<[u8]>>,
}

/// A command to a thread.
#[derive(Debug)]
pub(crate) enum Message {
    /// Call the application.
    Call(Box<Task>),
    /// So much of the response was sent.
    Sent(Written),
    /// The client has disconnected.
    Cancel,
}

#[expect(
    clippy::disallowed_types,
    reason = "Python requires Sync, which a receiver is not. It is never locked"
)]
type Messages = std::sync::Mutex<Option<Receiver<Message>>>;

/// Bytes and parts of a response that a thread makes before the earlier ones are sent (PEP 3333,
/// "Buffering and Streaming", lets it continue while they are being sent). Waiting for each part
/// cost a third of the CPU time of a stream of 16 KiB parts.
const AHEAD_SIZE_MAX: usize = 64 * 1024;
const PARTS_MAX: usize = 16;

/// Parts of a response, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) parts: usize,
    pub(crate) size: usize,
}

impl Written {
    pub(crate) const fn add(&mut self, more: Self) {
        self.parts += more.parts;
        self.size += more.size;
    }

    const fn remove(&mut self, sent: Self) {
        self.parts -= sent.parts;
        self.size -= sent.size;
    }

    /// Whether a thread has to wait before it makes another part of `size` bytes.
    const fn is_full(self, size: usize) -> bool {
        self.parts >= PARTS_MAX || (self.parts > 0 && self.size + size > AHEAD_SIZE_MAX)
    }
}

/// One or more parts of a response.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) output: SendBuffer,
    pub(crate) outcome: WriteOutcome,
    pub(crate) status: u16,
    /// The size of the body so far.
    pub(crate) body_size: u64,
    /// The phases so far.
    pub(crate) times: AppTimes,
    count: usize,
}

impl Part {
    pub(crate) fn written(&self) -> Written {
        Written { parts: self.count, size: self.output.size() }
    }

    /// Appends the next part.
    pub(crate) fn merge(&mut self, mut next: Self) {
        next.count += self.count;
        self.output.append_all(&mut next.output);
        std::mem::swap(&mut self.output, &mut next.output);
        *self = next;
    }
}

/// A result of a thread.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) thread: usize,
    pub(crate) request: u64,
    pub(crate) output: ThreadOutput,
}

/// Output of a thread.
#[derive(Debug)]
pub(crate) enum ThreadOutput {
    Part(Part),
    /// An interim response; the thread continues.
    Hint(Vec<u8>),
    /// The application has yielded only empty parts for a while: is its client still there?
    Nothing,
}

/// Passes results of a thread to its owner.
#[derive(Clone, Debug)]
pub(crate) struct Reports {
    pub(crate) thread: usize,
    pub(crate) events: Sender<Event>,
    pub(crate) waker: Waker,
}

impl Reports {
    pub(crate) fn send(&self, request: u64, output: ThreadOutput) {
        let _sent = self.events.send(Event { thread: self.thread, request, output });
        let _woken = self.waker.wake();
    }
}

/// The side of a thread, and the state of the response that it makes.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) reports: Reports,
    messages: Messages,
    pub(crate) request: u64,
    times: AppClock,
    /// What was reported, and is not known to be sent.
    ahead: Written,
    /// The client has disconnected.
    is_cancelled: bool,
}

impl Link {
    pub(crate) fn new(messages: Receiver<Message>, reports: Reports) -> Self {
        Self {
            reports,
            messages: Messages::new(Some(messages)),
            request: 0,
            times: AppClock::new(0),
            ahead: Written::default(),
            is_cancelled: false,
        }
    }

    /// The response to another request begins.
    pub(crate) fn begin(&mut self, request: u64, received_ns: u64, now_ns: u64) {
        self.request = request;
        self.times = AppClock::new(received_ns);
        self.times.enter(now_ns);
        self.ahead = Written::default();
        self.is_cancelled = false;
    }

    /// Waits for a message while other threads use the interpreter. `None` when there will be none.
    pub(crate) fn receive(&mut self, python: Python<'_>) -> Option<Message> {
        let slot = self.messages.get_mut().ok()?;
        let messages = slot.take()?;
        let (message, messages) = python.detach(move || (messages.recv().ok(), messages));
        *slot = Some(messages);
        message
    }

    fn try_receive(&mut self) -> Result<Message, TryRecvError> {
        let messages = self.messages.get_mut().ok().and_then(|messages| messages.as_ref());
        messages.map_or(Err(TryRecvError::Disconnected), Receiver::try_recv)
    }

    /// The part that ends now.
    pub(crate) fn part(
        &mut self,
        outcome: WriteOutcome,
        body: &BodyWriter,
        output: SendBuffer,
    ) -> Part {
        let mut times = self.times;
        times.leave(clock::monotonic_ns());
        let BodyWriter { status, body_size, .. } = *body;
        Part { output, outcome, status, body_size, times: times.times(), count: 1 }
    }

    /// Reports a part that is not the last one. Returns its size.
    pub(crate) fn report(
        &mut self,
        outcome: WriteOutcome,
        body: &BodyWriter,
        output: SendBuffer,
    ) -> usize {
        let part = self.part(outcome, body, output);
        let written = part.written();
        self.ahead.add(written);
        self.reports.send(self.request, ThreadOutput::Part(part));
        written.size
    }

    /// Reports what the application has passed to `write`, and waits until there is room for as
    /// much again. Returns whether the client is still connected.
    pub(crate) fn send_part(
        &mut self,
        python: Python<'_>,
        body: &BodyWriter,
        output: SendBuffer,
    ) -> bool {
        if output.is_empty() {
            return !self.is_cancelled;
        }
        let size = self.report(WriteOutcome::More, body, output);
        self.await_room(python, size)
    }

    /// Waits until there is room for a part of `size` bytes, and returns whether the client is still
    /// connected.
    pub(crate) fn await_room(&mut self, python: Python<'_>, size: usize) -> bool {
        while !self.is_cancelled {
            let next = if self.ahead.is_full(size) {
                self.times.leave(clock::monotonic_ns());
                let next = self.receive(python);
                self.times.enter(clock::monotonic_ns());
                next
            } else {
                match self.try_receive() {
                    Err(TryRecvError::Empty) => return true,
                    next => next.ok(),
                }
            };
            match next {
                Some(Message::Sent(sent)) => self.ahead.remove(sent),
                _ => self.is_cancelled = true,
            }
        }
        false
    }
}
