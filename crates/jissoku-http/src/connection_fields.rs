//! Fields that are not for others to set: those of one connection, and those that a gateway sets.

/// A field that concerns one connection only (RFC 9110 section 7.6.1), whether or not Connection
/// names it, or that some take for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the field of its name")]
pub enum ConnectionField {
    Connection,
    Http2Settings,
    KeepAlive,
    /// Some applications take it for an environment variable.
    Proxy,
    ProxyAuthenticate,
    ProxyAuthorization,
    ProxyConnection,
    Te,
    Trailer,
    TransferEncoding,
    Upgrade,
}

impl ConnectionField {
    /// The field of this name, if it is one of these.
    #[inline]
    pub fn of(name: &[u8]) -> Option<Self> {
        let (field, expected): (Self, &[u8]) = match (name.len(), name.first()? | 0x20) {
            (2, b't') => (Self::Te, b"te"),
            (5, b'p') => (Self::Proxy, b"proxy"),
            (7, b't') => (Self::Trailer, b"trailer"),
            (7, b'u') => (Self::Upgrade, b"upgrade"),
            (10, b'c') => (Self::Connection, b"connection"),
            (10, b'k') => (Self::KeepAlive, b"keep-alive"),
            (14, b'h') => (Self::Http2Settings, b"http2-settings"),
            (16, b'p') => (Self::ProxyConnection, b"proxy-connection"),
            (17, b't') => (Self::TransferEncoding, b"transfer-encoding"),
            (18, b'p') => (Self::ProxyAuthenticate, b"proxy-authenticate"),
            (19, b'p') => (Self::ProxyAuthorization, b"proxy-authorization"),
            _ => return None,
        };
        name.eq_ignore_ascii_case(expected).then_some(field)
    }
}

/// Whether a configuration cannot choose this field for a purpose of its own: it frames a message,
/// concerns one connection, or names the client or the server.
pub fn is_reserved(name: &str) -> bool {
    const OTHERS: [&str; 8] = [
        "content-length",
        "expect",
        "forwarded",
        "host",
        "via",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-proto",
    ];
    ConnectionField::of(name.as_bytes()).is_some()
        || OTHERS.iter().any(|other| name.eq_ignore_ascii_case(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_in_any_case_and_by_their_whole_name() {
        for (name, expected) in [
            ("TE", Some(ConnectionField::Te)),
            ("upgrade", Some(ConnectionField::Upgrade)),
            ("Trailer", Some(ConnectionField::Trailer)),
            ("KEEP-ALIVE", Some(ConnectionField::KeepAlive)),
            ("connection", Some(ConnectionField::Connection)),
            ("Proxy", Some(ConnectionField::Proxy)),
            ("", None),
            ("cookies-id", None),
            ("Connection-Id", None),
            ("tx", None),
        ] {
            assert_eq!(ConnectionField::of(name.as_bytes()), expected, "{name}");
        }
        assert!(is_reserved("Via") && is_reserved("te") && !is_reserved("X-User"));
    }
}
