//! The event loop of both forwarders.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use jissoku_os::epoll::{self, Epoll, Event, Interest};
use jissoku_os::socket;

const EVENTS: usize = 512;

/// Size of a read buffer.
pub(crate) const BUFFER_SIZE: usize = 64 * 1024;

/// Token of the descriptor that stops a worker. Those of listeners follow downwards.
const STOP: u64 = u64::MAX;

/// Serves what the listeners accept, until `halt` ends. A client's socket has an even token, and a
/// connection that was opened for it the next one. `open` returns what is kept of a client, unless it
/// is closed at once; `on_event` returns whether it is served on.
pub(crate) fn serve<T>(
    listeners: &[OwnedFd],
    halt: &UnixStream,
    mut open: impl FnMut(OwnedFd, u64, &Epoll) -> io::Result<Option<T>>,
    mut on_event: impl FnMut(&mut T, &Event, &Epoll) -> io::Result<bool>,
) -> io::Result<()> {
    let epoll = Epoll::new()?;
    epoll.add(halt, STOP, Interest::IN)?;
    for (token, listener) in listener_tokens(listeners) {
        // Accepted connections inherit the option. Unix sockets have none and need none.
        let _set = socket::set_nodelay(listener);
        epoll.add(listener, token, Interest::IN)?;
    }
    let mut clients: Vec<Option<T>> = Vec::new();
    let mut events = [epoll::no_event(); EVENTS];
    loop {
        let count = epoll.wait(&mut events, None)?;
        for event in &events[..count] {
            let token = event.data.u64();
            if token == STOP {
                return Ok(());
            }
            let mut accepting = listener_tokens(listeners);
            if let Some((_, listener)) = accepting.find(|(known, _)| *known == token) {
                while let Some(socket) = socket::accept(listener)? {
                    // The number of the descriptor is that of the client. An event that was
                    // reported for an earlier one of that number costs a receive.
                    let index = usize::try_from(socket.as_raw_fd()).unwrap_or(0);
                    let token = u64::try_from(index).unwrap_or(0) * 2;
                    let Some(client) = open(socket, token, &epoll)? else { continue };
                    if clients.len() <= index {
                        clients.resize_with(index + 1, || None);
                    }
                    clients[index] = Some(client);
                }
                continue;
            }
            let index = usize::try_from(token / 2).unwrap_or(usize::MAX);
            let Some(slot) = clients.get_mut(index) else { continue };
            let Some(client) = slot else { continue };
            if !on_event(client, event, &epoll).unwrap_or(false) {
                *slot = None;
            }
        }
    }
}

fn listener_tokens(listeners: &[OwnedFd]) -> impl Iterator<Item = (u64, &OwnedFd)> {
    (0..STOP).rev().zip(listeners)
}
