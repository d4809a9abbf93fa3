//! A WebSocket handshake in progress on one connection.

use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd;

use jissoku_os::socket::{self, Received};

use crate::engine::connection::{Connection, compact_index};
use crate::protocol::message;
use crate::protocol::opening_handshake::OpeningHandshake;

/// Size of reads during the handshake.
const PIECE_SIZE: usize = 4 * 1024;

/// Limit of the response's size.
const RESPONSE_SIZE_MAX: usize = 64 * 1024;

/// A handshake whose response is incomplete.
#[derive(Debug)]
pub(crate) struct Upgrade {
    request: Vec<u8>,
    /// Bytes of the request that the kernel has accepted.
    sent: usize,
    accept: String,
    response: Vec<u8>,
}

impl Upgrade {
    /// A handshake with a key made of two random numbers.
    pub(crate) fn new(handshake: &OpeningHandshake, random: [u64; 2]) -> Self {
        let (request, accept) = handshake.request(random);
        Self { request, sent: 0, accept, response: Vec::new() }
    }

    /// Continues the handshake as far as possible without blocking. When it is complete, returns
    /// the bytes that came after the response.
    pub(crate) fn advance(
        &mut self,
        handshake: &OpeningHandshake,
        fd: impl AsFd,
    ) -> io::Result<Option<Vec<u8>>> {
        while self.sent < self.request.len() {
            match socket::send(&fd, &self.request[self.sent..])? {
                0 => return Ok(None),
                count => self.sent += count,
            }
        }
        let mut piece = [0; PIECE_SIZE];
        loop {
            match socket::receive(&fd, &mut piece)? {
                Received::Bytes(count) => self.response.extend_from_slice(&piece[..count]),
                Received::NotYet => return Ok(None),
                Received::End => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
            let checked = handshake.check(&self.response, &self.accept);
            if let Some(size) = checked.map_err(io::Error::other)? {
                return Ok(Some(self.response.split_off(size)));
            }
            if self.response.len() > RESPONSE_SIZE_MAX {
                return Err(io::Error::other(
                    "the response to the WebSocket handshake is too long",
                ));
            }
        }
    }
}

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
