//! A connection to an upstream server.

use std::sync::Arc;

use jissoku_http::response_reader::{BadResponse, ResponseEvent, ResponseHead, ResponseReader};
use jissoku_os::driver::ConnectionId;
use jissoku_os::socket::Endpoint;
use jissoku_server::ForwardedNotes;
use jissoku_upstream::closing_age::announced_ns;
use jissoku_upstream::statuses::Statuses;

use crate::exchange::Exchange;
use crate::failure::{Fault, Received};
use crate::slab::Key;

/// A connection to an upstream server.
#[derive(Debug)]
pub(crate) struct Upstream {
    /// None until the driver has started to open it.
    pub(crate) id: Option<ConnectionId>,
    /// Changed by `UpstreamTable` alone, together with its timer.
    state: State,
    /// The index of its upstream, and of the pool that it belongs to.
    pub(crate) pool: usize,
    pub(crate) endpoint: Arc<Endpoint>,
    /// Whether the pool counts it as busy.
    pub(crate) is_busy: bool,
    /// How long it is tried to open it.
    pub(crate) open_until_ns: u64,
    /// For how long it was idle before the present request.
    pub(crate) idle_age_ns: u64,
    reader: ResponseReader,
    /// The start of a head.
    input: Vec<u8>,
    /// The head at the start of `input`, if it is not decided whether the response is passed on.
    undecided: Option<ResponseHead>,
    /// Trailer lines of the response.
    trailers: Vec<u8>,
    /// Whether the server keeps the connection after this response.
    is_kept: bool,
    /// For how long at most, if it says so.
    pub(crate) kept_ns: Option<u64>,
}

/// What a connection does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It is being opened for an exchange.
    Connecting(Key),
    /// It could not be opened for an exchange, and is soon tried again.
    Reopening(Key),
    /// It is being opened for the pool.
    Spare,
    /// It serves an exchange, whose request was handed to the driver or not.
    Busy(Key, Sending),
    /// The response of an exchange is complete, whose request is still being sent.
    Finishing(Key),
    /// It is in the pool.
    Idle,
    /// It is to be closed when its output is sent.
    Ending,
    /// It is to be closed.
    Closing,
}

/// Whether a request was handed to the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sending {
    Pending,
    Done,
}

/// What the bytes of a server have led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The response continues.
    Partial,
    /// It is complete. Whether the connection can be used again, and whether bytes followed.
    Complete {
        is_reusable: bool,
        has_excess: bool,
    },
    /// Its head has this status, for which the request may be sent to another server: it is to be
    /// passed on or discarded. Whether the request has gone out as a whole.
    Undecided {
        status: u16,
        is_sent: bool,
    },
    Failed(Fault),
}

impl Upstream {
    /// One that is to be opened, in [`State::Connecting`] or [`State::Spare`].
    pub(crate) fn new(
        state: State,
        (pool, endpoint): (usize, Arc<Endpoint>),
        open_until_ns: u64,
    ) -> Self {
        Self {
            id: None,
            state,
            pool,
            endpoint,
            is_busy: true,
            open_until_ns,
            idle_age_ns: 0,
            reader: ResponseReader::new(false),
            input: Vec::new(),
            undecided: None,
            trailers: Vec::new(),
            is_kept: false,
            kept_ns: None,
        }
    }

    pub(crate) const fn state(&self) -> State {
        self.state
    }

    /// For `UpstreamTable` alone.
    pub(crate) const fn set_state(&mut self, state: State) {
        self.state = state;
    }

    /// The exchange that it serves.
    pub(crate) const fn exchange(&self) -> Option<Key> {
        match self.state {
            State::Connecting(exchange)
            | State::Reopening(exchange)
            | State::Busy(exchange, _)
            | State::Finishing(exchange) => Some(exchange),
            State::Spare | State::Idle | State::Ending | State::Closing => None,
        }
    }

    /// Prepares for the response to a request. For `UpstreamTable` alone.
    pub(crate) fn begin(&mut self, exchange: Key, reader: ResponseReader) {
        self.state = State::Busy(exchange, Sending::Pending);
        self.reader = reader;
        self.input = Vec::new();
        self.undecided = None;
        self.trailers = Vec::new();
    }

    /// Whether the head of the response is incomplete.
    pub(crate) const fn is_in_head(&self) -> bool {
        self.reader.is_in_head()
    }

    /// Reads a part of the response and writes it to `exchange`, up to a head with one of the
    /// `retried` statuses. `is_sent`: the request has gone out as a whole.
    pub(crate) fn read(
        &mut self,
        bytes: &[u8],
        is_sent: bool,
        exchange: &mut Exchange,
        retried: &Statuses,
    ) -> Outcome {
        if exchange.is_tunnel() {
            exchange.output.write_raw(bytes);
            return Outcome::Partial;
        }
        if exchange.received == Received::Nothing {
            exchange.received = Received::Part;
        }
        if self.input.is_empty() {
            let (used, outcome) = self.parse(bytes, is_sent, exchange, retried);
            self.input.extend_from_slice(&bytes[used..]);
            return outcome;
        }
        let mut input = std::mem::take(&mut self.input);
        input.extend_from_slice(bytes);
        let (used, outcome) = self.parse(&input, is_sent, exchange, retried);
        input.drain(..used);
        self.input = input;
        outcome
    }

    /// Writes the response that was undecided to `exchange`, as far as it was received.
    pub(crate) fn pass_on(&mut self, is_sent: bool, exchange: &mut Exchange) -> Outcome {
        let Some(head) = self.undecided.take() else { return Outcome::Partial };
        let mut input = std::mem::take(&mut self.input);
        self.note_persistence(&head);
        exchange.write_head(&head, &input);
        let size = head.size as usize;
        let (used, outcome) = self.parse(&input[size..], is_sent, exchange, &Statuses::NONE);
        input.drain(..size + used);
        self.input = input;
        outcome
    }

    /// Drops the response that was undecided. [`Outcome::Complete`] if all of it was received: one
    /// that is still to come is not waited for.
    pub(crate) fn discard(&mut self, is_sent: bool, exchange: &mut Exchange) -> Outcome {
        let Some(head) = self.undecided.take() else { return Outcome::Partial };
        let input = std::mem::take(&mut self.input);
        self.note_persistence(&head);
        let mut used = head.size as usize;
        loop {
            let Ok(step) = self.reader.step(&input[used..]) else { return Outcome::Partial };
            used += step.used;
            match step.event {
                ResponseEvent::Partial => return Outcome::Partial,
                ResponseEvent::End => return self.complete(used < input.len(), is_sent, exchange),
                _ => {}
            }
        }
    }

    /// Notes whether and for how long the server keeps the connection.
    fn note_persistence(&mut self, head: &ResponseHead) {
        self.kept_ns = head.keep_alive_s.map(announced_ns);
        self.is_kept = head.keeps_alive && self.kept_ns != Some(0);
    }

    /// A response is complete. What follows it was not asked for.
    fn complete(&self, has_excess: bool, is_sent: bool, exchange: &mut Exchange) -> Outcome {
        if has_excess {
            exchange.place.notes.add(ForwardedNotes::EXCESS);
        }
        let is_reusable = !has_excess
            && is_sent
            && self.is_kept
            && exchange.protocol.is_http()
            && !exchange.method.has_unusual_body
            && !exchange.offer.upgrades;
        Outcome::Complete { is_reusable, has_excess }
    }

    /// Returns the number of bytes that are not needed again.
    fn parse(
        &mut self,
        bytes: &[u8],
        is_sent: bool,
        exchange: &mut Exchange,
        retried: &Statuses,
    ) -> (usize, Outcome) {
        let mut used = 0;
        loop {
            let step = match self.reader.step(&bytes[used..]) {
                Ok(step) => step,
                Err(error) => {
                    let fault = Fault::BadResponse(error);
                    if fault.is_malformed_head() {
                        exchange.place.keep_malformed(&bytes[used..]);
                    }
                    return (bytes.len(), Outcome::Failed(fault));
                }
            };
            let start = used;
            used += step.used;
            match step.event {
                ResponseEvent::Partial => return (used, Outcome::Partial),
                ResponseEvent::Interim(head) => exchange.write_interim(&head, &bytes[start..]),
                ResponseEvent::Head(head) if head.status == 101 => {
                    let head_bytes = &bytes[start..];
                    if !exchange.offer.upgrades || !is_to_websocket(&head, head_bytes) {
                        exchange.place.keep_malformed(head_bytes);
                        return (bytes.len(), Outcome::Failed(Fault::UnexpectedUpgrade));
                    }
                    exchange.write_upgrade(&head, head_bytes);
                    exchange.output.write_raw(&bytes[used..]);
                    return (bytes.len(), Outcome::Partial);
                }
                ResponseEvent::Head(head) if retried.contains(head.status) => {
                    exchange.note_early(is_sent);
                    self.undecided = Some(head);
                    return (start, Outcome::Undecided { status: head.status, is_sent });
                }
                ResponseEvent::Head(head) => {
                    exchange.note_early(is_sent);
                    self.note_persistence(&head);
                    exchange.write_head(&head, &bytes[start..]);
                }
                ResponseEvent::Body(place) => exchange.write_body(&bytes[start..][place]),
                ResponseEvent::Trailers(place) => {
                    if exchange.offer.takes_trailers {
                        self.trailers.extend_from_slice(&bytes[start..][place]);
                    }
                }
                ResponseEvent::End => {
                    let outcome = self.complete(used < bytes.len(), is_sent, exchange);
                    // The lines are followed by the CR of the empty line.
                    exchange.finish(self.trailers.strip_suffix(b"\r").unwrap_or_default());
                    return (bytes.len(), outcome);
                }
            }
        }
    }

    /// The server has closed its side.
    pub(crate) fn finish(&mut self, exchange: &mut Exchange) -> Outcome {
        match self.reader.finish() {
            Ok(()) => {
                exchange.finish(&[]);
                Outcome::Complete { is_reusable: false, has_excess: false }
            }
            Err(_) if self.is_in_head() => Outcome::Failed(Fault::Closed),
            Err(error) => Outcome::Failed(Fault::BadResponse(error)),
        }
    }

    /// The connection was reset.
    pub(crate) const fn reset_fault(&self) -> Fault {
        if self.is_in_head() { Fault::Closed } else { Fault::BadResponse(BadResponse::Incomplete) }
    }
}

/// Whether a server switches to WebSocket, as its client has asked for (RFC 9110 section 7.8).
fn is_to_websocket(head: &ResponseHead, bytes: &[u8]) -> bool {
    let mut upgrades = head.fields(bytes).filter(|(name, _)| name.eq_ignore_ascii_case(b"upgrade"));
    let is_expected =
        upgrades.next().is_some_and(|(_, value)| value.eq_ignore_ascii_case(b"websocket"));
    is_expected && upgrades.next().is_none()
}

#[cfg(test)]
mod tests;
