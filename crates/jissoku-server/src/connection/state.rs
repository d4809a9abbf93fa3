//! What a connection reads and what it writes: two axes, and which bytes are parsed.

use jissoku_os::driver::{Action, UNSENT_MAX};

use crate::handler::Progress;
use crate::response::ResponseState;

/// The state of a connection on two axes.
///
/// Received bytes pass one check, [`State::intake`], wherever they come from: a receive of the
/// driver, a TLS record, or input that was kept. A head is read only if [`State::can_read_head`].
///
/// INVARIANT: a request has its response before the next head is read. So if a response is awaited
/// ([`Writing::Response`]), reading is at a request: [`Reading::Body`], [`Reading::Held`],
/// [`Reading::Complete`] or [`Reading::Tunnel`]; and with [`Reading::Complete`], it is awaited or the
/// handler is being called. Input is discarded ([`Reading::Linger`], [`Reading::Closed`]) if and only
/// if nothing more is written ([`Writing::Closed`], [`Writing::Reset`]).
#[derive(Clone, Copy, Debug)]
pub(super) struct State {
    reading: Reading,
    writing: Writing,
    /// Whether other connections are served, and the output sent, before kept input is parsed.
    is_yielded: bool,
    /// When the current state of reading began.
    since_ns: u64,
    /// When bytes were received last.
    arrived_ns: u64,
    /// Whether a limit of what is discarded has ended the connection: it must not linger again.
    is_cut: bool,
}

/// What is awaited from the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// The first byte of the connection.
    First,
    /// The first byte of the next request.
    Idle,
    /// The rest of a head.
    Head,
    /// The rest of a body, of which this many bytes count for its rate.
    Body(u64),
    /// The rest of a body, once the handler wants it.
    Held,
    /// Nothing: a request is complete, and its response is not.
    Complete,
    /// Bytes of an upgraded connection.
    Tunnel(Tunnel),
    /// The rest of a body whose response is complete; this many bytes were discarded.
    Drain(u64),
    /// Lingering close after the last response: input is discarded.
    Linger(Linger),
    /// Nothing.
    Closed,
}

/// What is to be written to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writing {
    /// Nothing: no response has begun.
    Idle,
    /// The 503 for a connection over the limit.
    Refusal,
    /// The rest of a response, as the handler requested; neither [`Progress::Complete`] nor
    /// [`Progress::Reset`].
    Response(Progress),
    /// Nothing: the last response is complete. Closes after flushing.
    Closed,
    /// Nothing: the connection is to be reset.
    Reset,
}

/// The client's side of an upgraded connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tunnel {
    Open,
    /// The handler has suspended receiving.
    Held,
    /// The client has shut it down.
    Ended,
}

/// What is discarded behind the last response of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Linger {
    /// Bytes that the client has announced: the rest of a body. The write side is shut down after
    /// them only, because some clients take an end of the stream for the end of their upload.
    announced: u64,
    discarded: u64,
}

/// A parsed request whose response is not complete.
#[derive(Debug)]
pub(super) struct Request<R> {
    pub(super) state: R,
    pub(super) response: ResponseState,
    /// Whether the handler is called while the body is received.
    pub(super) is_streamed: bool,
    /// Whether the client waits for `100 Continue`, and did not get it yet.
    pub(super) awaits_continue: bool,
}

/// The circumstances of a call of the handler.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallInfo {
    /// No bytes of a later request were received.
    pub(super) is_last: bool,
    /// Bytes of earlier output that are not sent yet.
    pub(super) unsent: usize,
}

/// What becomes of received bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Intake {
    /// They are parsed.
    Parse,
    /// They are kept until the response of the request before them is complete, or sent.
    Keep,
    /// They are passed to the handler of an upgraded connection.
    PassOn,
    /// They are discarded: no further request is answered.
    Discard,
}

impl State {
    pub(super) const fn new(is_over_limit: bool, now_ns: u64) -> Self {
        Self {
            reading: Reading::First,
            writing: if is_over_limit { Writing::Refusal } else { Writing::Idle },
            is_yielded: false,
            since_ns: now_ns,
            arrived_ns: now_ns,
            is_cut: false,
        }
    }

    pub(super) const fn reading(&self) -> Reading {
        self.reading
    }

    /// How long the current state of reading has lasted.
    pub(super) const fn elapsed_ns(&self, now_ns: u64) -> u64 {
        now_ns - self.since_ns
    }

    /// For how long nothing was received in the current state of reading.
    pub(super) fn pause_ns(&self, now_ns: u64) -> u64 {
        now_ns - self.since_ns.max(self.arrived_ns)
    }

    /// When the bytes that are being processed were received.
    pub(super) const fn arrived_ns(&self) -> u64 {
        self.arrived_ns
    }

    /// Whether nothing was received, and a request may come.
    pub(super) const fn is_first(&self) -> bool {
        matches!((self.reading, self.writing), (Reading::First, Writing::Idle))
    }

    /// Whether no request has begun.
    #[inline]
    pub(super) const fn is_idle(&self) -> bool {
        matches!((self.reading, self.writing), (Reading::First | Reading::Idle, Writing::Idle))
    }

    pub(super) const fn is_refusal_due(&self) -> bool {
        matches!(self.writing, Writing::Refusal)
    }

    pub(super) const fn is_yielded(&self) -> bool {
        self.is_yielded
    }

    /// Whether the connection closes after flushing, and discards no input.
    #[inline]
    pub(super) const fn is_closed(&self) -> bool {
        matches!((self.reading, self.writing), (Reading::Closed, Writing::Closed))
    }

    /// Whether the connection is closed, and may discard input of the client before that: no limit
    /// has ended it while it did.
    #[inline]
    pub(super) const fn may_linger(&self) -> bool {
        self.is_closed() && !self.is_cut
    }

    pub(super) const fn is_tunnel(&self) -> bool {
        matches!(self.reading, Reading::Tunnel(_))
    }

    /// Whether input of the client is discarded that it may still send.
    #[inline]
    pub(super) const fn is_discarding(&self) -> bool {
        matches!(self.reading, Reading::Drain(_) | Reading::Linger(_))
    }

    /// Whether the response is awaited of a request that is complete.
    pub(super) const fn is_request_complete(&self) -> bool {
        matches!(self.reading, Reading::Complete)
    }

    /// Whether the response is to be continued at a time.
    #[inline]
    pub(super) const fn has_timer(&self) -> bool {
        matches!(self.writing, Writing::Response(Progress::Until(_)))
    }

    /// Whether the head of a request may be read: the one before has its response.
    #[inline]
    pub(super) const fn can_read_head(&self) -> bool {
        let is_between = matches!(self.reading, Reading::First | Reading::Idle | Reading::Head);
        is_between && matches!(self.writing, Writing::Idle) && !self.is_yielded
    }

    /// What becomes of received bytes. Checked before each step of the parser: nothing else leads
    /// to it.
    #[inline]
    pub(super) const fn intake(&self) -> Intake {
        if self.can_read_head() {
            return Intake::Parse;
        }
        match self.reading {
            Reading::Linger(_) | Reading::Closed => Intake::Discard,
            _ if self.is_refusal_due() => Intake::Discard,
            _ if self.is_yielded => Intake::Keep,
            Reading::Tunnel(_) => Intake::PassOn,
            // At the end of a body it is `Complete` or `Idle`.
            Reading::Body(_) | Reading::Held | Reading::Drain(_) => Intake::Parse,
            Reading::First | Reading::Idle | Reading::Head | Reading::Complete => Intake::Keep,
        }
    }

    #[inline]
    pub(super) fn next(&self) -> Action {
        if self.is_yielded {
            return Action::Yield;
        }
        match (self.writing, self.reading) {
            (Writing::Idle | Writing::Refusal, _) => Action::Receive,
            (Writing::Response(Progress::Sent), _) => Action::Yield,
            (Writing::Response(Progress::Flush), _) => Action::Flush,
            (Writing::Response(progress), Reading::Body(_) | Reading::Tunnel(Tunnel::Open)) => {
                match progress {
                    Progress::ShutdownWrite => Action::ShutdownWrite,
                    _ => Action::Receive,
                }
            }
            (Writing::Response(_), _) => Action::Suspend,
            (Writing::Closed, Reading::Linger(linger)) if linger.is_awaited() => Action::Receive,
            (Writing::Closed, Reading::Linger(_)) => Action::ShutdownWrite,
            (Writing::Closed, _) => Action::Close,
            (Writing::Reset, _) => Action::Reset,
        }
    }

    /// Whether a response is to be continued.
    pub(super) const fn is_due(&self, unsent: usize, now_ns: u64) -> bool {
        let Writing::Response(progress) = self.writing else { return false };
        match progress {
            Progress::Complete | Progress::Reset => false,
            Progress::Until(due_ns) => due_ns <= now_ns,
            Progress::Sent => unsent == 0,
            Progress::Flush => unsent <= UNSENT_MAX,
            Progress::Pending | Progress::ShutdownWrite => true,
        }
    }

    /// Another worker has passed the connection on while it was idle.
    pub(super) const fn after_move(&mut self) {
        if self.is_first() {
            self.reading = Reading::Idle;
        }
    }

    /// Bytes were received.
    #[inline]
    pub(super) const fn receive(&mut self, now_ns: u64) {
        self.arrived_ns = now_ns;
    }

    /// Other connections are served before the rest of the input is parsed.
    pub(super) const fn yield_turn(&mut self) {
        self.is_yielded = true;
    }

    /// It is the turn of the kept input.
    pub(super) const fn take_turn(&mut self, now_ns: u64) {
        if self.is_yielded && matches!(self.reading, Reading::Body(_)) {
            // The rate counts only from now on: until now nothing was received from the client.
            self.read(Reading::Body(0), now_ns);
        }
        self.is_yielded = false;
    }

    /// A head is incomplete, of which nothing was received unless it `has_begun`. Its time is not
    /// restarted by further bytes.
    pub(super) const fn await_head(&mut self, has_begun: bool, now_ns: u64) {
        if matches!(self.reading, Reading::First | Reading::Idle) {
            self.read(if has_begun { Reading::Head } else { Reading::Idle }, now_ns);
        }
    }

    /// A head was read, and the request is complete.
    #[inline]
    pub(super) fn begin_request(&mut self) {
        debug_assert!(self.can_read_head(), "a request has its response first");
        self.reading = Reading::Complete;
    }

    /// A head was read, and a body follows.
    pub(super) fn begin_body(&mut self, now_ns: u64) {
        debug_assert!(self.can_read_head(), "a request has its response first");
        self.read(Reading::Body(0), now_ns);
    }

    /// A part of the body was received.
    pub(super) const fn count_body(&mut self, size: u64) {
        if let Reading::Body(received) = &mut self.reading {
            *received += size;
        }
    }

    pub(super) const fn end_body(&mut self) {
        self.reading = Reading::Complete;
    }

    /// The time of the body begins now.
    pub(super) const fn restart_body(&mut self, now_ns: u64) {
        self.since_ns = now_ns;
    }

    /// Bytes of a body that were received long ago do not count for its rate: at most `size_max`.
    pub(super) fn forget_early_bytes(&mut self, size_max: u64) {
        if let Reading::Body(received) = &mut self.reading {
            *received = size_max.min(*received);
        }
    }

    /// The response to a complete request is continued later.
    #[inline]
    pub(super) const fn await_response(&mut self, progress: Progress) {
        self.writing = Writing::Response(progress);
    }

    /// As [`State::await_response`], while the body is received if it `is_wanted`.
    pub(super) const fn stream(&mut self, progress: Progress, is_wanted: bool, now_ns: u64) {
        self.writing = Writing::Response(progress);
        match (self.reading, is_wanted) {
            (Reading::Body(_), false) => self.reading = Reading::Held,
            // The rate counts only from now on: until now nothing was received from the client.
            (Reading::Held, true) => self.read(Reading::Body(0), now_ns),
            _ => {}
        }
    }

    /// As [`State::stream`], of an upgraded connection.
    pub(super) const fn tunnel(&mut self, progress: Progress, is_wanted: bool) {
        self.writing = Writing::Response(progress);
        self.reading = Reading::Tunnel(match self.reading {
            Reading::Tunnel(Tunnel::Ended) => Tunnel::Ended,
            _ if is_wanted => Tunnel::Open,
            _ => Tunnel::Held,
        });
    }

    /// The client of an upgraded connection has shut down its side.
    pub(super) const fn end_tunnel(&mut self) {
        self.reading = Reading::Tunnel(Tunnel::Ended);
    }

    /// A request has its response, and both are complete: the next request may come.
    #[inline]
    pub(super) const fn finish(&mut self, now_ns: u64) {
        (self.reading, self.writing) = (Reading::Idle, Writing::Idle);
        self.since_ns = now_ns;
    }

    /// A response is complete before the body, whose rest is discarded.
    pub(super) const fn drain(&mut self, now_ns: u64) {
        self.writing = Writing::Idle;
        self.read(Reading::Drain(0), now_ns);
    }

    /// The last response is complete. Input is discarded, at first the `announced` bytes.
    pub(super) const fn linger(&mut self, announced: u64, now_ns: u64) {
        self.writing = Writing::Closed;
        self.read(Reading::Linger(Linger { announced, discarded: 0 }), now_ns);
    }

    /// `size` bytes were discarded, of a body or behind the last response: at most `size_max`.
    pub(super) const fn discard(&mut self, size: u64, size_max: u64) {
        match &mut self.reading {
            Reading::Drain(discarded) | Reading::Linger(Linger { discarded, .. }) => {
                *discarded += size;
                if *discarded > size_max {
                    self.cut();
                }
            }
            _ => {}
        }
    }

    /// The client has shut down its side. It may still wait for the response to a complete request, or
    /// for those to kept input.
    pub(super) const fn end_input(&mut self) {
        let is_reset = matches!(self.writing, Writing::Reset);
        if !is_reset && !self.is_yielded && !self.is_request_complete() {
            self.close();
        }
    }

    /// Nothing more is read or written.
    #[inline]
    pub(super) const fn close(&mut self) {
        (self.reading, self.writing) = (Reading::Closed, Writing::Closed);
        self.is_yielded = false;
    }

    /// As [`State::close`], by a limit of what is discarded: what the client goes on to send is not
    /// read, and resets the connection.
    pub(super) const fn cut(&mut self) {
        self.close();
        self.is_cut = true;
    }

    /// As [`State::close`], by a reset.
    pub(super) const fn reset(&mut self) {
        self.close();
        self.writing = Writing::Reset;
    }

    const fn read(&mut self, reading: Reading, now_ns: u64) {
        self.reading = reading;
        self.since_ns = now_ns;
        self.is_yielded = false;
    }

    /// Panics unless the invariant holds. `has_request`: there is a request without a complete
    /// response.
    #[cfg(test)]
    pub(super) fn check(&self, has_request: bool) {
        let is_over = matches!(self.writing, Writing::Closed | Writing::Reset);
        assert_eq!(is_over, matches!(self.reading, Reading::Linger(_) | Reading::Closed));
        let is_response = matches!(self.writing, Writing::Response(_));
        let is_at_request = match self.reading {
            Reading::Held | Reading::Complete | Reading::Tunnel(_) => {
                assert!(is_response, "a request without a response: {self:?}");
                true
            }
            Reading::Body(_) => true,
            _ => {
                assert!(!is_response, "a response without a request: {self:?}");
                false
            }
        };
        assert!(is_over || is_at_request == has_request, "of another request: {self:?}");
        assert!(!self.is_yielded || !is_over, "a turn after the end: {self:?}");
    }
}

impl Linger {
    const fn is_awaited(self) -> bool {
        self.discarded < self.announced
    }
}
