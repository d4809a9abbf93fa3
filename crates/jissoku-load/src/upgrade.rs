//! A WebSocket handshake in progress on one connection.

use std::io;
use std::os::fd::AsFd;

use jissoku_os::socket::{self, Received};

use crate::opening_handshake::OpeningHandshake;

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
