//! The choices of a plan: when connections end, and how the load generator works.

/// How long connections are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// Until the server closes them.
    KeepAlive,
    /// For one request.
    Close,
    /// For this many requests.
    Requests(u32),
}

/// In which order the requests of a target's cycle are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Each connection goes through the cycle, and they begin at different places.
    PerConnection,
    /// One cycle for all connections: each request is the next one of it.
    Shared,
    /// Each request is drawn at random.
    Random,
}

/// The kernel interface of the event loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// Readiness, `epoll(7)`: a receive and a send per request.
    Epoll,
    /// Completions, `io_uring(7)`: one system call per loop iteration.
    Uring,
}

/// What a worker does when there is nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// It blocks until a response comes or a request is due.
    Block,
    /// It polls, so that it never has to be woken.
    Spin,
    /// It blocks until shortly before a request is due and polls from there (open loop).
    Hybrid,
}

/// The clock, and how often it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockSource {
    /// The CPU's time stamp counter where the kernel uses it too, else the kernel's clock; read per
    /// response.
    Best,
    /// The kernel's clock, read per response.
    Kernel,
    /// Like `Best`, but read once per wait: off by up to the time it takes to handle its responses.
    Batch,
}

/// Think time: delay between a response and the next request (closed loop).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Think {
    /// None.
    Never,
    /// A constant delay.
    Constant {
        /// In nanoseconds.
        think_ns: u64,
    },
    /// Exponentially distributed delays.
    Exponential {
        /// Their mean, in nanoseconds.
        mean_ns: u64,
    },
}

/// When the run ends: at whichever limit comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StopCondition {
    /// Length of the window.
    pub duration_ns: Option<u64>,
    /// Requests sent to each target.
    pub requests: Option<u64>,
}
