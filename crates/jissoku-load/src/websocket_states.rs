//! The state of WebSocket connections beside their messages: handshakes in progress, and pongs to be sent.

use std::collections::HashMap;
use std::io;

use crate::connection::{Connection, compact_index};
use crate::message;
use crate::opening_handshake::OpeningHandshake;
use crate::upgrade::Upgrade;

/// What a WebSocket needs beside its messages, by connection. Only few connections need anything at
/// the same time.
#[derive(Debug, Default)]
pub(crate) struct WebSocketStates {
    /// Handshakes in progress.
    pub(crate) upgrades: HashMap<u32, Upgrade>,
    /// Answers to pings that have not been sent. Only the last ping has to be answered (RFC 6455
    /// section 5.5.3).
    pub(crate) pongs: HashMap<u32, Vec<u8>>,
}

impl WebSocketStates {
    /// Answers a ping with the next call of `send_pongs`.
    pub(crate) fn add_pong(&mut self, index: usize, payload: &[u8], key: u64) {
        self.pongs.insert(compact_index(index), message::pong(payload, key));
    }

    /// Drops what is left of a connection.
    pub(crate) fn clear(&mut self, index: usize) {
        if !self.upgrades.is_empty() || !self.pongs.is_empty() {
            self.upgrades.remove(&compact_index(index));
            self.pongs.remove(&compact_index(index));
        }
    }

    /// Continues the handshake of a connection; see `Upgrade::advance`.
    pub(crate) fn advance(
        &mut self,
        index: usize,
        handshake: &OpeningHandshake,
        connection: &Connection,
    ) -> io::Result<Option<Vec<u8>>> {
        let upgrade = self.upgrades.get_mut(&compact_index(index));
        let Some((upgrade, fd)) = upgrade.zip(connection.socket.as_ref()) else { return Ok(None) };
        upgrade.advance(handshake, fd)
    }
}
