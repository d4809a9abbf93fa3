//! A connection of a client, and its side of a request until the response is complete.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use jissoku_http::Head;
use jissoku_http::forward::ForwardError;
use jissoku_os::driver::{ConnectionId, NewConnection};
use jissoku_server::{ClientIdentity, OwnedIdentity, RequestHead, SecureListeners};

use crate::Key;
use crate::policy::routes::Captures;

/// What is kept of a client's connection.
#[derive(Debug)]
pub struct Client {
    pub(crate) id: ConnectionId,
    /// The IP address, for X-Forwarded-For; none over a Unix socket.
    pub(crate) address: Option<Box<str>>,
    /// The same with its port.
    pub(crate) peer: Option<SocketAddr>,
    is_secure: bool,
}

impl Client {
    pub(crate) fn new(opened: &NewConnection<'_>, secure_listeners: &SecureListeners) -> Self {
        let peer = opened.peer();
        let address = peer.map(|peer| peer.ip().to_string().into());
        Self { id: opened.id, address, peer, is_secure: secure_listeners.has(opened.listener) }
    }

    /// One of a Unix socket.
    #[cfg(test)]
    pub(crate) const fn local(id: ConnectionId) -> Self {
        Self { id, address: None, peer: None, is_secure: false }
    }

    /// Whether the client of a request uses TLS: this one, or that which a trusted proxy names.
    pub(crate) fn is_secure_for(&self, identity: Option<&ClientIdentity<'_>>) -> bool {
        identity.and_then(|identity| identity.is_secure).unwrap_or(self.is_secure)
    }
}

/// The client's side of a request. It owns the exchange: one that is dropped, and not ended, is ended
/// by the handler.
#[derive(Debug)]
pub struct ClientSide {
    phase: ClientPhase,
    /// Whether a refusal says why.
    pub(crate) is_diagnosed: bool,
    lost: Lost<Key>,
}

/// How far a request has come.
#[derive(Debug)]
enum ClientPhase {
    /// It is not forwarded; whether its body is incomplete.
    Refused(ForwardError, bool),
    /// It is being received. It has a chunked body, and it is not known whether that is small enough to
    /// be collected.
    Chunked(Key, Box<ChunkedRequest>),
    /// It is being received, or was received.
    Collecting(Key),
    /// It is forwarded, as a whole or while it is being received.
    Forwarded(Key),
}

#[derive(Debug)]
pub(crate) struct ChunkedRequest {
    head: Head,
    head_bytes: Vec<u8>,
    identity: Option<OwnedIdentity>,
    /// The variables of its path.
    pub(crate) captures: Captures,
    /// The header line with its id.
    pub(crate) request_id: Option<Arc<[u8]>>,
    pub(crate) body: Vec<u8>,
    pub(crate) is_complete: bool,
}

/// What is to be done when a response is wanted.
#[derive(Debug)]
pub(crate) enum ClientStep {
    /// A response with this error; whether the body is incomplete.
    Refuse(ForwardError, bool),
    /// More is to be received.
    Wait,
    /// The exchange is to be forwarded from now on, with this chunked request if it has one.
    Forward(Key, Option<Box<ChunkedRequest>>),
    /// The response of the exchange continues.
    Continue(Key),
}

impl Drop for ClientSide {
    fn drop(&mut self) {
        if let Some(key) = self.exchange() {
            self.lost.push(key);
        }
    }
}

impl ChunkedRequest {
    pub(crate) fn new(request: &RequestHead<'_>, captures: Captures) -> Self {
        Self {
            captures,
            request_id: request.request_id.cloned(),
            head: *request.head,
            head_bytes: request.bytes[..request.head.size as usize].to_vec(),
            identity: request.identity.map(Into::into),
            body: Vec::new(),
            is_complete: false,
        }
    }

    pub(crate) fn head(&self) -> (&Head, &[u8], Option<ClientIdentity<'_>>) {
        (&self.head, &self.head_bytes, self.identity.as_ref().map(OwnedIdentity::as_identity))
    }
}

impl ClientSide {
    /// The head of a request was received, whose exchange is this.
    pub(crate) const fn collecting(exchange: Key, is_diagnosed: bool, lost: Lost<Key>) -> Self {
        Self { phase: ClientPhase::Collecting(exchange), is_diagnosed, lost }
    }

    /// As [`ClientSide::collecting`], of a request with a chunked body.
    pub(crate) const fn chunked(
        exchange: Key,
        request: Box<ChunkedRequest>,
        is_diagnosed: bool,
        lost: Lost<Key>,
    ) -> Self {
        Self { phase: ClientPhase::Chunked(exchange, request), is_diagnosed, lost }
    }

    pub(crate) const fn refused(error: ForwardError, is_diagnosed: bool, lost: Lost<Key>) -> Self {
        Self { phase: ClientPhase::Refused(error, false), is_diagnosed, lost }
    }

    /// The exchange, unless the request was refused.
    pub(crate) const fn exchange(&self) -> Option<Key> {
        match self.phase {
            ClientPhase::Refused(..) => None,
            ClientPhase::Chunked(key, _)
            | ClientPhase::Collecting(key)
            | ClientPhase::Forwarded(key) => Some(key),
        }
    }

    /// Whether all of the body is received here first, for now.
    pub(crate) const fn is_chunked(&self) -> bool {
        matches!(self.phase, ClientPhase::Chunked(..))
    }

    /// A part of the body was received. Returns the exchange that gets it, unless it is kept here.
    pub(crate) fn push_body(&mut self, part: &[u8]) -> Option<Key> {
        if let ClientPhase::Chunked(_, request) = &mut self.phase {
            request.body.extend_from_slice(part);
            return None;
        }
        self.exchange()
    }

    /// The body is complete. Returns the exchange that gets the end, unless it is noted here.
    pub(crate) fn end_body(&mut self) -> Option<Key> {
        if let ClientPhase::Chunked(_, request) = &mut self.phase {
            request.is_complete = true;
            return None;
        }
        self.exchange()
    }

    /// A response is wanted. Of a chunked body, `collected_size_max` is collected.
    pub(crate) fn step(&mut self, collected_size_max: impl FnOnce(Key) -> u64) -> ClientStep {
        let key = match &self.phase {
            ClientPhase::Refused(error, is_cut_off) => {
                return ClientStep::Refuse(*error, *is_cut_off);
            }
            ClientPhase::Forwarded(key) => return ClientStep::Continue(*key),
            ClientPhase::Chunked(key, request) => {
                let size = request.body.len() as u64;
                if !request.is_complete && size <= collected_size_max(*key) {
                    return ClientStep::Wait;
                }
                *key
            }
            ClientPhase::Collecting(key) => *key,
        };
        match std::mem::replace(&mut self.phase, ClientPhase::Forwarded(key)) {
            ClientPhase::Chunked(_, request) => ClientStep::Forward(key, Some(request)),
            _ => ClientStep::Forward(key, None),
        }
    }

    /// The request is not forwarded after all; its exchange has ended. Whether its body is incomplete.
    pub(crate) fn refuse(&mut self, error: ForwardError, is_cut_off: bool) {
        self.phase = ClientPhase::Refused(error, is_cut_off);
    }

    /// Another copy of the request is the one whose response is used.
    pub(crate) fn forward(&mut self, exchange: Key) {
        self.phase = ClientPhase::Forwarded(exchange);
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
