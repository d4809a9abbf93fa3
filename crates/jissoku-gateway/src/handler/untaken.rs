//! Requests that must not be repeated, on kept connections that their servers were closing: one of
//! which the server has certainly taken nothing is sent once more, if its route asks for that.

use std::os::fd::BorrowedFd;

use jissoku_os::driver::PeerEnd;
use jissoku_os::socket::delivery;

use super::GatewayHandler;
use crate::failure::Fault;
use crate::slab::Key;
use crate::untaken::{AwaitedReset, Judgement, RESET_WAIT_NS, judge};
use crate::upstream::State;

impl GatewayHandler {
    /// The connection of a request has ended: finds out whether its server has taken nothing of it,
    /// if that matters.
    pub(super) fn examine(&mut self, key: Key, socket: BorrowedFd<'_>, end: PeerEnd) {
        let Some(upstream) = self.upstreams.get(key) else { return };
        let State::Busy(exchange_key, _) = upstream.state() else { return };
        let Some(exchange) = self.exchanges.get(exchange_key) else { return };
        if !exchange.is_repeatable_if_untaken() || !exchange.received.is_nothing() {
            return;
        }
        let Ok(delivery) = delivery(socket) else { return };
        match judge(delivery, upstream.request_at, end) {
            Judgement::Untaken => upstream.is_untaken = true,
            Judgement::AwaitsReset => {
                let until_ns = exchange.place.until_ns.min(self.now_ns + RESET_WAIT_NS);
                // Without a descriptor for it there is no proof.
                let duplicate = socket.try_clone_to_owned().ok();
                let awaited = duplicate.map(|socket| AwaitedReset::new(socket, until_ns));
                upstream.awaited_reset = awaited.map(Box::new);
            }
            Judgement::Unknown => {}
        }
    }

    /// Keeps a connection that has ended, if its reset is awaited. Returns whether it is.
    pub(super) fn await_reset(&mut self, key: Key) -> bool {
        let Some(upstream) = self.upstreams.get(key) else { return false };
        let (State::Busy(exchange, _), Some(awaited)) =
            (upstream.state(), &mut upstream.awaited_reset)
        else {
            return false;
        };
        let Some(next_ns) = awaited.next_ns(self.now_ns) else { return false };
        self.upstreams.enter(key, State::AwaitingReset(exchange), next_ns);
        true
    }

    /// Looks whether the awaited reset has come.
    pub(super) fn check_reset(&mut self, key: Key) {
        let Some(upstream) = self.upstreams.get(key) else { return };
        let Some(awaited) = &mut upstream.awaited_reset else { return };
        let judgement = delivery(&awaited.socket)
            .map_or(Judgement::Unknown, |seen| judge(seen, upstream.request_at, PeerEnd::Shutdown));
        let next_ns = awaited.next_ns(self.now_ns);
        match (judgement, next_ns) {
            (Judgement::AwaitsReset, Some(next_ns)) => return self.upstreams.extend(key, next_ns),
            (Judgement::Untaken, _) => upstream.is_untaken = true,
            (Judgement::AwaitsReset | Judgement::Unknown, _) => {}
        }
        self.give_up(key, Fault::Closed);
    }
}
