//! The phases of a connection.

use crate::handler::Progress;

/// What a connection is waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The first byte of the connection.
    AwaitingFirst,
    /// The 503 for a connection over the limit is to be written.
    OverLimit,
    /// The first byte of the next request.
    Idle,
    /// The rest of a head.
    Head,
    /// The rest of a body, of which this many bytes were received.
    Body(u64),
    /// The rest of a response, as the handler requested; never [`Progress::Complete`].
    Responding(Progress),
    /// Other connections are served first; more input is buffered.
    Yielded,
    /// Lingering close after an error response; this many bytes were discarded.
    Linger(u64),
    /// The connection is to be closed.
    Closing,
}
