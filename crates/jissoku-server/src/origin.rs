//! Where a request comes from, if the peer of its connection is not its client.

use std::net::{IpAddr, SocketAddr};

use jissoku_http::forwarded::{ForwardedClient, ForwardedFields};
use jissoku_http::uwsgi::Variables;

/// What an intermediary has said of a request, which it is trusted to say.
#[derive(Clone, Copy, Debug, Default)]
pub struct Origin<'a> {
    /// The address of the client; `None` if it is on a Unix socket or unknown. Port 0 is an unknown
    /// one.
    pub client: Option<SocketAddr>,
    /// Whether the client uses TLS; `None` if only the connection says so.
    pub is_secure: Option<bool>,
    /// The Host that the client has sent, if a proxy has replaced it.
    pub host: Option<&'a [u8]>,
    /// The variables of a request in the uwsgi protocol.
    pub variables: Option<Variables<'a>>,
    /// What sent the request to the intermediary that has connected, as that says; for a proxy that
    /// speaks HTTP only, its own address.
    pub peer: Option<SocketAddr>,
    /// The fields of the request that name its client, if `peer` is trusted to set them.
    pub trusted_fields: Option<ForwardedFields>,
}

impl<'a> Origin<'a> {
    /// That of a request from `peer`, without fields that count.
    pub(crate) const fn of_peer(peer: Option<SocketAddr>) -> Self {
        Self {
            client: peer,
            is_secure: None,
            host: None,
            variables: None,
            peer,
            trusted_fields: None,
        }
    }

    /// That of a packet.
    pub(crate) fn of_packet(variables: Variables<'a>) -> Self {
        let text = |name| str::from_utf8(variables.get(name)?).ok();
        let address = text(b"REMOTE_ADDR").and_then(|text| text.parse::<IpAddr>().ok());
        let port = text(b"REMOTE_PORT").and_then(|text| text.parse().ok()).unwrap_or(0);
        Self {
            is_secure: Some(variables.is_secure()),
            variables: Some(variables),
            ..Self::of_peer(address.map(|address| SocketAddr::new(address, port)))
        }
    }

    /// Adds what the fields of the request say, which the peer is trusted to set.
    pub(crate) fn with_fields(self, said: &ForwardedClient<'a>, kind: ForwardedFields) -> Self {
        Self {
            client: said.address.or(self.client),
            is_secure: said.is_secure.or(self.is_secure),
            host: said.host,
            trusted_fields: Some(kind),
            ..self
        }
    }
}

/// An [`Origin`] that owns what it has.
#[derive(Clone, Debug)]
pub struct OwnedOrigin {
    /// Without what is borrowed.
    origin: Origin<'static>,
    host: Option<Box<[u8]>>,
    variables: Option<Box<[u8]>>,
}

impl From<&Origin<'_>> for OwnedOrigin {
    fn from(origin: &Origin<'_>) -> Self {
        Self {
            host: origin.host.map(Into::into),
            variables: origin.variables.map(|variables| variables.bytes().into()),
            origin: Origin { host: None, variables: None, ..*origin },
        }
    }
}

impl OwnedOrigin {
    /// The origin.
    #[must_use]
    pub fn as_origin(&self) -> Origin<'_> {
        Origin {
            host: self.host.as_deref(),
            variables: self.variables.as_deref().map(Variables::new),
            ..self.origin
        }
    }
}
