//! A minimal forwarder: relays bytes between each accepted connection and one of its own.
//!
//! Every socket is registered once, edge-triggered. An exchange on open connections takes four
//! calls, a receive and a send in each direction, besides the waits.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use jissoku_os::epoll::Interest;
use jissoku_os::socket::{self, Endpoint, Received};

use crate::floor::clients::{self, BUFFER_SIZE};

/// The side that was accepted; the other one was opened.
const CLIENT: usize = 0;

/// One of the two connections of a pair.
#[derive(Debug)]
struct Side {
    socket: OwnedFd,
    /// Bytes from the other side that the kernel has not accepted here yet.
    unsent: Vec<u8>,
    /// The kernel has reported an end or an error: a short read is not the last one then.
    is_hung_up: bool,
    /// The end of its bytes was received and passed on.
    has_ended: bool,
}

impl Side {
    fn new(socket: OwnedFd) -> Self {
        Self { socket, unsent: Vec::new(), is_hung_up: false, has_ended: false }
    }

    /// Sends what waits; whether all of it went.
    fn flush(&mut self) -> io::Result<bool> {
        let sent = send_all(&self.socket, &self.unsent)?;
        self.unsent.drain(..sent);
        Ok(self.unsent.is_empty())
    }
}

/// A client's connection and the one that was opened for it.
#[derive(Debug)]
struct Pair([Side; 2]);

impl Pair {
    /// Passes on what an event of one side makes possible; whether the pair lives on.
    #[inline]
    fn on_event(&mut self, side: usize, flags: Interest, buffer: &mut [u8]) -> io::Result<bool> {
        let has_end = flags.intersects(Interest::RDHUP | Interest::HUP | Interest::ERR);
        self.0[side].is_hung_up |= has_end;
        if flags.contains(Interest::OUT) && !self.0[side].unsent.is_empty() {
            self.relay(1 - side, buffer)?;
        }
        if has_end || flags.contains(Interest::IN) {
            self.relay(side, buffer)?;
        }
        Ok(self.0.iter().any(|side| !side.has_ended))
    }

    /// Receives from one side and sends to the other, until there is no more to receive or the
    /// other side accepts no more.
    fn relay(&mut self, from: usize, buffer: &mut [u8]) -> io::Result<()> {
        let [client, upstream] = &mut self.0;
        let (from, to) = if from == CLIENT { (client, upstream) } else { (upstream, client) };
        // Room is reported by an event of the other side, which continues here.
        while !from.has_ended && (to.unsent.is_empty() || to.flush()?) {
            match socket::receive(&from.socket, buffer)? {
                Received::Bytes(count) => {
                    let sent = send_all(&to.socket, &buffer[..count])?;
                    to.unsent.extend_from_slice(&buffer[sent..count]);
                    if count < buffer.len() && !from.is_hung_up {
                        break;
                    }
                }
                Received::NotYet => break,
                Received::End => {
                    from.has_ended = true;
                    socket::shutdown_write(&to.socket)?;
                }
            }
        }
        Ok(())
    }
}

/// Sends until the kernel accepts no more, which an edge-triggered event requires; returns the
/// number of bytes.
#[inline]
fn send_all(socket: &OwnedFd, bytes: &[u8]) -> io::Result<usize> {
    let mut sent = 0;
    while sent < bytes.len() {
        match socket::send(socket, &bytes[sent..])? {
            0 => break,
            count => sent += count,
        }
    }
    Ok(sent)
}

/// Relays between what the listeners accept and new connections to `upstream`, until `halt` ends. A
/// client is closed if there is no connection for it.
pub(crate) fn serve(
    listeners: &[OwnedFd],
    upstream: &Endpoint,
    halt: &UnixStream,
) -> io::Result<()> {
    let interest = Interest::IN | Interest::OUT | Interest::RDHUP | Interest::ET;
    let mut buffer = vec![0; BUFFER_SIZE];
    clients::serve(
        listeners,
        halt,
        |client, token, epoll| {
            let Ok(opened) = socket::connect(upstream) else { return Ok(None) };
            epoll.add(&client, token, interest)?;
            epoll.add(&opened, token + 1, interest)?;
            Ok(Some(Pair([Side::new(client), Side::new(opened)])))
        },
        |pair, event, _| {
            let side = usize::from(event.data.u64() % 2 == 1);
            pair.on_event(side, event.flags, &mut buffer)
        },
    )
}
