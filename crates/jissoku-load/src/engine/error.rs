//! Errors of requests, by kind.

use serde::Serialize;

/// Why a request has no complete, expected response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// Connecting failed.
    Connect,
    /// Receiving failed, for example after a reset.
    Read,
    /// Sending failed.
    Write,
    /// The response was not complete within the timeout.
    Timeout,
    /// The status is not an expected one.
    Status,
    /// The body is shorter than announced, or of unexpected length.
    Length,
    /// The body has the expected length and different bytes.
    Body,
    /// The response is not valid HTTP, or unsolicited.
    Malformed,
    /// The server closed the connection without a response.
    Closed,
}

impl RequestError {
    /// What has happened, where nothing more is known.
    pub(crate) const fn description(self) -> &'static str {
        match self {
            Self::Connect => "connecting failed",
            Self::Read => "receiving failed",
            Self::Write => "sending failed",
            Self::Timeout => "no complete response within the timeout",
            Self::Status => "unexpected status",
            Self::Length => "the connection ended within the body",
            Self::Body => "unexpected content",
            Self::Malformed => "malformed response",
            Self::Closed => "the server closed the connection without a response",
        }
    }

    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Read => "read",
            Self::Write => "write",
            Self::Timeout => "timeout",
            Self::Status => "status",
            Self::Length => "length",
            Self::Body => "body",
            Self::Malformed => "malformed",
            Self::Closed => "closed",
        }
    }
}

/// The first error of its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorExample {
    /// The kind.
    pub error: RequestError,
    /// When it happened, from the window's opening.
    pub at_ns: u64,
    /// The request of the cycle; `None` if it belongs to none.
    pub spec: Option<u16>,
    /// What happened.
    pub message: String,
}

/// Numbers of errors by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "each field is explained at the kind of its name")]
pub struct ErrorCounts {
    pub connect: u64,
    pub read: u64,
    pub write: u64,
    pub timeout: u64,
    pub status: u64,
    pub length: u64,
    pub body: u64,
    pub malformed: u64,
    pub closed: u64,
}

impl ErrorCounts {
    /// Adds `count` errors of a kind.
    pub fn count(&mut self, error: RequestError, count: u64) {
        let counter = match error {
            RequestError::Connect => &mut self.connect,
            RequestError::Read => &mut self.read,
            RequestError::Write => &mut self.write,
            RequestError::Timeout => &mut self.timeout,
            RequestError::Status => &mut self.status,
            RequestError::Length => &mut self.length,
            RequestError::Body => &mut self.body,
            RequestError::Malformed => &mut self.malformed,
            RequestError::Closed => &mut self.closed,
        };
        *counter += count;
    }

    /// All kinds with their names, in the order of a request's life.
    pub fn by_name(&self) -> [(&'static str, u64); 9] {
        [
            ("connect", self.connect),
            ("read", self.read),
            ("write", self.write),
            ("timeout", self.timeout),
            ("status", self.status),
            ("length", self.length),
            ("body", self.body),
            ("malformed", self.malformed),
            ("closed", self.closed),
        ]
    }

    /// The number of errors of the kind with this name.
    pub fn of(&self, name: &str) -> u64 {
        self.by_name().iter().find(|(known, _)| *known == name).map_or(0, |(_, count)| *count)
    }

    /// The sum over all kinds.
    pub fn total(&self) -> u64 {
        self.by_name().iter().map(|(_, count)| count).sum()
    }

    /// The option that accepts responses which are right and differ from the first one, as the end
    /// of a sentence; empty for other errors.
    pub const fn remedy(&self) -> &'static str {
        match (self.status, self.length, self.body) {
            (0, 0, 0) => "",
            (_, 1.., _) => "; if lengths change, --verify none compares the status alone",
            (_, _, 1..) => "; if bodies change, --verify length compares their length instead",
            (1.., _, _) => "; --expect-status accepts other statuses",
        }
    }

    /// Adds the errors of another worker.
    pub fn add(&mut self, other: &Self) {
        self.connect += other.connect;
        self.read += other.read;
        self.write += other.write;
        self.timeout += other.timeout;
        self.status += other.status;
        self.length += other.length;
        self.body += other.body;
        self.malformed += other.malformed;
        self.closed += other.closed;
    }
}
