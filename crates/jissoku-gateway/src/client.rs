//! The connection of a client.

use std::net::SocketAddr;

use jissoku_os::driver::{ConnectionId, NewConnection};

/// What is kept of a client's connection.
#[derive(Debug)]
pub struct Client {
    pub(crate) id: ConnectionId,
    /// The IP address, for X-Forwarded-For; none over a Unix socket.
    pub(crate) address: Option<Box<str>>,
    /// The same with its port.
    pub(crate) peer: Option<SocketAddr>,
}

impl Client {
    pub(crate) fn new(opened: &NewConnection<'_>) -> Self {
        let peer = opened.peer();
        let address = peer.map(|peer| peer.ip().to_string().into());
        Self { id: opened.id, address, peer }
    }
}
