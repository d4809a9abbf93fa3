//! Which side has opened a connection.

/// Which side has opened a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The peer.
    Accepted,
    /// This side, and it is not established yet.
    Connecting,
    /// This side.
    Opened,
}
