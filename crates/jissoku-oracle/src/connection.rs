//! One connection: what it still has to say, and when.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

use jissoku_os::socket;

use crate::answer::Answers;
use crate::request::Request;
use crate::scenario::Fault;

/// An answer whose time has not come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub(crate) request: Request,
    pub(crate) fault: Fault,
    /// When its first piece is due.
    pub(crate) due_ns: u64,
    /// Its place in the log.
    pub(crate) entry: Option<usize>,
}

/// Answers that are due together leave in one piece of up to this many bytes.
const BURST: usize = 64 * 1024;

/// An answer that is being sent, or the last of several.
#[derive(Clone, Copy, Debug)]
struct Current {
    pending: Pending,
    head_size: usize,
    /// Pieces that may be sent by now.
    pieces: usize,
    piece_due_ns: u64,
}

/// What a connection needs to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Requests.
    Requests,
    /// That this moment comes.
    Time(u64),
    /// That the kernel takes more bytes.
    Room,
    /// Nothing: answers have just been given.
    Answered,
    /// Nothing: it ends, after an answer.
    End,
}

/// How bodies are cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pieces {
    pub(crate) count: usize,
    pub(crate) gap_ns: u64,
}

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) socket: OwnedFd,
    pub(crate) number: u32,
    /// Requests so far.
    pub(crate) requests: u32,
    /// The front of a request whose end has not come.
    pub(crate) input: Vec<u8>,
    pub(crate) waiting: VecDeque<Pending>,
    /// When the last answer that is known of is due.
    pub(crate) last_due_ns: u64,
    pub(crate) has_timer: bool,
    pub(crate) wants_room: bool,
    current: Option<Current>,
    /// Places in the log of the answers in `output`.
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
            wants_room: false,
            current: None,
            leaving: Vec::new(),
            output: Vec::new(),
            sent: 0,
        }
    }

    /// Does the next thing whose time has come, and says what it waits for; to be called until it waits.
    ///
    /// # Errors
    /// The error of `send(2)`: nobody is there any more.
    pub(crate) fn step(
        &mut self,
        now_ns: u64,
        answers: &Answers,
        pieces: Pieces,
    ) -> io::Result<Next> {
        if self.current.is_none() {
            let Some(&pending) = self.waiting.front() else { return Ok(Next::Requests) };
            if pending.due_ns > now_ns {
                return Ok(Next::Time(pending.due_ns));
            }
            self.current = Some(self.gather(pending, now_ns, answers, pieces));
        }
        let Some(current) = &mut self.current else { return Ok(Next::Requests) };
        loop {
            let body_size = self.output.len() - current.head_size;
            let allowed = current.head_size + body_size * current.pieces / pieces.count.max(1);
            while self.sent < allowed {
                match socket::send(&self.socket, &self.output[self.sent..allowed])? {
                    0 => return Ok(Next::Room),
                    count => self.sent += count,
                }
            }
            if self.sent == self.output.len() {
                break;
            }
            let due = current.piece_due_ns.saturating_add(pieces.gap_ns);
            if due > now_ns {
                return Ok(Next::Time(due));
            }
            current.pieces += 1;
            current.piece_due_ns = due;
        }
        let Pending { request, fault, .. } = current.pending;
        self.output.clear();
        self.sent = 0;
        self.current = None;
        if fault == Fault::Reset {
            socket::reset_on_close(&self.socket)?;
        }
        Ok(if answers.ends_connection(request, fault) { Next::End } else { Next::Answered })
    }

    /// Writes the answer to `next`, and those behind it whose time has come too: requests that arrived in one
    /// piece are answered in one, as servers do. What is cut or wrong on purpose leaves by itself.
    fn gather(
        &mut self,
        mut next: Pending,
        now_ns: u64,
        answers: &Answers,
        pieces: Pieces,
    ) -> Current {
        let stands_alone = |it: &Pending| {
            pieces.count > 1
                || it.fault != Fault::None
                || answers.ends_connection(it.request, it.fault)
        };
        loop {
            self.waiting.pop_front();
            let head_size = answers.write(&mut self.output, next.request, next.fault);
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

    /// The places in the log of the answers that have just been given.
    pub(crate) fn given(&mut self) -> std::vec::Drain<'_, usize> {
        self.leaving.drain(..)
    }
}
