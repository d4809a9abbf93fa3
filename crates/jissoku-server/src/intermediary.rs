//! The connection of an intermediary, which identifies the client of each request.

use std::net::SocketAddr;
use std::sync::Arc;

use jissoku_http::forwarded::{ForwardedClient, ForwardedFields};
use jissoku_http::head::Fields;
use jissoku_http::uwsgi::{self, UwsgiHead};
use jissoku_http::{Event, Limits, Reject, RequestParser, Step, proxy_protocol};

use crate::client_identity::ClientIdentity;
use crate::trusted_proxies::TrustedProxies;

/// Which peers are trusted, and with which fields.
#[derive(Debug)]
pub(crate) struct Trust {
    pub(crate) proxies: TrustedProxies,
    /// Peers that may use the uwsgi and the PROXY protocol.
    pub(crate) allowed: TrustedProxies,
    pub(crate) fields: ForwardedFields,
}

/// How often an intermediary says who its client is.
#[derive(Clone, Copy, Debug)]
enum Naming {
    /// In the fields of requests.
    ByRequest,
    /// Once, in a header of the PROXY protocol or in a packet.
    ByConnection,
}

/// The additional state of an intermediary's connection.
#[derive(Debug)]
pub(crate) struct Intermediary {
    /// Whether the peer is trusted to use the protocol of its listener.
    is_allowed: bool,
    /// The received part of a header of the PROXY protocol, while it is incomplete.
    proxy_header: Option<Vec<u8>>,
    /// Whether a packet of the uwsgi protocol is awaited.
    awaits_packet: bool,
    /// The head of the packet, until it is passed to the handler.
    head: Option<UwsgiHead>,
    /// The peer, or the client according to the PROXY protocol.
    peer: Option<SocketAddr>,
    /// Whether the header of the PROXY protocol had no address.
    is_unnamed: bool,
    naming: Naming,
    trust: Arc<Trust>,
}

impl Intermediary {
    /// The connection of `peer`. Unless `is_allowed`, it is rejected.
    pub(crate) fn new(peer: Option<SocketAddr>, is_allowed: bool, trust: Arc<Trust>) -> Self {
        Self {
            is_allowed,
            proxy_header: None,
            awaits_packet: false,
            head: None,
            peer,
            is_unnamed: false,
            naming: Naming::ByRequest,
            trust,
        }
    }

    /// Expects a packet of the uwsgi protocol.
    pub(crate) fn with_packet(self) -> Self {
        Self { awaits_packet: true, naming: Naming::ByConnection, ..self }
    }

    /// Expects a header of the PROXY protocol first.
    pub(crate) fn with_proxy_header(self) -> Self {
        Self { proxy_header: Some(Vec::new()), naming: Naming::ByConnection, ..self }
    }

    /// Whether it says who the client is in requests only.
    pub(crate) const fn is_of_requests(&self) -> bool {
        matches!(self.naming, Naming::ByRequest)
    }

    pub(crate) const fn awaits_proxy_header(&self) -> bool {
        self.proxy_header.is_some()
    }

    /// Reads the header of the PROXY protocol from received bytes. Returns the number of its bytes
    /// among them, or `None` if it is not complete.
    ///
    /// # Errors
    /// [`Reject::PeerUntrusted`] and [`Reject::ProxyHeaderInvalid`].
    pub(crate) fn read_proxy_header(&mut self, bytes: &[u8]) -> Result<Option<usize>, Reject> {
        let Some(start) = &mut self.proxy_header else { return Ok(Some(0)) };
        if !self.is_allowed {
            return Err(Reject::PeerUntrusted);
        }
        let before = start.len();
        start.extend_from_slice(bytes);
        let Some(header) = proxy_protocol::read(start)? else { return Ok(None) };
        // Without a client, it has the address of the proxy, which may be that of a health check;
        // but the client of a Unix socket of the proxy is no trusted proxy.
        self.peer = header.client.or(self.peer);
        self.is_unnamed = header.client.is_none();
        if self.awaits_packet {
            let allowed = &self.trust.allowed;
            self.is_allowed = header.client.is_some_and(|it| allowed.trusts(Some(it.ip())));
        }
        self.proxy_header = None;
        // The start alone was incomplete, so the header ends within `bytes`.
        Ok(Some(header.size.saturating_sub(before)))
    }

    /// Parses the next element, as [`RequestParser::step`] does.
    ///
    /// # Errors
    /// As there, and [`Reject::PeerUntrusted`].
    pub(crate) fn step(
        &mut self,
        bytes: &[u8],
        parser: &mut RequestParser,
        limits: &Limits,
    ) -> Result<Step, Reject> {
        if !self.is_allowed {
            return Err(Reject::PeerUntrusted);
        }
        if !self.awaits_packet {
            return parser.step(bytes, limits);
        }
        let Some(packet) = uwsgi::read(bytes, limits)? else {
            return Ok(Step { used: 0, event: Event::Partial });
        };
        let head = self.head.insert(packet.to_head(limits)?).head;
        self.awaits_packet = false;
        *parser = RequestParser::behind_head(head.body);
        Ok(Step { used: packet.size, event: Event::Head(head) })
    }

    /// Whether the present request is a packet.
    pub(crate) const fn has_head(&self) -> bool {
        self.head.is_some()
    }

    /// Takes the head of the packet, once.
    pub(crate) const fn take_head(&mut self) -> Option<UwsgiHead> {
        self.head.take()
    }

    /// The client identity of a request with these fields; `packet` is that of a packet, if it was one.
    pub(crate) fn identity<'a>(
        &self,
        packet: Option<ClientIdentity<'a>>,
        fields: Fields<'a>,
    ) -> ClientIdentity<'a> {
        // A packet without an address may be that of any client.
        let is_unnamed = packet.map_or(self.is_unnamed, |packet| packet.peer.is_none());
        let identity = packet.unwrap_or(ClientIdentity::of_peer(self.peer));
        let Trust { proxies, fields: kind, .. } = &*self.trust;
        if is_unnamed || !proxies.trusts(identity.peer.map(|peer| peer.ip())) {
            return identity;
        }
        let said = ForwardedClient::new(fields, *kind, |address| proxies.trusts(Some(address)));
        identity.with_fields(&said, *kind)
    }
}
