//! Requests that are answered without the handler because of the listener or the certificate of their
//! connection.

use std::fmt::Write as _;
use std::sync::Arc;

use jissoku_http::Head;

use crate::tls::{CertificateIndex, Certificates};

const HTTPS_PORT: u16 = 443;

/// Which requests of a connection the handler gets.
#[derive(Debug)]
pub(crate) enum HeadCheck {
    /// None: they are redirected to `https`, at this port.
    Redirect(u16),
    /// Those for a host that has the same certificate as the name that the client has asked for.
    Certificate(CertificateIndex, Arc<Certificates>),
}

impl HeadCheck {
    /// Of a client that has asked for this name in the handshake.
    pub(crate) fn of_name(certificates: &Arc<Certificates>, name: &str) -> Self {
        Self::Certificate(certificates.index_of(name), Arc::clone(certificates))
    }

    /// The status and the fields of the response to a request that the handler does not get.
    pub(crate) fn refusal(&self, head: &Head, bytes: &[u8]) -> Option<(u16, String)> {
        let mut text = Vec::new();
        let rewritten = head.in_origin_form(bytes, &mut text);
        let (head, bytes) = rewritten.as_ref().map_or((head, bytes), |head| (head, &*text));
        let name = without_port(head.host(bytes).unwrap_or_default());
        match self {
            Self::Redirect(_) if name.is_empty() => Some((400, String::new())),
            Self::Redirect(port) => Some((308, location(name, *port, head.path_and_query(bytes)))),
            Self::Certificate(index, certificates) => {
                let is_same = certificates.index_of(&String::from_utf8_lossy(name)) == *index;
                (!is_same).then_some((421, String::new()))
            }
        }
    }
}

/// The field of a redirect. The host, which was parsed, has only bytes of a host.
fn location(name: &[u8], port: u16, target: &[u8]) -> String {
    let port = if port == HTTPS_PORT { String::new() } else { format!(":{port}") };
    let target = if target.starts_with(b"/") { target } else { b"/" };
    let mut field = format!("Location: https://{}{port}", String::from_utf8_lossy(name));
    for &byte in target {
        if byte.is_ascii_graphic() {
            field.push(char::from(byte));
        } else {
            let _infallible = write!(field, "%{byte:02X}");
        }
    }
    field + "\r\n"
}

/// The host of `host:port`. The colons of an IPv6 address are within brackets.
fn without_port(host: &[u8]) -> &[u8] {
    let start = host.iter().rposition(|&byte| byte == b']').unwrap_or(0);
    let colon = host[start..].iter().position(|&byte| byte == b':');
    colon.map_or(host, |colon| &host[..start + colon])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_keeps_the_host_and_the_target() {
        for (host, port, target, expected) in [
            ("a.example", 443, "/x?y=//z", "https://a.example/x?y=//z"),
            ("a.example:80", 443, "/", "https://a.example/"),
            ("a.example:8080", 8443, "//b.example/", "https://a.example:8443//b.example/"),
            ("[::1]:80", 443, "*", "https://[::1]/"),
            ("[::1]", 8443, "/\u{e9}", "https://[::1]:8443/%C3%A9"),
        ] {
            let name = without_port(host.as_bytes());
            let field = location(name, port, target.as_bytes());
            assert_eq!(field, format!("Location: {expected}\r\n"));
        }
    }
}
