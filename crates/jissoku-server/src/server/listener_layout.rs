//! How listeners are assigned to workers.

/// The assignment of sockets to a number of workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListenerLayout {
    /// Each worker on a socket of its own, if possible.
    PerWorker(usize),
    /// Only the first worker accepts: the injected fault `single-worker`.
    FirstOnly(usize),
    /// All workers are woken for each connection: the injected fault `herd`.
    WakeAll(usize),
}

impl ListenerLayout {
    pub(super) const fn workers(self) -> usize {
        match self {
            Self::PerWorker(workers) | Self::FirstOnly(workers) | Self::WakeAll(workers) => workers,
        }
    }

    /// The number of sockets per endpoint.
    pub(super) const fn sockets(self) -> usize {
        match self {
            Self::PerWorker(workers) => workers,
            Self::FirstOnly(_) | Self::WakeAll(_) => 1,
        }
    }

    /// The number of workers that accept.
    pub(super) const fn listening(self) -> usize {
        match self {
            Self::FirstOnly(_) => 1,
            Self::PerWorker(workers) | Self::WakeAll(workers) => workers,
        }
    }
}
