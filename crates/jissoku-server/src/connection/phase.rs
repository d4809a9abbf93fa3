//! The phases of a connection, and its request.

use jissoku_os::driver::UNSENT_MAX;

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
    /// The rest of a body, of which this many bytes count for its rate.
    Body(u64),
    /// The rest of a response, as the handler requested; never [`Progress::Complete`].
    Responding(Progress),
    /// The rest of a response, and of a body or of an upgraded connection: see [`StreamedBody`].
    Streaming,
    /// The rest of a body whose response is complete; this many bytes were discarded.
    Drain(u64),
    /// Lingering close after the last response: input is discarded.
    Linger(Linger),
    /// The connection is to be closed.
    Closing,
    /// The connection is to be reset.
    Resetting,
}

/// What is discarded behind the last response of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Linger {
    /// Bytes that the client has announced: the rest of a body. The write side is shut down after
    /// them only, because some clients take an end of the stream for the end of their upload.
    pub(super) announced: u64,
    /// Bytes that were discarded.
    pub(super) discarded: u64,
}

impl Linger {
    /// The client has announced no more bytes.
    pub(super) const NOTHING: Self = Self::of(0);

    pub(super) const fn of(announced: u64) -> Self {
        Self { announced, discarded: 0 }
    }

    pub(super) const fn is_awaited(self) -> bool {
        self.discarded < self.announced
    }
}

/// What becomes of received bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Intake {
    /// They are parsed.
    Parse,
    /// They are kept until the response of the request before them is complete, or sent.
    Keep,
    /// They are passed to the handler of an upgraded connection.
    PassOn,
    /// They are discarded: no further request is answered.
    Discard,
}

/// A parsed request whose response is not complete.
#[derive(Debug)]
pub(super) struct Request<R> {
    /// The state of the handler.
    pub(super) state: R,
    pub(super) response: ResponseState,
    /// The body if it is not received as a whole, or what is received after an upgrade.
    pub(super) body: Option<Box<StreamedBody>>,
}

impl<R> Request<R> {
    /// Whether the client waits for `100 Continue`.
    pub(super) fn awaits_continue(&self) -> bool {
        self.body.as_ref().is_some_and(|body| body.awaits_continue)
    }
}

/// The body of a request that is not received as a whole.
#[derive(Debug)]
pub(super) struct StreamedBody {
    /// How the response is continued; never [`Progress::Complete`].
    pub(super) progress: Progress,
    pub(super) reading: Reading,
    /// The client waits for `100 Continue`.
    pub(super) awaits_continue: bool,
    /// Bytes received since receiving was resumed, as far as they count for its rate.
    pub(super) received: u64,
}

/// Whether the rest of a body is received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    Receiving,
    /// The handler has suspended receiving.
    Held,
    /// After an upgrade: the client has shut down its side.
    Ended,
}

impl StreamedBody {
    pub(super) const fn new(awaits_continue: bool) -> Self {
        let progress = Progress::Pending;
        Self { progress, reading: Reading::Receiving, awaits_continue, received: 0 }
    }
}

/// The circumstances of a call of the handler.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallInfo {
    /// No bytes of a later request were received.
    pub(super) is_last: bool,
    /// Bytes of earlier output that are not sent yet.
    pub(super) unsent: usize,
}

/// Whether a response is to be continued.
pub(super) const fn is_due(progress: Progress, unsent: usize, now_ns: u64) -> bool {
    match progress {
        Progress::Complete | Progress::Reset => false,
        Progress::Until(due_ns) => due_ns <= now_ns,
        Progress::Sent => unsent == 0,
        Progress::Flush => unsent <= UNSENT_MAX,
        Progress::Pending | Progress::ShutdownWrite => true,
    }
}
