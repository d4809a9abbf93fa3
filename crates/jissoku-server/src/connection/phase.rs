//! The phases of a connection, and its request.

use crate::handler::Progress;
use crate::response::ResponseState;

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

/// A parsed request without a complete response.
#[derive(Debug)]
pub(super) struct Request<R> {
    /// The state of the handler.
    pub(super) state: R,
    pub(super) response: ResponseState,
}

/// Whether a response is to be continued.
pub(super) const fn is_due(progress: Progress, unsent: usize, now_ns: u64) -> bool {
    match progress {
        Progress::Complete => false,
        Progress::Until(due_ns) => due_ns <= now_ns,
        Progress::Sent => unsent == 0,
        Progress::Pending => true,
    }
}
