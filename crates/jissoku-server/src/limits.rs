//! How long a client may take, and how much of us it may hold meanwhile. What one request may look like is
//! in `jissoku_http::limits`.

const SECOND_NS: u64 = 1_000_000_000;

/// Limits on connections. [`Limits::DEFAULT`] is what a server starts with. Clients that exceed a time are
/// noticed within a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// What one request may look like.
    pub request: jissoku_http::Limits,
    /// Connections held at once, by all workers together; who comes then is told so with 503.
    pub connections_max: usize,
    /// Connections held at once from one address (from one /64 network of IPv6); 0 for any number. Unix
    /// sockets have no address.
    pub connections_per_address_max: u32,
    /// From the first byte of a head to its last; then 408. Also from the beginning of a connection to the
    /// first byte; then it is closed without a word.
    pub head_ns_max: u64,
    /// Between two requests; then the connection is closed without a word. Longer than the 60 s of the
    /// proxies in front of us, so that it is they who close.
    pub idle_ns_max: u64,
    /// How long a body or an answer may flow at any pace.
    pub pace_grace_ns: u64,
    /// Bytes per second that a body has to come with and an answer has to go with after that. What frames
    /// a body does not count: a client that sends a byte per chunk would move six to bring one.
    pub pace_min_bps: u64,
    /// After a refusal: how long what the client still sends is read, so that it can read the answer.
    pub linger_ns_max: u64,
    /// After a refusal: how much of it is read.
    pub linger_size_max: u64,
    /// Heads, pieces of bodies and ends of bodies that are dealt with before other connections have their
    /// turn.
    pub steps_per_turn_max: u32,
    /// Bytes of answers to one connection after which its next request waits until they have gone. With
    /// what one receive brings and one answer that is copied, this is what a client that does not read can
    /// make us hold: 56 KiB.
    pub output_size_high: usize,
    /// After a reload: how long the workers of before keep an idle connection for one more request. As long
    /// as the idle limit, so that no connection ends sooner because of a reload.
    pub drain_idle_ns: u64,
    /// After a reload: how long the workers of before may take to answer their last clients.
    pub drain_ns_max: u64,
    /// After the order to stop: how long an idle connection is kept for a request that may be on its way.
    pub stop_idle_ns: u64,
    /// After the order to stop: how long answers may still take.
    pub stop_ns_max: u64,
}

impl Limits {
    /// The limits in force when nobody chose others.
    pub const DEFAULT: Self = Self {
        request: jissoku_http::Limits::DEFAULT,
        connections_max: 65_536,
        connections_per_address_max: 0,
        head_ns_max: 10 * SECOND_NS,
        idle_ns_max: 75 * SECOND_NS,
        pace_grace_ns: 5 * SECOND_NS,
        pace_min_bps: 240,
        linger_ns_max: 2 * SECOND_NS,
        linger_size_max: 256 * 1024,
        steps_per_turn_max: 1_000,
        output_size_high: 16 * 1024,
        drain_idle_ns: 75 * SECOND_NS,
        drain_ns_max: 300 * SECOND_NS,
        stop_idle_ns: SECOND_NS,
        stop_ns_max: 10 * SECOND_NS,
    };

    /// Whether something that has flowed for `elapsed_ns` and brought `size` bytes flows too slowly.
    #[must_use]
    pub const fn is_too_slow(&self, size: u64, elapsed_ns: u64) -> bool {
        let counted_ns = elapsed_ns.saturating_sub(self.pace_grace_ns);
        size < counted_ns / (SECOND_NS / 1000) * self.pace_min_bps / 1000
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Connections over a ceiling that a worker waits for, so that they can read why; the next ones are closed
/// as soon as they are told.
pub(crate) const REFUSALS_MAX: usize = 64;

/// After how many seconds who was turned away may try again.
pub(crate) const RETRY_AFTER_S: u32 = 1;

/// The longest delay that a request can ask for: each one is remembered until it is over.
pub(crate) const DELAY_MS_MAX: u64 = 60_000;

/// Files of at most this size are kept in memory; larger ones are sent from where they are. To send from a
/// file costs another system call, which counts for less the more there is to send.
pub(crate) const MEMORY_SIZE_MAX: u64 = 64 * 1024;

/// Bodies of at least this size are sent from where they are; smaller ones are copied behind their head.
pub(crate) const SHARED_SIZE_MIN: usize = 8 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slowness_counts_after_the_grace() {
        let limits = Limits::DEFAULT;
        assert!(!limits.is_too_slow(0, 5 * SECOND_NS));
        assert!(!limits.is_too_slow(240, 6 * SECOND_NS));
        assert!(limits.is_too_slow(239, 6 * SECOND_NS));
        assert!(!limits.is_too_slow(1_000_000, 100 * SECOND_NS));
    }
}
