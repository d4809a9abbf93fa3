//! Validation of hosts: RFC 9112 section 3.2 and RFC 3986 section 3.2.2.

use crate::scan;

/// Whether `value` is `uri-host [ ":" port ]`, possibly with an empty host.
#[inline]
pub(super) fn is_valid(value: &[u8]) -> bool {
    let size = value.iter().position(|&byte| !scan::is_plain_host(byte)).unwrap_or(value.len());
    match &value[size..] {
        [] => true,
        [b':', port @ ..] => port.iter().all(u8::is_ascii_digit),
        _ => is_valid_slow(value),
    }
}

/// As [`is_valid`], for a host with percent-encoded bytes or an IP literal, which are rare.
#[cold]
fn is_valid_slow(value: &[u8]) -> bool {
    let size = value.iter().position(|&byte| !scan::is_host(byte)).unwrap_or(value.len());
    let (host, rest) = value.split_at(size);
    match rest {
        [] => percent_encoding_is_complete(host),
        [b':', port @ ..] => {
            percent_encoding_is_complete(host) && port.iter().all(u8::is_ascii_digit)
        }
        [b'[', literal @ ..] if host.is_empty() => is_ip_literal(literal),
        _ => false,
    }
}

/// As [`is_valid`], and not empty, as required in http URIs (RFC 9110 section 4.2.1).
#[inline]
pub(crate) fn is_valid_and_not_empty(value: &[u8]) -> bool {
    is_valid(value) && !matches!(value, [] | [b':', ..])
}

/// The rest of an IP literal after its bracket: an IPv6 address or `IPvFuture`.
fn is_ip_literal(rest: &[u8]) -> bool {
    let Some(end) = rest.iter().position(|&byte| byte == b']') else { return false };
    let (inside, after) = (&rest[..end], &rest[end + 1..]);
    let port_fits = match after {
        [] => true,
        [b':', port @ ..] => port.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    let address = str::from_utf8(inside).unwrap_or_default();
    port_fits && (address.parse::<core::net::Ipv6Addr>().is_ok() || is_ip_future(inside))
}

/// `"v" 1*HEXDIG "." 1*( unreserved / sub-delims / ":" )`.
fn is_ip_future(inside: &[u8]) -> bool {
    let [b'v' | b'V', rest @ ..] = inside else { return false };
    let Some(dot) = rest.iter().position(|&byte| byte == b'.') else { return false };
    let (version, address) = (&rest[..dot], &rest[dot + 1..]);
    let is_address = |&byte: &u8| byte == b':' || (scan::is_host(byte) && byte != b'%');
    !version.is_empty()
        && version.iter().all(u8::is_ascii_hexdigit)
        && !address.is_empty()
        && address.iter().all(is_address)
}

fn percent_encoding_is_complete(host: &[u8]) -> bool {
    let mut rest = host;
    while let Some(at) = rest.iter().position(|&byte| byte == b'%') {
        let [_, high, low, tail @ ..] = &rest[at..] else { return false };
        if !high.is_ascii_hexdigit() || !low.is_ascii_hexdigit() {
            return false;
        }
        rest = tail;
    }
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{is_valid, is_valid_slow};

    proptest! {
        #[test]
        fn the_short_way_and_the_full_one_agree(value in "[a-c0-9%.:\\[\\]v@ -]{0,12}") {
            prop_assert_eq!(is_valid(value.as_bytes()), is_valid_slow(value.as_bytes()));
        }
    }

    #[test]
    fn a_host_is_accepted_and_other_text_is_not() {
        let hosts = [
            "",
            "localhost",
            "127.0.0.1:8000",
            "a.b-c_d~e",
            "h:",
            "%41b",
            "a!$&'()*+,;=b",
            "[::1]",
            "[::1]:80",
            "[fe80::1:2]:",
            "[v1.a:b]",
            ":80",
        ];
        for host in hosts {
            assert!(is_valid(host.as_bytes()), "{host:?} is a host");
        }
        let others = [
            "a b",
            "a/b",
            "u@h",
            "h:80:80",
            "h:8o",
            "%4",
            "%zz",
            "a%4",
            "[::1",
            "[::1]x",
            "[1.2.3.4]",
            "[]",
            "x[::1]",
            "a\tb",
            "h\u{e9}",
            "a\"b",
            "[v.a]",
            "[v1.]",
            "h?",
            "h#",
            "h\\",
        ];
        for other in others {
            assert!(!is_valid(other.as_bytes()), "{other:?} is no host");
        }
    }
}
