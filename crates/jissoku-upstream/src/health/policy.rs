//! The rules of ejection and return.

/// When servers are ejected, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HealthPolicy {
    /// Failures in a row that eject a server.
    pub failures: u32,
    /// The first ejection's time, doubled with each that follows.
    pub ejection_ns: u64,
    /// The longest ejection. A server that served this long since its return begins anew.
    pub ejection_ns_max: u64,
    /// At most this share of the servers is ejected, rounded down.
    pub ejected_percent_max: u32,
    /// For how long a server's weight grows after its return.
    pub slow_start_ns: u64,
}

impl Default for HealthPolicy {
    fn default() -> Self {
        Self {
            failures: 3,
            ejection_ns: 1_000_000_000,
            ejection_ns_max: 30_000_000_000,
            ejected_percent_max: 50,
            slow_start_ns: 10_000_000_000,
        }
    }
}
