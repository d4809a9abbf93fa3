//! A minimal forwarder: relays bytes between each accepted connection and one of its own.
//!
//! Every socket is registered once, edge-triggered. An exchange on open connections takes four
//! calls, a receive and a send in each direction, besides the waits.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use jissoku_os::epoll::{self, Epoll, Interest};
use jissoku_os::socket::{self, Endpoint, Received};

const EVENTS: usize = 512;
const BUFFER_SIZE: usize = 64 * 1024;

/// Token of the descriptor that stops a worker. Those of listeners follow downwards.
const STOP: u64 = u64::MAX;

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

/// Relays between what the listeners accept and new connections to `upstream`, until `halt` ends.
pub(crate) fn serve(
    listeners: &[OwnedFd],
    upstream: &Endpoint,
    halt: &UnixStream,
) -> io::Result<()> {
    let epoll = Epoll::new()?;
    epoll.add(halt, STOP, Interest::IN)?;
    for (token, listener) in listener_tokens(listeners) {
        // Accepted connections inherit the option. Unix sockets have none and need none.
        let _set = socket::set_nodelay(listener);
        epoll.add(listener, token, Interest::IN)?;
    }
    let mut pairs: Vec<Option<Pair>> = Vec::new();
    let mut events = [epoll::no_event(); EVENTS];
    let mut buffer = vec![0; BUFFER_SIZE];
    loop {
        let count = epoll.wait(&mut events, None)?;
        for event in &events[..count] {
            let token = event.data.u64();
            if token == STOP {
                return Ok(());
            }
            let mut accepting = listener_tokens(listeners);
            if let Some((_, listener)) = accepting.find(|(known, _)| *known == token) {
                accept(listener, upstream, &epoll, &mut pairs)?;
                continue;
            }
            let side = usize::from(token % 2 == 1);
            let index = usize::try_from(token / 2).unwrap_or(usize::MAX);
            let Some(slot) = pairs.get_mut(index) else { continue };
            let Some(pair) = slot else { continue };
            if !pair.on_event(side, event.flags, &mut buffer).unwrap_or(false) {
                *slot = None;
            }
        }
    }
}

fn listener_tokens(listeners: &[OwnedFd]) -> impl Iterator<Item = (u64, &OwnedFd)> {
    (0..STOP).rev().zip(listeners)
}

/// Accepts what waits and opens a connection for each; a client without one is closed.
fn accept(
    listener: &OwnedFd,
    upstream: &Endpoint,
    epoll: &Epoll,
    pairs: &mut Vec<Option<Pair>>,
) -> io::Result<()> {
    let interest = Interest::IN | Interest::OUT | Interest::RDHUP | Interest::ET;
    while let Some(client) = socket::accept(listener)? {
        let Ok(opened) = socket::connect(upstream) else { continue };
        // The number of the client's descriptor is that of the pair. An event that was reported
        // for an earlier pair of that number costs a receive.
        let index = usize::try_from(client.as_raw_fd()).unwrap_or(0);
        let token = u64::try_from(index).unwrap_or(0) * 2;
        epoll.add(&client, token, interest)?;
        epoll.add(&opened, token + 1, interest)?;
        if pairs.len() <= index {
            pairs.resize_with(index + 1, || None);
        }
        pairs[index] = Some(Pair([Side::new(client), Side::new(opened)]));
    }
    Ok(())
}
