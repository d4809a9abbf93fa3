//! A connection of a client, and its request until the response is complete.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;

use jissoku_http::Head;
use jissoku_http::forward::ForwardError;
use jissoku_os::driver::{ConnectionId, NewConnection};
use jissoku_server::OwnedOrigin;

use crate::slab::Key;

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

/// A request.
#[derive(Debug)]
pub struct Request {
    pub(crate) state: RequestState,
    /// A chunked body, while it is not known whether it is small enough to be collected.
    pub(crate) chunked: Option<Box<ChunkedRequest>>,
    /// Whether a refusal says why.
    pub(crate) is_diagnosed: bool,
    /// It was refused before its body was complete.
    pub(crate) is_cut_off: bool,
    lost: Lost<Key>,
}

impl Drop for Request {
    fn drop(&mut self) {
        if let Some(key) = self.exchange() {
            self.lost.push(key);
        }
    }
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RequestState {
    Refused(ForwardError),
    /// It is not forwarded yet.
    Collecting(Key),
    Forwarded(Key),
}

/// A request with a chunked body.
#[derive(Debug)]
pub(crate) struct ChunkedRequest {
    pub(crate) head: Head,
    pub(crate) head_bytes: Vec<u8>,
    pub(crate) origin: Option<OwnedOrigin>,
    pub(crate) body: Vec<u8>,
    pub(crate) is_complete: bool,
}

impl Request {
    pub(crate) const fn new(state: RequestState, is_diagnosed: bool, lost: Lost<Key>) -> Self {
        Self { state, chunked: None, is_diagnosed, is_cut_off: false, lost }
    }

    /// The exchange, unless the request was refused.
    pub(crate) const fn exchange(&self) -> Option<Key> {
        match self.state {
            RequestState::Refused(_) => None,
            RequestState::Collecting(key) | RequestState::Forwarded(key) => Some(key),
        }
    }
}

/// What requests of one worker held that were dropped, and not ended: it is given back all the same.
///
/// A handler is called at the end of each request. That is not relied upon: a request that is
/// forgotten would keep its connection to a server, and its place there, for ever. So the value of a
/// request adds to such a list, when it is dropped, what may still have to be ended.
#[derive(Debug)]
pub(crate) struct Lost<T>(Rc<RefCell<Vec<T>>>);

impl<T> Clone for Lost<T> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<T> Default for Lost<T> {
    fn default() -> Self {
        Self(Rc::default())
    }
}

impl<T> Lost<T> {
    pub(crate) fn push(&self, held: T) {
        self.0.borrow_mut().push(held);
    }

    pub(crate) fn pop(&self) -> Option<T> {
        self.0.borrow_mut().pop()
    }
}
