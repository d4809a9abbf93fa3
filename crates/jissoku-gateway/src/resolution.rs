//! When and how names of servers are resolved again.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

/// Finds the addresses of `HOST:PORT`. It may block.
pub type Lookup = fn(&str) -> io::Result<Vec<SocketAddr>>;

/// When and how names are resolved again.
#[derive(Clone, Copy, Debug)]
pub struct Resolution {
    /// The time between two lookups, in nanoseconds.
    pub every_ns: u64,
    /// Finds addresses.
    pub lookup: Lookup,
    /// Reports a new address, or a name that cannot be resolved any more, to the operator, as one
    /// sentence.
    pub report: fn(&str),
}

impl Resolution {
    /// By the system, every 30 s, and without reports.
    pub const DEFAULT: Self =
        Self { every_ns: 30_000_000_000, lookup: resolve, report: |_: &str| {} };
}

/// Finds the addresses of `HOST:PORT` as the system does (`getaddrinfo(3)`).
///
/// # Errors
/// The name cannot be resolved.
pub fn resolve(name: &str) -> io::Result<Vec<SocketAddr>> {
    name.to_socket_addrs().map(Iterator::collect)
}
