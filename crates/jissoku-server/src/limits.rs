//! Timeouts and resource limits of connections. Limits of a single request are in
//! `jissoku_http::limits`.

const SECOND_NS: u64 = 1_000_000_000;

/// How long bytes that were transferred ahead of the minimum rate count for it.
const PACE_AHEAD_NS_MAX: u64 = 30 * SECOND_NS;

/// Limits on connections. [`Limits::DEFAULT`] holds the defaults. Timeouts are checked once a
/// second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Limits of one request.
    pub request: jissoku_http::Limits,
    /// Open connections of all workers together; beyond it, new ones are rejected with 503.
    pub connections_max: usize,
    /// Open connections per client address (per /64 network of IPv6); 0 for no limit. Unix sockets
    /// have no address.
    pub connections_per_address_max: u32,
    /// From the first byte of a request head to its last; then 408. Also from the start of a
    /// connection to its first byte; then it is closed without a response.
    pub head_ns_max: u64,
    /// Between two requests; then the connection is closed without a response. Longer than the 60 s
    /// that are common in proxies, so that the proxy closes first.
    pub idle_ns_max: u64,
    /// Time in which nothing of a body is received, or nothing of a response is sent: a client may
    /// pause for so long.
    pub pause_ns_max: u64,
    /// Time before the minimum rate of a body or a response applies.
    pub pace_grace_ns: u64,
    /// Minimum rate of a body or a response in bytes per second after that; 0 for none. Chunk
    /// framing does not count: a client that sends one byte per chunk sends six bytes for one. Bytes
    /// ahead of the rate count for the next 30 s at most, so that a client that stops is noticed
    /// then.
    pub pace_min_bps: u64,
    /// Lingering close: how long what a client continues to send is read and discarded, so that it
    /// can read the response. Many clients send all of a body before they read.
    pub linger_ns_max: u64,
    /// Lingering close: time in which nothing is received.
    pub linger_pause_ns_max: u64,
    /// Lingering close: how much input is read and discarded.
    pub linger_size_max: u64,
    /// Heads, body parts and ends of bodies of one connection that are processed before other
    /// connections.
    pub steps_per_turn_max: u32,
    /// Bytes of buffered responses after which the next request of a connection waits until they
    /// are sent. With one receive and one copied response, a client that does not read can occupy
    /// 56 KiB.
    pub output_size_high: usize,
    /// After a reload: how long old workers keep an idle connection for one more request. Equal to
    /// the idle timeout, so that no connection is closed sooner because of a reload.
    pub drain_idle_ns: u64,
    /// After a reload: time until old workers close their remaining connections.
    pub drain_ns_max: u64,
    /// After a reload: the same for connections with a response that has begun, and for those that
    /// were upgraded; at least as long.
    pub drain_streams_ns_max: u64,
    /// After a stop signal: how long an idle connection is kept for a request that may be in
    /// flight.
    pub stop_idle_ns: u64,
    /// After a stop signal: time until remaining connections are closed.
    pub stop_ns_max: u64,
}

impl Limits {
    /// The default limits.
    pub const DEFAULT: Self = Self {
        request: jissoku_http::Limits::DEFAULT,
        connections_max: 65_536,
        connections_per_address_max: 0,
        head_ns_max: 10 * SECOND_NS,
        idle_ns_max: 75 * SECOND_NS,
        pause_ns_max: 60 * SECOND_NS,
        pace_grace_ns: 5 * SECOND_NS,
        pace_min_bps: 0,
        linger_ns_max: 30 * SECOND_NS,
        linger_pause_ns_max: 5 * SECOND_NS,
        linger_size_max: 1024 * 1024 * 1024,
        steps_per_turn_max: 1_000,
        output_size_high: 16 * 1024,
        drain_idle_ns: 75 * SECOND_NS,
        drain_ns_max: 300 * SECOND_NS,
        drain_streams_ns_max: 300 * SECOND_NS,
        stop_idle_ns: SECOND_NS,
        stop_ns_max: 10 * SECOND_NS,
    };

    /// The default limits of an application: about those of gunicorn and uvicorn, which limit no
    /// body, and heads to 64 KiB. Bodies do not stay in memory.
    pub const APPLICATION: Self = {
        let mut limits = Self::DEFAULT;
        limits.request.body_size_max = 1 << 30;
        limits.request.request_line_size_max = 16 * 1024;
        limits.request.field_size_max = 64 * 1024;
        limits.request.fields_size_max = 64 * 1024;
        limits
    };

    /// Whether `size` bytes in `elapsed_ns` are below the minimum rate.
    pub const fn is_too_slow(&self, size: u64, elapsed_ns: u64) -> bool {
        let counted_ns = elapsed_ns.saturating_sub(self.pace_grace_ns);
        size < self.size_at_pace(counted_ns)
    }

    /// The bytes of the last `elapsed_ns` that count for [`Limits::is_too_slow`] at most. If the
    /// rest is forgotten at least once a second, the rate is that of the recent past.
    pub(crate) const fn counted_size_max(&self, elapsed_ns: u64) -> u64 {
        self.size_at_pace(elapsed_ns.saturating_add(PACE_AHEAD_NS_MAX))
    }

    const fn size_at_pace(&self, elapsed_ns: u64) -> u64 {
        (elapsed_ns / (SECOND_NS / 1000)).saturating_mul(self.pace_min_bps) / 1000
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Connections of a worker that discard input behind their last response, or the rest of a body
/// before the next request; further ones are closed at once.
pub(crate) const LINGERING_MAX: usize = 1_024;

/// Connections over a limit for which a worker lingers, so that they can read the 503; further ones
/// are closed at once after it.
pub(crate) const REFUSALS_MAX: usize = 64;

/// Retry-After of a 503, in seconds.
pub(crate) const RETRY_AFTER_S: u32 = 1;

/// Files of at most this size are cached in memory; larger ones are sent with `sendfile(2)`, whose
/// extra system call matters less the larger the file.
pub(crate) const MEMORY_SIZE_MAX: u64 = 64 * 1024;

/// Bodies of at least this size are sent without a copy; smaller ones are copied behind their head.
pub(crate) const SHARED_SIZE_MIN: usize = 8 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_minimum_rate_applies_after_the_grace_period() {
        assert!(!Limits::DEFAULT.is_too_slow(0, 3_600 * SECOND_NS), "no rate is the default");
        let limits = Limits { pace_min_bps: 240, ..Limits::DEFAULT };
        assert!(!limits.is_too_slow(0, 5 * SECOND_NS));
        assert!(!limits.is_too_slow(240, 6 * SECOND_NS));
        assert!(limits.is_too_slow(239, 6 * SECOND_NS));
        assert!(!limits.is_too_slow(1_000_000, 100 * SECOND_NS));
    }
}
