//! The connection of a client.

use jissoku_os::driver::{ConnectionId, NewConnection};

/// What is kept of a client's connection.
#[derive(Debug)]
pub struct Client {
    pub(crate) id: ConnectionId,
    /// The IP address, for X-Forwarded-For; none over a Unix socket.
    pub(crate) address: Option<Box<str>>,
}

impl Client {
    pub(crate) fn new(opened: &NewConnection<'_>) -> Self {
        let address = opened.peer().map(|address| address.ip().to_string().into());
        Self { id: opened.id, address }
    }
}
