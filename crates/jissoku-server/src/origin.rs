//! Where a request comes from, if the peer of its connection is not its client.

use std::net::{IpAddr, SocketAddr};

use jissoku_http::uwsgi::Variables;

/// What an intermediary has said of a request, which its listener allows it to say.
#[derive(Clone, Copy, Debug, Default)]
pub struct Origin<'a> {
    /// The address of the client; `None` if it is on a Unix socket or unknown, too. Port 0 is an
    /// unknown one.
    pub client: Option<SocketAddr>,
    /// Whether the client uses TLS; `None` if only the connection says so.
    pub is_secure: Option<bool>,
    /// The variables of a request in the uwsgi protocol.
    pub variables: Option<Variables<'a>>,
}

impl<'a> Origin<'a> {
    /// That of a packet.
    pub(crate) fn of_packet(variables: Variables<'a>) -> Self {
        let text = |name| str::from_utf8(variables.get(name)?).ok();
        let address = text(b"REMOTE_ADDR").and_then(|text| text.parse::<IpAddr>().ok());
        let port = text(b"REMOTE_PORT").and_then(|text| text.parse().ok()).unwrap_or(0);
        Self {
            client: address.map(|address| SocketAddr::new(address, port)),
            is_secure: Some(variables.is_secure()),
            variables: Some(variables),
        }
    }
}

/// An [`Origin`] that owns what it has.
#[derive(Clone, Debug)]
pub struct OwnedOrigin {
    client: Option<SocketAddr>,
    is_secure: Option<bool>,
    variables: Option<Box<[u8]>>,
}

impl From<&Origin<'_>> for OwnedOrigin {
    fn from(origin: &Origin<'_>) -> Self {
        let variables = origin.variables.map(|variables| variables.bytes().into());
        Self { client: origin.client, is_secure: origin.is_secure, variables }
    }
}

impl OwnedOrigin {
    /// The origin.
    #[must_use]
    pub fn as_origin(&self) -> Origin<'_> {
        let variables = self.variables.as_deref().map(Variables::new);
        Origin { client: self.client, is_secure: self.is_secure, variables }
    }
}
