//! One connection: bytes in, answers out, and how long it has been waiting for what.

mod note;
mod pace;
mod phase;
#[cfg(test)]
mod tests;
mod write;

use std::os::fd::OwnedFd;

use jissoku_http::framing::Body;
use jissoku_http::response::{self, Persistence};
use jissoku_http::{Event, Exchange, Head, Reject};
use jissoku_os::driver::{Key, Next, Output};

use crate::census::Seat;
use crate::metrics::Figure;
use crate::observer::Visit;
use crate::worker::Desk;

use pace::Stall;
use phase::{Burden, Phase, Request};
use write::{Extent, write, write_refusal, write_turned_away};

/// What is remembered of a connection between two calls.
#[derive(Debug)]
pub(crate) struct Connection {
    key: Key,
    seat: Seat,
    exchange: Exchange,
    phase: Phase,
    /// When the present phase began.
    since_ns: u64,
    /// When the bytes came that are being read; a delay counts from there.
    arrived_ns: u64,
    /// The request whose body is being read or whose delay runs.
    request: Option<Request>,
    /// Bytes that have come and could not be used yet: the start of a head, or requests behind a delayed
    /// one. An idle connection holds none.
    stash: Vec<u8>,
    /// What the peer has left lying of its answers.
    stall: Stall,
    /// What a planted cause needs.
    burden: Burden,
    visit: Visit,
}

impl Connection {
    pub(crate) fn new(key: Key, seat: Seat, now_ns: u64) -> Self {
        Self {
            key,
            seat,
            exchange: Exchange::new(),
            phase: if seat.is_over { Phase::Refused } else { Phase::Fresh },
            since_ns: now_ns,
            arrived_ns: now_ns,
            request: None,
            stash: Vec::new(),
            stall: Stall::default(),
            burden: Burden::default(),
            visit: None,
        }
    }

    /// What it is counted under.
    pub(crate) const fn seat(&self) -> Seat {
        self.seat
    }

    /// Gives it the socket that a planted cause asks for its peer.
    pub(crate) fn burden(&mut self, peer: Option<OwnedFd>) {
        self.burden.peer = peer;
    }

    /// Bytes have come.
    #[inline]
    pub(crate) fn receive(&mut self, bytes: &[u8], desk: &mut Desk, output: &mut Output) -> Next {
        if self.phase == Phase::Refused {
            self.turn_away(desk, output);
        }
        match self.phase {
            Phase::Linger(size) => return self.discard(size + bytes.len() as u64, desk),
            Phase::Closing => return self.next(),
            _ => {}
        }
        self.arrived_ns = desk.now_ns();
        if self.stash.is_empty() {
            let used = self.read(bytes, desk, output);
            if used < bytes.len() {
                self.stash.extend_from_slice(&bytes[used..]);
            }
        } else {
            self.stash.extend_from_slice(bytes);
            self.read_stash(desk, output);
        }
        self.next()
    }

    /// What has come over a TCP connection that should be TLS is a request in the clear.
    pub(crate) fn refuse_plain(
        &mut self,
        bytes: &[u8],
        desk: &mut Desk,
        output: &mut Output,
    ) -> Next {
        self.refuse(Reject::TlsMissing, bytes, desk, output);
        self.next()
    }

    /// Waits for the client to read what it was told outside of any answer.
    pub(crate) fn linger(&mut self, desk: &Desk) -> Next {
        self.stash = Vec::new();
        self.request = None;
        self.enter(Phase::Linger(0), desk);
        self.next()
    }

    /// The client will send no more. It may still wait for the answer to what it has sent.
    pub(crate) fn end(&mut self) -> Next {
        match self.phase {
            Phase::Delay { .. } | Phase::Split | Phase::Turn => {}
            _ => self.phase = Phase::Closing,
        }
        self.next()
    }

    /// Time has passed, answers have gone, or the order to stop has come.
    pub(crate) fn proceed(&mut self, unsent: usize, desk: &mut Desk, output: &mut Output) -> Next {
        let is_stalled = self.stall.is_too_long(unsent, desk);
        if is_stalled || desk.stop_is_over() {
            desk.observer().count(Figure::WriteDeadline, u64::from(is_stalled));
            self.phase = Phase::Closing;
            // What the client has not taken by now it will not get.
            return Next::Abort;
        }
        match self.phase {
            Phase::Delay { due_ns } if due_ns <= desk.now_ns() => {
                self.answer(self.stash.is_empty(), desk, output);
                self.go_on(desk);
            }
            Phase::Split if unsent == 0 => {
                self.answer_rest(desk, output);
                self.go_on(desk);
            }
            Phase::Turn if unsent == 0 => self.read_stash(desk, output),
            Phase::Refused => self.turn_away(desk, output),
            _ => self.keep_time(desk, output),
        }
        self.next()
    }

    /// Ends what takes too long. What has not begun is closed without a word; what has begun is told.
    fn keep_time(&mut self, desk: &mut Desk, output: &mut Output) {
        let limits = *desk.limits();
        let elapsed_ns = desk.now_ns() - self.since_ns;
        match self.phase {
            Phase::Fresh | Phase::Idle if desk.lets_idle_go(elapsed_ns) => {
                self.phase = Phase::Closing;
            }
            Phase::Fresh if elapsed_ns > limits.head_ns_max => {
                self.expire(Figure::HeadDeadline, desk);
            }
            Phase::Idle if elapsed_ns > limits.idle_ns_max => {
                self.expire(Figure::IdleDeadline, desk);
            }
            Phase::Head if elapsed_ns > limits.head_ns_max => {
                desk.observer().count(Figure::HeadDeadline, 1);
                let begun = std::mem::take(&mut self.stash);
                self.refuse(Reject::Timeout, &begun, desk, output);
            }
            Phase::Body(size) if limits.is_too_slow(size, elapsed_ns) => {
                desk.observer().count(Figure::BodyDeadline, 1);
                self.refuse(Reject::Timeout, &[], desk, output);
            }
            Phase::Linger(_) if elapsed_ns > limits.linger_ns_max => {
                self.expire(Figure::LingerDeadline, desk);
            }
            _ => {}
        }
    }

    fn expire(&mut self, kind: Figure, desk: &mut Desk) {
        desk.observer().count(kind, 1);
        self.phase = Phase::Closing;
    }

    /// What the phase asks of the driver.
    #[inline]
    const fn next(&self) -> Next {
        match self.phase {
            Phase::Fresh | Phase::Refused | Phase::Idle | Phase::Head | Phase::Body(_) => {
                Next::Receive
            }
            Phase::Delay { .. } => Next::Hold,
            Phase::Split | Phase::Turn => Next::Proceed,
            Phase::Linger(_) => Next::Finish,
            Phase::Closing => Next::Close,
        }
    }

    fn read_stash(&mut self, desk: &mut Desk, output: &mut Output) {
        if !matches!(
            self.phase,
            Phase::Closing | Phase::Linger(_) | Phase::Delay { .. } | Phase::Split
        ) {
            let mut stash = std::mem::take(&mut self.stash);
            let used = self.read(&stash, desk, output);
            if used < stash.len() {
                stash.drain(..used);
                self.stash = stash;
            }
        }
    }

    /// Understands and answers what is there, leaves the phase as it then is, and returns how many bytes
    /// were used up.
    #[inline]
    fn read(&mut self, bytes: &[u8], desk: &mut Desk, output: &mut Output) -> usize {
        let mut used = 0;
        for _ in 0..desk.limits().steps_per_turn_max {
            let step = match self.exchange.step(&bytes[used..], &desk.limits().request) {
                Ok(step) => step,
                Err(reject) => {
                    self.refuse(reject, &bytes[used..], desk, output);
                    return bytes.len();
                }
            };
            let start = used;
            used += step.used;
            let is_last = used == bytes.len();
            match step.event {
                Event::Head(head) => {
                    let now_ns = desk.now_ns();
                    let plan = desk.service_mut().plan(&head, &bytes[start..], now_ns);
                    self.request = Some(Request::new(&head, plan));
                    self.note_head(&head, &bytes[start..], desk);
                    match head.body {
                        Body::Empty => self.answer(is_last, desk, output),
                        _ => self.await_body(&head, desk, output),
                    }
                }
                Event::Body(place) => self.take_body(&bytes[start..][place], desk),
                Event::End => {
                    if let Some(request) = &mut self.request {
                        desk.service_mut().finish_body(&mut request.plan.page);
                    }
                    self.answer(is_last, desk, output);
                }
                Event::Partial => {
                    self.wait_for_more(is_last, desk);
                    return used;
                }
            }
            match self.phase {
                Phase::Delay { .. } | Phase::Split => return used,
                Phase::Idle | Phase::Closing if is_last => return used,
                Phase::Closing => {
                    // The client has sent more than it may expect an answer to. Closing on unread bytes
                    // would reset the connection, and could take the answer with it.
                    self.enter(Phase::Linger(0), desk);
                    return bytes.len();
                }
                _ => {}
            }
            if output.copied_size() >= desk.limits().output_size_high {
                break;
            }
        }
        self.enter(Phase::Turn, desk);
        used
    }

    fn await_body(&mut self, head: &Head, desk: &Desk, output: &mut Output) {
        if head.awaits_continue {
            output.append(response::CONTINUE);
        }
        self.enter(Phase::Body(0), desk);
    }

    fn take_body(&mut self, bytes: &[u8], desk: &mut Desk) {
        if let Some(request) = &mut self.request {
            desk.service_mut().take_body(&mut request.plan.page, bytes);
        }
        let size = bytes.len() as u64;
        match &mut self.phase {
            Phase::Body(received) => *received += size,
            _ => self.enter(Phase::Body(size), desk),
        }
    }

    /// A head that has begun keeps its time: dripping bytes do not prolong it.
    fn wait_for_more(&mut self, is_all_used: bool, desk: &Desk) {
        let phase = match self.phase {
            Phase::Body(_) | Phase::Head => return,
            _ if !self.exchange.is_in_head() => Phase::Body(0),
            _ if is_all_used => Phase::Idle,
            _ => Phase::Head,
        };
        self.enter(phase, desk);
    }

    /// Answers the request at hand, now or when its delay is over. `is_last` says that no later request
    /// has begun to come.
    #[inline]
    fn answer(&mut self, is_last: bool, desk: &mut Desk, output: &mut Output) {
        let Some(request) = self.request.take() else { return };
        let plan = &request.plan;
        if plan.delay_ns > 0 {
            let due_ns = self.arrived_ns.saturating_add(plan.delay_ns);
            if due_ns > desk.now_ns() {
                desk.call_at(due_ns, self.key);
                self.phase = Phase::Delay { due_ns };
                self.request = Some(request);
                return;
            }
        }
        if plan.is_busy {
            desk.service().burn();
        }
        let mut lives = request.keeps_alive && !(is_last && desk.is_stopping());
        if let Some(planted) = desk.planted_mut() {
            self.burden.requests += 1;
            planted.cost(self.burden.peer.as_ref());
            lives = lives && !planted.ends_with(self.burden.requests);
            if planted.splits() && !plan.is_head_only {
                write(plan, Persistence::new(request.version, lives), Extent::Head, desk, output);
                self.request = Some(Request { keeps_alive: lives, ..request });
                self.phase = Phase::Split;
                return;
            }
        }
        let extent = if plan.is_head_only { Extent::Head } else { Extent::Whole };
        write(plan, Persistence::new(request.version, lives), extent, desk, output);
        self.note_answer(plan, desk);
        self.conclude(lives, desk);
    }

    /// Puts out the body of an answer whose head has gone.
    #[cold]
    fn answer_rest(&mut self, desk: &mut Desk, output: &mut Output) {
        let Some(Request { plan, version, keeps_alive }) = self.request.take() else { return };
        let persistence = Persistence::new(version, keeps_alive);
        write(&plan, persistence, Extent::Body, desk, output);
        self.note_answer(&plan, desk);
        self.conclude(keeps_alive, desk);
    }

    #[inline]
    fn conclude(&mut self, lives: bool, desk: &Desk) {
        self.phase = if lives { Phase::Idle } else { Phase::Closing };
        self.since_ns = desk.now_ns();
    }

    /// After an answer that had to wait: requests behind it have their turn.
    fn go_on(&mut self, desk: &Desk) {
        if self.phase == Phase::Idle && !self.stash.is_empty() {
            self.enter(Phase::Turn, desk);
        }
    }

    #[cold]
    fn refuse(&mut self, reject: Reject, bytes: &[u8], desk: &mut Desk, output: &mut Output) {
        let body_size = write_refusal(reject, desk, output);
        self.note_refusal(reject.status(), body_size, bytes, desk);
        self.stash = Vec::new();
        self.request = None;
        self.enter(Phase::Linger(0), desk);
    }

    /// Says that there is no room. So many are waited for until they have read it, and no more.
    #[cold]
    fn turn_away(&mut self, desk: &mut Desk, output: &mut Output) {
        write_turned_away(desk, output);
        desk.observer().count(Figure::Refused, 1);
        let phase = if desk.waits_for_refused() { Phase::Linger(0) } else { Phase::Closing };
        self.enter(phase, desk);
    }

    fn discard(&mut self, size: u64, desk: &Desk) -> Next {
        self.phase = match size {
            size if size > desk.limits().linger_size_max => Phase::Closing,
            size => Phase::Linger(size),
        };
        self.next()
    }

    #[inline]
    fn enter(&mut self, phase: Phase, desk: &Desk) {
        self.phase = phase;
        self.since_ns = desk.now_ns();
    }
}
