//! One connection: its pending responses, and when they are due.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

use jissoku_os::socket;

use crate::oracle::request::Request;
use crate::oracle::response::ResponseWriter;
use crate::oracle::scenario::InjectedFault;

/// A response that is not due yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub(crate) request: Request,
    pub(crate) fault: InjectedFault,
    /// When its first piece is due.
    pub(crate) due_ns: u64,
    /// Its index in the log.
    pub(crate) entry: Option<usize>,
}

/// Responses that are due together are sent in one piece of up to this many bytes.
const BURST: usize = 64 * 1024;

/// The response that is being sent, or the last of several.
#[derive(Clone, Copy, Debug)]
struct Current {
    pending: Pending,
    head_size: usize,
    /// Pieces that may be sent by now.
    pieces: usize,
    piece_due_ns: u64,
}

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Requests.
    Requests,
    /// This time.
    WaitUntil(u64),
    /// Writability of the socket.
    Writable,
    /// Nothing: responses have just been sent.
    Sent,
    /// Nothing: the connection ends after a response.
    End,
}

/// How bodies are split.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SplitPlan {
    pub(crate) count: usize,
    pub(crate) gap_ns: u64,
}

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) socket: OwnedFd,
    pub(crate) number: u32,
    /// Requests received.
    pub(crate) requests: u32,
    /// The bytes of an incomplete request.
    pub(crate) input: Vec<u8>,
    pub(crate) waiting: VecDeque<Pending>,
    /// When the last pending response is due.
    pub(crate) last_due_ns: u64,
    pub(crate) has_timer: bool,
    pub(crate) wants_writable: bool,
    current: Option<Current>,
    /// Log indices of the responses in `output`.
    leaving: Vec<usize>,
    output: Vec<u8>,
    sent: usize,
}

impl Connection {
    pub(crate) fn new(socket: OwnedFd, number: u32) -> Self {
        Self {
            socket,
            number,
            requests: 0,
            input: Vec::new(),
            waiting: VecDeque::new(),
            last_due_ns: 0,
            has_timer: false,
            wants_writable: false,
            current: None,
            leaving: Vec::new(),
            output: Vec::new(),
            sent: 0,
        }
    }

    /// Makes the next step that is due and returns what to wait for; to be called until it has to
    /// wait.
    ///
    /// # Errors
    /// The error of `send(2)`: the peer is gone.
    pub(crate) fn step(
        &mut self,
        now_ns: u64,
        responses: &ResponseWriter,
        pieces: SplitPlan,
    ) -> io::Result<Next> {
        if self.current.is_none() {
            let Some(&pending) = self.waiting.front() else { return Ok(Next::Requests) };
            if pending.due_ns > now_ns {
                return Ok(Next::WaitUntil(pending.due_ns));
            }
            self.current = Some(self.gather(pending, now_ns, responses, pieces));
        }
        let Some(current) = &mut self.current else { return Ok(Next::Requests) };
        loop {
            let body_size = self.output.len() - current.head_size;
            let allowed = current.head_size + body_size * current.pieces / pieces.count.max(1);
            while self.sent < allowed {
                match socket::send(&self.socket, &self.output[self.sent..allowed])? {
                    0 => return Ok(Next::Writable),
                    count => self.sent += count,
                }
            }
            if self.sent == self.output.len() {
                break;
            }
            let due = current.piece_due_ns.saturating_add(pieces.gap_ns);
            if due > now_ns {
                return Ok(Next::WaitUntil(due));
            }
            current.pieces += 1;
            current.piece_due_ns = due;
        }
        let Pending { request, fault, .. } = current.pending;
        self.output.clear();
        self.sent = 0;
        self.current = None;
        if fault == InjectedFault::Reset {
            socket::set_linger_zero(&self.socket)?;
        }
        Ok(if responses.ends_connection(request, fault) { Next::End } else { Next::Sent })
    }

    /// Writes the response `next`, and the following ones that are due too: requests that arrived
    /// together are answered together, as servers do. Split or faulty responses are sent alone.
    fn gather(
        &mut self,
        mut next: Pending,
        now_ns: u64,
        responses: &ResponseWriter,
        pieces: SplitPlan,
    ) -> Current {
        let stands_alone = |it: &Pending| {
            pieces.count > 1
                || it.fault != InjectedFault::None
                || responses.ends_connection(it.request, it.fault)
        };
        loop {
            self.waiting.pop_front();
            let head_size = responses.write(&mut self.output, next.request, next.fault);
            self.leaving.extend(next.entry);
            let is_full = stands_alone(&next) || self.output.len() >= BURST;
            let joins = |it: &&Pending| !is_full && it.due_ns <= now_ns && !stands_alone(it);
            let Some(&behind) = self.waiting.front().filter(joins) else {
                let piece_due_ns = next.due_ns;
                return Current { pending: next, head_size, pieces: 1, piece_due_ns };
            };
            next = behind;
        }
    }

    /// The log indices of the responses that have just been sent.
    pub(crate) fn take_sent(&mut self) -> std::vec::Drain<'_, usize> {
        self.leaving.drain(..)
    }
}
