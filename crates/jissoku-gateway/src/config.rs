//! What all workers share: the server to forward to, and how long it may take.

use crate::target::Target;

/// A reverse proxy for one upstream server.
#[derive(Debug)]
pub struct Gateway {
    pub(crate) target: Target,
    pub(crate) timeouts: Timeouts,
    /// Whether clients over TCP use TLS.
    pub(crate) is_secure: bool,
}

/// How long the upstream server may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// To accept a connection, in nanoseconds.
    pub connect_ns: u64,
    /// From the end of the request to the head of the response.
    pub head_ns: u64,
    /// Between two parts of a response.
    pub read_ns: u64,
    /// How long an unused connection is kept. It should be less than the server keeps it, so that
    /// requests do not arrive at a connection that is being closed.
    pub idle_ns: u64,
}

impl Timeouts {
    /// The defaults. Node, uvicorn and httpd close unused connections after 5 s.
    pub const DEFAULT: Self = Self {
        connect_ns: 1_000_000_000,
        head_ns: 60_000_000_000,
        read_ns: 60_000_000_000,
        idle_ns: 4_000_000_000,
    };
}

impl Default for Timeouts {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl Gateway {
    /// Forwards all requests to `target`. `is_secure` if clients over TCP use TLS.
    #[must_use]
    pub const fn new(target: Target, timeouts: Timeouts, is_secure: bool) -> Self {
        Self { target, timeouts, is_secure }
    }
}
