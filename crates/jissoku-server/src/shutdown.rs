//! Draining and stopping a worker: the signal, and when connections may be closed.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::limits::Limits;

/// The shutdown state requested of a worker pool; it only ever escalates.
#[derive(Debug, Default)]
pub(crate) struct ShutdownSignal(AtomicU8);

/// Stop accepting, pass idle connections on, and exit once the others are idle, too.
pub(crate) const MOVE_DRAIN: u8 = 1;
/// Stop accepting, and exit once all clients have gone.
pub(crate) const RELOAD_DRAIN: u8 = 2;
/// Stop accepting, and exit once requests in flight are answered.
pub(crate) const STOP_DRAIN: u8 = 3;
/// Exit at once.
pub(crate) const ABORT: u8 = 4;

impl ShutdownSignal {
    pub(crate) fn request(&self, signal: u8) {
        self.0.fetch_max(signal, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The shutdown of one worker, once requested.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shutdown {
    pub(crate) signal: u8,
    since_ns: u64,
    /// How long an idle connection is kept for a request that may be in flight.
    idle_ns: u64,
    /// Time until remaining connections are closed.
    ns_max: u64,
    /// The same for those with a stream.
    streams_ns_max: u64,
}

impl Shutdown {
    pub(crate) const fn new(signal: u8, limits: &Limits, since_ns: u64) -> Self {
        let (idle_ns, ns_max, streams_ns_max) = match signal {
            MOVE_DRAIN | RELOAD_DRAIN => {
                (limits.drain_idle_ns, limits.drain_ns_max, limits.drain_streams_ns_max)
            }
            ABORT => (0, 0, 0),
            _ => (limits.stop_idle_ns, limits.stop_ns_max, limits.stop_ns_max),
        };
        Self { signal, since_ns, idle_ns, ns_max, streams_ns_max }
    }

    /// Whether the time for requests in flight is over.
    pub(crate) const fn is_over(&self, now_ns: u64) -> bool {
        now_ns - self.since_ns >= self.ns_max
    }

    /// Whether the time of streams is over, too: of responses that have begun, and tunnels.
    pub(crate) const fn is_over_for_streams(&self, now_ns: u64) -> bool {
        self.is_over(now_ns) && now_ns - self.since_ns >= self.streams_ns_max
    }

    /// When connections that were idle at the start may be closed.
    pub(crate) const fn idle_end_ns(&self) -> u64 {
        self.since_ns.saturating_add(self.idle_ns)
    }

    /// The next time after `now_ns` at which connections may have to be closed.
    pub(crate) fn next_end_ns(&self, now_ns: u64) -> Option<u64> {
        let ends = [self.idle_ns, self.ns_max, self.ns_max.max(self.streams_ns_max)];
        let ends = ends.map(|ns| self.since_ns.saturating_add(ns));
        ends.into_iter().filter(|&end_ns| end_ns > now_ns).min()
    }

    /// Whether a connection idle for `idle_ns` may be closed. A client that was active a moment ago
    /// is likely to send again, so it is waited for. A stop closes clients that have been idle for
    /// longer at once; after a reload nothing waits for the old worker, so all clients get the full
    /// time.
    pub(crate) const fn may_close_idle(&self, idle_ns: u64, now_ns: u64) -> bool {
        let had_its_time = self.signal >= STOP_DRAIN || now_ns >= self.idle_end_ns();
        had_its_time && idle_ns >= self.idle_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;
    const LIMITS: Limits = Limits { stop_idle_ns: S, drain_idle_ns: 5 * S, ..Limits::DEFAULT };

    #[test]
    fn a_stop_waits_for_recently_active_connections_only() {
        let shutdown = Shutdown::new(STOP_DRAIN, &LIMITS, 100 * S);
        assert!(shutdown.may_close_idle(S, 100 * S) && shutdown.may_close_idle(60 * S, 100 * S));
        assert!(!shutdown.may_close_idle(S - 1, 100 * S) && !shutdown.may_close_idle(0, 100 * S));
        assert!(!shutdown.may_close_idle(S - 1, 101 * S), "it has asked since");
    }

    #[test]
    fn a_reload_waits_for_all_connections() {
        let shutdown = Shutdown::new(RELOAD_DRAIN, &LIMITS, 100 * S);
        assert!(
            !shutdown.may_close_idle(60 * S, 100 * S)
                && !shutdown.may_close_idle(60 * S, 105 * S - 1)
        );
        assert!(
            shutdown.may_close_idle(60 * S, 105 * S) && shutdown.may_close_idle(5 * S, 105 * S)
        );
        assert!(!shutdown.may_close_idle(4 * S, 105 * S), "it has asked since");
    }

    #[test]
    fn each_end_is_known_in_advance() {
        let limits = Limits { drain_ns_max: 20 * S, drain_streams_ns_max: 60 * S, ..LIMITS };
        let shutdown = Shutdown::new(RELOAD_DRAIN, &limits, 100 * S);
        let mut ends = vec![100 * S];
        while let Some(end_ns) = shutdown.next_end_ns(ends[ends.len() - 1]) {
            ends.push(end_ns);
        }
        assert_eq!(ends, [100 * S, 105 * S, 120 * S, 160 * S]);
    }

    #[test]
    fn streams_have_a_longer_time_after_a_reload_only() {
        let limits = Limits {
            drain_ns_max: 5 * S,
            drain_streams_ns_max: 60 * S,
            stop_ns_max: 2 * S,
            ..Limits::DEFAULT
        };
        let over = |signal, limits, seconds: u64| {
            let (shutdown, now_ns) = (Shutdown::new(signal, limits, 100 * S), (100 + seconds) * S);
            (shutdown.is_over(now_ns), shutdown.is_over_for_streams(now_ns))
        };
        for signal in [MOVE_DRAIN, RELOAD_DRAIN] {
            assert_eq!(over(signal, &limits, 4), (false, false));
            assert_eq!(over(signal, &limits, 5), (true, false));
            assert_eq!(over(signal, &limits, 60), (true, true));
        }
        assert_eq!(over(STOP_DRAIN, &limits, 2), (true, true));
        // They are never closed before others.
        let shorter = Limits { drain_streams_ns_max: S, ..limits };
        assert_eq!(over(RELOAD_DRAIN, &shorter, 4), (false, false));
        assert_eq!(over(RELOAD_DRAIN, &shorter, 5), (true, true));
    }

    #[test]
    fn a_signal_never_de_escalates() {
        let signal = ShutdownSignal::default();
        signal.request(STOP_DRAIN);
        signal.request(RELOAD_DRAIN);
        assert_eq!(signal.get(), STOP_DRAIN);
        signal.request(ABORT);
        assert_eq!(signal.get(), ABORT);
    }
}
