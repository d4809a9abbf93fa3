//! What requests of parts have in common that get one response.

use jissoku_http::Head;

use crate::config::Forwarding;

/// Fields that name a request, and do not change its response.
const TRACING: [&str; 3] = ["traceparent", "tracestate", "x-request-id"];

/// What two parts have in common of which one gets the response of the other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FlightKey {
    /// Their upstream, and how long they may take there.
    forwarding: Forwarding,
    /// How large their bodies may be.
    body_size_max: usize,
    /// By which a server is chosen, such as the client's address.
    hash: u64,
    /// The scheme that the servers see.
    is_secure: bool,
    /// The target and all other fields of the client: its Authorization and Cookie, among others.
    request: Box<[u8]>,
}

impl FlightKey {
    /// Of a GET with this head, before it is edited as every other that is forwarded.
    pub(crate) fn new(
        (head, bytes): (&Head, &[u8]),
        (forwarding, hash): (Forwarding, u64),
        body_size_max: usize,
        is_secure: bool,
    ) -> Self {
        let mut request = head.path_and_query(bytes).to_vec();
        for (name, value) in head.fields(bytes) {
            if !TRACING.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes())) {
                request.extend_from_slice(b"\n");
                request.extend_from_slice(&name.to_ascii_lowercase());
                request.extend_from_slice(b":");
                request.extend_from_slice(value);
            }
        }
        Self { forwarding, body_size_max, hash, is_secure, request: request.into() }
    }
}

#[cfg(test)]
mod tests {
    use jissoku_http::Limits;
    use jissoku_http::head::HeadReader;

    use super::*;

    fn key(target: &str, fields: &str) -> FlightKey {
        let text = format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        let bytes = text.as_bytes();
        let head = HeadReader::default().read(bytes, &Limits::DEFAULT);
        let head = head.expect("it is a head").expect("it is whole");
        FlightKey::new((&head, bytes), (Forwarding::new(0, 1), 0), 1, false)
    }

    #[test]
    fn requests_of_different_users_are_different() {
        let check = |fields: &str, others: &str, expected| {
            assert_eq!(key("/a", fields) == key("/a", others), expected, "{fields:?} {others:?}");
        };
        check("", "", true);
        check("Cookie: a=1\r\n", "cookie: a=1\r\n", true);
        check("Cookie: a=1\r\n", "Cookie: a=2\r\n", false);
        check("Cookie: a=1\r\n", "", false);
        check("Authorization: x\r\n", "Authorization: y\r\n", false);
        check("Accept-Language: de\r\n", "Accept-Language: en\r\n", false);
        check("X-Request-Id: 1\r\nTraceparent: a\r\n", "tracestate: b\r\n", true);
        check("A: b\r\nC: d\r\n", "A: b\r\n", false);
        assert_ne!(key("/a", ""), key("/a?b", ""));
    }

    #[test]
    fn requests_for_different_servers_are_different() {
        let same = key("/a", "");
        let other = |forwarding| FlightKey { forwarding, ..same.clone() };
        assert_eq!(other(Forwarding::new(0, 1)), same);
        assert_ne!(other(Forwarding::new(1, 1)), same);
        assert_ne!(FlightKey { hash: 1, ..same.clone() }, same);
        assert_ne!(FlightKey { is_secure: true, ..same.clone() }, same);
    }
}
