//! Reads responses of a server, and writes them to the exchange that they belong to.

use jissoku_http::response_reader::{BadResponse, ResponseEvent, ResponseHead};

use super::{Outcome, UpstreamConnection};
use crate::exchange::Exchange;
use crate::failure::Fault;
use crate::policy::closing_age::announced_ns;
use crate::policy::statuses::Statuses;

impl UpstreamConnection {
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
            exchange.write_body(bytes);
            return Outcome::Partial;
        }
        exchange.record_bytes();
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
        self.record_persistence(&head);
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
        self.record_persistence(&head);
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
    fn record_persistence(&mut self, head: &ResponseHead) {
        self.kept_ns = head.keep_alive_s.map(announced_ns);
        self.is_kept = head.keeps_alive && self.kept_ns != Some(0);
    }

    /// A response is complete. What follows it was not asked for.
    fn complete(&self, has_excess: bool, is_sent: bool, exchange: &mut Exchange) -> Outcome {
        if has_excess {
            exchange.record_excess();
        }
        let is_reusable = !has_excess && is_sent && self.is_kept && exchange.permits_reuse();
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
                        exchange.keep_malformed(&bytes[used..]);
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
                    if !exchange.offers_upgrade() || !is_to_websocket(&head, head_bytes) {
                        exchange.keep_malformed(head_bytes);
                        return (bytes.len(), Outcome::Failed(Fault::UnexpectedUpgrade));
                    }
                    exchange.write_upgrade(&head, head_bytes, &bytes[used..]);
                    return (bytes.len(), Outcome::Partial);
                }
                ResponseEvent::Head(head) if retried.contains(head.status) => {
                    exchange.record_early(is_sent);
                    self.undecided = Some(head);
                    return (start, Outcome::Undecided { status: head.status, is_sent });
                }
                ResponseEvent::Head(head) => {
                    exchange.record_early(is_sent);
                    self.record_persistence(&head);
                    exchange.write_head(&head, &bytes[start..]);
                }
                ResponseEvent::Body(place) => exchange.write_body(&bytes[start..][place]),
                ResponseEvent::Trailers(place) => {
                    if exchange.takes_trailers() {
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

    /// The connection was reset while it served an exchange.
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
