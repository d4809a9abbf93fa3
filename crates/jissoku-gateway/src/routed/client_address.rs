//! Whose request it is, behind trusted proxies.

use std::net::IpAddr;

use jissoku_server::RequestHead;

/// The address of the client of a request, on a connection from this address. A trusted proxy names
/// the client.
pub(super) fn address_of(request: &RequestHead<'_>, peer: Option<IpAddr>) -> Option<IpAddr> {
    request.origin.map_or(peer, |origin| origin.client.map(|client| client.ip()))
}
