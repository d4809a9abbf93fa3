//! Which workers listen on which sockets.

/// Which of so many workers listen on what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dealing {
    /// Each on a socket of its own where that is possible.
    Each(usize),
    /// The first on everything, the others on nothing: a planted cause.
    First(usize),
    /// All on the same sockets, and all are woken: a planted cause.
    Herd(usize),
}

impl Dealing {
    pub(super) const fn workers(self) -> usize {
        match self {
            Self::Each(workers) | Self::First(workers) | Self::Herd(workers) => workers,
        }
    }

    /// How many sockets an endpoint should have.
    pub(super) const fn sockets(self) -> usize {
        match self {
            Self::Each(workers) => workers,
            Self::First(_) | Self::Herd(_) => 1,
        }
    }

    /// How many workers listen.
    pub(super) const fn listening(self) -> usize {
        match self {
            Self::First(_) => 1,
            Self::Each(workers) | Self::Herd(workers) => workers,
        }
    }
}
