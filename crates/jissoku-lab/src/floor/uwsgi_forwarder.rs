//! A minimal forwarder to a server of the uwsgi protocol: each receive from a client is a request,
//! for which a connection is opened that sends the same variables every time.
//!
//! A request takes ten calls when it comes alone: two waits, a receive and a send on each side, and
//! socket, connect, `epoll_ctl` and close. A response ends when it is as large as the last one whose
//! connection has ended.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use jissoku_os::epoll::{Epoll, Interest};
use jissoku_os::socket::{self, Endpoint, Received};

use crate::floor::clients::{self, BUFFER_SIZE};

/// The field of a server that ends its connection with the response.
const CLOSE: &[u8] = b"Connection: close\r\n";

/// What an application server has to know of a request without a body.
const VARIABLES: [(&str, &str); 8] = [
    ("REQUEST_METHOD", "GET"),
    ("REQUEST_URI", "/"),
    ("PATH_INFO", "/"),
    ("QUERY_STRING", ""),
    ("SERVER_PROTOCOL", "HTTP/1.1"),
    ("SERVER_NAME", "localhost"),
    ("SERVER_PORT", "80"),
    ("HTTP_HOST", "localhost"),
];

/// The packet of a request: kind, size, and each name and value after its size.
fn packet() -> Vec<u8> {
    let mut variables = Vec::new();
    for text in VARIABLES.iter().flat_map(|(name, value)| [name, value]) {
        variables.extend(u16::try_from(text.len()).unwrap_or(0).to_le_bytes());
        variables.extend(text.as_bytes());
    }
    let size = u16::try_from(variables.len()).unwrap_or(0).to_le_bytes();
    [&[0, size[0], size[1], 0], variables.as_slice()].concat()
}

/// A client, and the connection that was opened for its request.
#[derive(Debug)]
struct Client {
    socket: OwnedFd,
    upstream: Option<OwnedFd>,
    /// How much of the response has come.
    received: usize,
}

/// What the clients of a worker share.
#[derive(Debug)]
struct Forwarder<'a> {
    upstream: &'a Endpoint,
    packet: Vec<u8>,
    buffer: Vec<u8>,
    /// The size of the last response whose connection has ended.
    response_size: usize,
    /// Where [`CLOSE`] was in the last response that had it.
    close_at: usize,
}

impl Forwarder<'_> {
    /// A client has sent a request or is gone; whether it is served on.
    #[inline]
    fn on_client(&mut self, client: &mut Client, token: u64, epoll: &Epoll) -> io::Result<bool> {
        match socket::receive(&client.socket, &mut self.buffer)? {
            Received::Bytes(_) => {}
            Received::NotYet => return Ok(true),
            Received::End => return Ok(false),
        }
        let opened = socket::connect(self.upstream)?;
        epoll.add(&opened, token + 1, Interest::IN | Interest::RDHUP | Interest::ET)?;
        // On one machine `connect` ends with the connection made, also where it says otherwise.
        let is_sent = socket::send(&opened, &self.packet)? == self.packet.len();
        client.upstream = Some(opened);
        client.received = 0;
        Ok(is_sent)
    }

    /// The server has sent a part of its response, or the end; whether the client is served on.
    #[inline]
    fn on_upstream(&mut self, client: &mut Client, flags: Interest) -> io::Result<bool> {
        let has_end = flags.intersects(Interest::RDHUP | Interest::HUP | Interest::ERR);
        while let Some(upstream) = &client.upstream {
            match socket::receive(upstream, &mut self.buffer)? {
                Received::Bytes(count) => {
                    let start = if client.received == 0 { self.drop_close(count) } else { 0 };
                    if socket::send(&client.socket, &self.buffer[start..count])? < count - start {
                        return Ok(false);
                    }
                    client.received += count;
                    if client.received == self.response_size {
                        client.upstream = None;
                    } else if count < self.buffer.len() && !has_end {
                        break;
                    }
                }
                Received::NotYet => break,
                Received::End => {
                    self.response_size = client.received;
                    client.upstream = None;
                }
            }
        }
        Ok(true)
    }

    /// Takes the field out of a response by which its server announces the end of its connection:
    /// that of the client continues. Returns where the response begins then.
    #[inline]
    fn drop_close(&mut self, count: usize) -> usize {
        let (response, size) = (&mut self.buffer[..count], CLOSE.len());
        let is_there = |at: usize| response.get(at..at + size) == Some(CLOSE);
        // Mostly where it was in the last response.
        if !is_there(self.close_at) {
            let found = response.windows(size).position(|part| part == CLOSE);
            let Some(found) = found else { return 0 };
            self.close_at = found;
        }
        response.copy_within(..self.close_at, size);
        size
    }
}

/// Serves what the listeners accept with responses of `upstream`, until `halt` ends.
pub(crate) fn serve(
    listeners: &[OwnedFd],
    upstream: &Endpoint,
    halt: &UnixStream,
) -> io::Result<()> {
    let mut forwarder = Forwarder {
        upstream,
        packet: packet(),
        buffer: vec![0; BUFFER_SIZE],
        response_size: 0,
        close_at: 0,
    };
    clients::serve(
        listeners,
        halt,
        |socket, token, epoll| {
            epoll.add(&socket, token, Interest::IN | Interest::RDHUP | Interest::ET)?;
            Ok(Some(Client { socket, upstream: None, received: 0 }))
        },
        |client, event, epoll| match event.data.u64() {
            token if token.is_multiple_of(2) => forwarder.on_client(client, token, epoll),
            _ => forwarder.on_upstream(client, event.flags),
        },
    )
}
