//! An element of Forwarded (RFC 7239 section 4), and the values that it has in common with the
//! X-Forwarded fields.

use core::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::head::{is_host_and_not_empty, trim};

/// What one proxy has appended.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Element<'a> {
    pub(super) address: Option<SocketAddr>,
    pub(super) is_secure: Option<bool>,
    pub(super) host: Option<&'a [u8]>,
}

impl<'a> Element<'a> {
    /// Parses pairs such as `for="[2001:db8::1]:80";proto=https`. Unknown ones are ignored. One that
    /// is there twice makes the element void, and so does text that is no pair: the client of a proxy
    /// may have opened a quoted string in front of what the proxy has appended.
    pub(super) fn parse(text: &'a [u8]) -> Self {
        let mut element = Self::default();
        let mut seen = [false; 3];
        for pair in split_quoted(text, b';') {
            if pair.is_empty() {
                continue;
            }
            let Some((name, value)) = split_pair(pair) else { return Self::default() };
            let kinds = [b"for".as_slice(), b"proto", b"host"];
            let kind = kinds.iter().position(|kind| name.eq_ignore_ascii_case(kind));
            let Some(kind) = kind else { continue };
            if std::mem::replace(&mut seen[kind], true) {
                return Self::default();
            }
            match kind {
                0 => element.address = address(value),
                1 => element.is_secure = is_secure(value),
                _ => element.host = Some(value).filter(|host| is_host(host)),
            }
        }
        element
    }
}

/// Splits at a separator outside of quoted strings.
pub(super) fn split_quoted(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    text.split(move |&byte| {
        if is_escaped {
            is_escaped = false;
        } else {
            is_escaped = is_quoted && byte == b'\\';
            is_quoted ^= byte == b'"';
        }
        byte == separator && !is_quoted
    })
    .map(trim)
}

/// The name and the value of a pair, if they are well-formed.
fn split_pair(pair: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = pair.iter().position(|&byte| byte == b'=')?;
    let (name, value) = (trim(&pair[..at]), unquoted(trim(&pair[at + 1..]))?);
    (!name.contains(&b'"')).then_some((name, value))
}

/// The text of a quoted string as it is, or a value without quotes; `None` if quotes are elsewhere.
/// Escapes are kept: no address, scheme or Host has any.
fn unquoted(value: &[u8]) -> Option<&[u8]> {
    let [b'"', inside @ .., b'"'] = value else {
        return (!value.contains(&b'"')).then_some(value);
    };
    let mut is_escaped = false;
    for &byte in inside {
        if byte == b'"' && !is_escaped {
            return None;
        }
        is_escaped = byte == b'\\' && !is_escaped;
    }
    (!is_escaped).then_some(inside)
}

/// An IP address, with a port or without; one of IPv6 is in brackets if it has a port.
pub(super) fn address(text: &[u8]) -> Option<SocketAddr> {
    let text = str::from_utf8(text).ok()?;
    let canonical = |ip: IpAddr, port| Some(SocketAddr::new(ip.to_canonical(), port));
    if let Ok(ip) = text.parse::<IpAddr>() {
        return canonical(ip, 0);
    }
    let bracketed = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    if let Some(ip) = bracketed.and_then(|inside| inside.parse::<Ipv6Addr>().ok()) {
        return canonical(ip.into(), 0);
    }
    let address = text.parse::<SocketAddr>().ok()?;
    canonical(address.ip(), address.port())
}

/// Whether a scheme is one over TLS; `None` if it is unknown.
pub(super) fn is_secure(scheme: &[u8]) -> Option<bool> {
    let is = |known: &[u8]| scheme.eq_ignore_ascii_case(known);
    if is(b"https") || is(b"wss") {
        return Some(true);
    }
    (is(b"http") || is(b"ws")).then_some(false)
}

/// Whether this is a Host that a request may have.
pub(super) fn is_host(text: &[u8]) -> bool {
    is_host_and_not_empty(text)
}
