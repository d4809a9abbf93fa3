//! What proxies say of a client: X-Forwarded-For, -Proto and -Host, and Forwarded (RFC 7239).
//!
//! A client can send these fields, too. Each proxy appends the address of its peer, so addresses
//! count from the right, as long as the one that has appended them is trusted.

mod element;
#[cfg(test)]
mod tests;

use core::net::{IpAddr, SocketAddr};

use crate::head::{Fields, trim};
use element::{Element, split_quoted};

/// Which fields proxies set. The others may come from the client as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardedFields {
    /// Some of the X-Forwarded fields.
    XForwarded(XForwarded),
    /// Forwarded (RFC 7239).
    Forwarded,
}

impl Default for ForwardedFields {
    /// X-Forwarded-For and X-Forwarded-Proto. Many proxies pass the X-Forwarded-Host of a client on.
    fn default() -> Self {
        Self::XForwarded(XForwarded { host: false, ..XForwarded::ALL })
    }
}

/// The X-Forwarded fields that proxies set; the default has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "one for each field")]
pub struct XForwarded {
    /// X-Forwarded-For.
    pub address: bool,
    /// X-Forwarded-Proto.
    pub scheme: bool,
    /// X-Forwarded-Host.
    pub host: bool,
    /// All others, such as X-Forwarded-Prefix and X-Forwarded-Port. They say nothing here, and are
    /// forwarded.
    pub others: bool,
}

impl XForwarded {
    /// The three that have a meaning here.
    pub const ALL: Self = Self { address: true, scheme: true, host: true, others: false };
}

/// What trusted proxies say of the client of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForwardedClient<'a> {
    /// Its address; port 0 if only the IP address is known. None if no field has a valid one.
    pub address: Option<SocketAddr>,
    /// Whether it uses TLS.
    pub is_secure: Option<bool>,
    /// The Host of its request.
    pub host: Option<&'a [u8]>,
}

impl<'a> ForwardedClient<'a> {
    /// The client of a request with these fields from a trusted peer: the rightmost address that is not
    /// a trusted proxy's, or else the leftmost one. An element without a valid address ends the search.
    pub fn new(
        fields: Fields<'a>,
        kind: ForwardedFields,
        is_trusted: impl Fn(IpAddr) -> bool,
    ) -> Self {
        match kind {
            ForwardedFields::XForwarded(which) => Self::of_x_forwarded(fields, which, is_trusted),
            ForwardedFields::Forwarded => Self::of_forwarded(fields, is_trusted),
        }
    }

    fn of_x_forwarded(
        fields: Fields<'a>,
        which: XForwarded,
        is_trusted: impl Fn(IpAddr) -> bool,
    ) -> Self {
        let is = |name: &[u8], expected: &[u8]| name.eq_ignore_ascii_case(expected);
        let (mut addresses, mut schemes, mut hosts) = (Vec::new(), Vec::new(), Vec::new());
        for (name, value) in fields {
            let list = match name.len() {
                15 if which.address && is(name, b"x-forwarded-for") => &mut addresses,
                16 if which.host && is(name, b"x-forwarded-host") => &mut hosts,
                17 if which.scheme && is(name, b"x-forwarded-proto") => &mut schemes,
                _ => continue,
            };
            list.extend(value.split(|&byte| byte == b',').map(trim));
        }
        let from_right = addresses.iter().rev().map(|address| element::address(address));
        let (hops, address) = client_of(from_right, is_trusted);
        // A proxy that appends to one list appends to all; one that does not has set the value.
        let of_hop = |list: &[&'a [u8]]| match list.len() {
            count if count == addresses.len() => list.iter().rev().nth(hops).copied(),
            _ => list.last().copied(),
        };
        Self {
            address,
            is_secure: of_hop(&schemes).and_then(element::is_secure),
            host: of_hop(&hosts).filter(|host| element::is_host(host)),
        }
    }

    fn of_forwarded(fields: Fields<'a>, is_trusted: impl Fn(IpAddr) -> bool) -> Self {
        let values = fields
            .filter(|(name, _)| name.eq_ignore_ascii_case(b"forwarded"))
            .flat_map(|(_, value)| split_quoted(value, b','));
        let elements: Vec<_> = values.map(Element::parse).collect();
        let from_right = elements.iter().rev().map(|element| element.address);
        let (hops, address) = client_of(from_right, is_trusted);
        let element = elements.iter().rev().nth(hops).copied().unwrap_or_default();
        Self { address, is_secure: element.is_secure, host: element.host }
    }
}

/// The number of the client's element from the right, and its address.
fn client_of(
    from_right: impl Iterator<Item = Option<SocketAddr>>,
    is_trusted: impl Fn(IpAddr) -> bool,
) -> (usize, Option<SocketAddr>) {
    let mut found = (0, None);
    for (place, address) in from_right.enumerate() {
        let Some(address) = address else { break };
        found = (place, Some(address));
        if !is_trusted(address.ip()) {
            break;
        }
    }
    found
}
