//! What requests to the same server have in common, if a server is chosen by hash.

use std::net::{IpAddr, SocketAddr};

use jissoku_http::Head;
use jissoku_upstream::balance::Balance;
use jissoku_upstream::configuration::HashKey;
use jissoku_upstream::random;

use crate::server_set::UpstreamOptions;

/// Of what decides which server gets a request, if that is a hash.
pub(crate) fn hash_of(
    options: &UpstreamOptions,
    (head, bytes): (&Head, &[u8]),
    client: Option<SocketAddr>,
) -> u64 {
    if options.balance != Balance::Hash {
        return 0;
    }
    let field = match &options.hash_key {
        HashKey::Target => return random::hash(head.path_and_query(bytes)),
        HashKey::Address => None,
        HashKey::Field(wanted) => head
            .fields(bytes)
            .find(|(name, _)| name.eq_ignore_ascii_case(wanted.as_bytes()))
            .map(|(_, value)| random::hash(value)),
    };
    field.unwrap_or_else(|| match client.map(|address| address.ip().to_canonical()) {
        Some(IpAddr::V4(address)) => random::hash(&address.octets()),
        Some(IpAddr::V6(address)) => random::hash(&address.octets()),
        // All clients of a Unix socket.
        None => 0,
    })
}
