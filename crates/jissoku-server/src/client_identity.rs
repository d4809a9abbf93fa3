//! The client identity of a request, if the peer of its connection is not its client.

use std::net::{IpAddr, SocketAddr};

use jissoku_http::forwarded::{ForwardedClient, ForwardedFields};
use jissoku_http::uwsgi::Variables;

/// The information of a trusted intermediary about the client of a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClientIdentity<'a> {
    /// The address of the client; `None` if it is on a Unix socket or unknown. Port 0 is an unknown
    /// one.
    pub client: Option<SocketAddr>,
    /// Whether the client uses TLS; `None` if that follows from the connection.
    pub is_secure: Option<bool>,
    /// The Host that the client has sent, if a proxy has replaced it.
    pub host: Option<&'a [u8]>,
    /// The variables of a request in the uwsgi protocol.
    pub variables: Option<Variables<'a>>,
    /// The peer of the intermediary according to the intermediary; for a proxy that speaks HTTP
    /// only, its own address.
    pub peer: Option<SocketAddr>,
    /// The fields of the request that name its client, if `peer` is trusted to set them.
    pub trusted_fields: Option<ForwardedFields>,
}

impl<'a> ClientIdentity<'a> {
    /// The client identity of a request from `peer`, without trusted fields.
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

    /// The client identity of a packet of the uwsgi protocol.
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

    /// Applies the fields of the request that the peer is trusted to set.
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

/// A [`ClientIdentity`] that owns its data.
#[derive(Clone, Debug)]
pub struct OwnedIdentity {
    /// The fields that borrow nothing.
    identity: ClientIdentity<'static>,
    host: Option<Box<[u8]>>,
    variables: Option<Box<[u8]>>,
}

impl From<&ClientIdentity<'_>> for OwnedIdentity {
    fn from(identity: &ClientIdentity<'_>) -> Self {
        Self {
            host: identity.host.map(Into::into),
            variables: identity.variables.map(|variables| variables.bytes().into()),
            identity: ClientIdentity { host: None, variables: None, ..*identity },
        }
    }
}

impl OwnedIdentity {
    /// The same, borrowed.
    pub fn as_identity(&self) -> ClientIdentity<'_> {
        ClientIdentity {
            host: self.host.as_deref(),
            variables: self.variables.as_deref().map(Variables::new),
            ..self.identity
        }
    }
}
