//! The way to a worker's end: what the outside orders, and what that means for clients.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::limits::Limits;

/// What the outside wants of the workers.
#[derive(Debug, Default)]
pub(crate) struct Order(AtomicU8);

const RETIRE: u8 = 1;
const DRAIN: u8 = 2;
pub(crate) const LEAVE: u8 = 3;

impl Order {
    /// To leave the listeners to others, and to end once the clients have gone.
    pub(crate) fn retire(&self) {
        self.0.fetch_max(RETIRE, Ordering::Relaxed);
    }

    /// To stop listening, and to end once what is in flight is answered.
    pub(crate) fn drain(&self) {
        self.0.fetch_max(DRAIN, Ordering::Relaxed);
    }

    /// To end at once.
    pub(crate) fn leave(&self) {
        self.0.fetch_max(LEAVE, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The way to the end, once it was ordered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parting {
    pub(crate) order: u8,
    since_ns: u64,
    /// How long an idle connection is kept for a request that may be on its way.
    idle_ns: u64,
    /// How long everything may still take.
    ns_max: u64,
}

impl Parting {
    pub(crate) const fn new(order: u8, limits: &Limits, since_ns: u64) -> Self {
        let (idle_ns, ns_max) = match order {
            RETIRE => (limits.drain_idle_ns, limits.drain_ns_max),
            _ => (limits.stop_idle_ns, limits.stop_ns_max),
        };
        Self { order, since_ns, idle_ns, ns_max }
    }

    /// Whether the time for answering what was in flight is over.
    pub(crate) const fn is_over(&self, now_ns: u64) -> bool {
        now_ns - self.since_ns >= self.ns_max
    }

    /// When everybody who was idle at the beginning has had his time.
    pub(crate) const fn idle_end_ns(&self) -> u64 {
        self.since_ns.saturating_add(self.idle_ns)
    }

    /// Whether a connection idle for `idle_ns` can go. Who has asked a moment ago may be about to ask again,
    /// and is waited for. Who has not is no more likely to ask just now than at any other time, so the end
    /// of the process need not wait for him; after a reload nothing waits, and everybody has the time.
    pub(crate) const fn lets_idle_go(&self, idle_ns: u64, now_ns: u64) -> bool {
        let had_its_time = self.order >= DRAIN || now_ns >= self.idle_end_ns();
        had_its_time && idle_ns >= self.idle_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;
    const LIMITS: Limits = Limits { stop_idle_ns: S, drain_idle_ns: 5 * S, ..Limits::DEFAULT };

    #[test]
    fn a_stop_waits_for_those_who_have_asked_just_now_and_for_nobody_else() {
        let parting = Parting::new(DRAIN, &LIMITS, 100 * S);
        assert!(parting.lets_idle_go(S, 100 * S) && parting.lets_idle_go(60 * S, 100 * S));
        assert!(!parting.lets_idle_go(S - 1, 100 * S) && !parting.lets_idle_go(0, 100 * S));
        assert!(!parting.lets_idle_go(S - 1, 101 * S), "it has asked since");
    }

    #[test]
    fn a_reload_waits_for_everybody() {
        let parting = Parting::new(RETIRE, &LIMITS, 100 * S);
        assert!(
            !parting.lets_idle_go(60 * S, 100 * S) && !parting.lets_idle_go(60 * S, 105 * S - 1)
        );
        assert!(parting.lets_idle_go(60 * S, 105 * S) && parting.lets_idle_go(5 * S, 105 * S));
        assert!(!parting.lets_idle_go(4 * S, 105 * S), "it has asked since");
    }

    #[test]
    fn an_order_is_never_taken_back() {
        let order = Order::default();
        order.drain();
        order.retire();
        assert_eq!(order.get(), DRAIN);
        order.leave();
        assert_eq!(order.get(), LEAVE);
    }
}
