//! What can go wrong with a request, by kind.

use serde::Serialize;

/// Why a request did not end in a whole, right answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No connection could be made.
    Connect,
    /// Receiving failed, as after a reset.
    Read,
    /// Sending failed.
    Write,
    /// The answer was not whole in time.
    Timeout,
    /// The answer's status is not an expected one.
    Status,
    /// The body is shorter than announced, or not as long as expected.
    Length,
    /// The body has the right length and other bytes than expected.
    Body,
    /// The answer is no HTTP, or nobody had asked for it.
    Malformed,
    /// The server closed the connection with the request unanswered.
    Closed,
}

impl Fault {
    /// What reports call it.
    #[must_use]
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

/// How often each kind of fault occurred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "each field is explained at the kind of its name")]
pub struct Faults {
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

impl Faults {
    /// Counts `count` faults of a kind.
    pub fn count(&mut self, fault: Fault, count: u64) {
        let counter = match fault {
            Fault::Connect => &mut self.connect,
            Fault::Read => &mut self.read,
            Fault::Write => &mut self.write,
            Fault::Timeout => &mut self.timeout,
            Fault::Status => &mut self.status,
            Fault::Length => &mut self.length,
            Fault::Body => &mut self.body,
            Fault::Malformed => &mut self.malformed,
            Fault::Closed => &mut self.closed,
        };
        *counter += count;
    }

    /// Every kind with its name, in the order of a request's life.
    #[must_use]
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

    /// All kinds together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.by_name().iter().map(|(_, count)| count).sum()
    }

    /// Adds what another tally counted.
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
