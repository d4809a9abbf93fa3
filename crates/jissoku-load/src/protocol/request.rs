//! Serialises a request.

use crate::plan::address::Address;
use crate::plan::invalid::Invalid;
use crate::plan::options::Reuse;
use crate::protocol::request_template::RequestTemplate;

/// A request, without its URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The method.
    pub method: String,
    /// Header fields as (name, value), in order. `Host`, `Connection` and `Content-Length` replace
    /// the defaults.
    pub fields: Vec<(String, String)>,
    /// The HTTP version.
    pub version: Version,
    /// The body; empty for none.
    pub body: Vec<u8>,
}

/// A version of HTTP/1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Connections close after a response unless both sides agree otherwise.
    Http10,
    /// Connections stay open unless one side says otherwise.
    Http11,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            method: "GET".to_owned(),
            fields: Vec::new(),
            version: Version::Http11,
            body: Vec::new(),
        }
    }
}

impl Request {
    /// The bytes to send. Request target, fields and body may contain placeholders (see
    /// [`RequestTemplate`]).
    ///
    /// # Errors
    /// The method or a field contains invalid bytes.
    pub fn render(&self, address: &Address, reuse: Reuse) -> Result<RequestTemplate, Invalid> {
        if !is_token(&self.method) || self.method == "CONNECT" {
            return Err(Invalid(format!("invalid method {:?}", self.method)));
        }
        let minor = if self.version == Version::Http10 { '0' } else { '1' };
        let mut text = format!("{} {} HTTP/1.{minor}\r\n", self.method, address.request_target());
        let mut add = |name: &str, value: &str| {
            text.extend([name, ": ", value, "\r\n"]);
        };
        if !self.has("host") {
            add("Host", address.authority());
        }
        let connection = match (self.version, reuse) {
            (Version::Http11, Reuse::Close) => Some("close"),
            (Version::Http10, Reuse::KeepAlive | Reuse::Requests(_)) => Some("keep-alive"),
            (Version::Http11, Reuse::KeepAlive | Reuse::Requests(_))
            | (Version::Http10, Reuse::Close) => None,
        };
        if let Some(connection) = connection.filter(|_| !self.has("connection")) {
            add("Connection", connection);
        }
        let owns_framing = self.has("content-length") || self.has("transfer-encoding");
        // RFC 9110 section 8.6: where the method gives content a meaning, none is announced, too.
        let takes_content = matches!(&*self.method, "POST" | "PUT" | "PATCH");
        if (takes_content || !self.body.is_empty()) && !owns_framing {
            add("Content-Length", &RequestTemplate::parse(&self.body)?.bytes().len().to_string());
        }
        for (name, value) in &self.fields {
            let stays = value.bytes().all(|byte| byte == b'\t' || (byte >= b' ' && byte != 0x7f));
            if !is_token(name) || !stays {
                return Err(Invalid(format!("invalid header field \"{name}: {value}\"")));
            }
            add(name, value);
        }
        text.push_str("\r\n");
        let mut bytes = text.into_bytes();
        bytes.extend_from_slice(&self.body);
        RequestTemplate::parse(&bytes)
    }

    fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|(given, _)| given.eq_ignore_ascii_case(name))
    }
}

/// RFC 9110 section 5.6.2.
fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(request: &Request, reuse: Reuse) -> String {
        let address = "http://127.0.0.1:8000/x?y".parse().expect("it is a URL");
        let template = request.render(&address, reuse).expect("it is fine");
        String::from_utf8(template.bytes().to_vec()).expect("all ASCII")
    }

    #[test]
    fn the_least_request_has_one_field() {
        let text = render(&Request::default(), Reuse::KeepAlive);
        assert_eq!(text, "GET /x?y HTTP/1.1\r\nHost: 127.0.0.1:8000\r\n\r\n");
    }

    #[test]
    fn the_older_version_asks_to_be_kept() {
        let request = Request { version: Version::Http10, ..Request::default() };
        let kept = "GET /x?y HTTP/1.0\r\nHost: 127.0.0.1:8000\r\nConnection: keep-alive\r\n\r\n";
        assert_eq!(render(&request, Reuse::KeepAlive), kept);
        let closed = "GET /x?y HTTP/1.0\r\nHost: 127.0.0.1:8000\r\n\r\n";
        assert_eq!(render(&request, Reuse::Close), closed);
    }

    #[test]
    fn a_body_is_announced_and_a_close_too() {
        let request = Request {
            method: "POST".to_owned(),
            fields: vec![("host".to_owned(), "a".to_owned())],
            body: b"42".to_vec(),
            ..Request::default()
        };
        let text =
            "POST /x?y HTTP/1.1\r\nConnection: close\r\nContent-Length: 2\r\nhost: a\r\n\r\n42";
        assert_eq!(render(&request, Reuse::Close), text);
    }

    #[test]
    fn a_method_that_takes_content_says_that_there_is_none() {
        for (method, length) in [("POST", 1), ("PUT", 1), ("PATCH", 1), ("GET", 0), ("DELETE", 0)] {
            let request = Request { method: method.to_owned(), ..Request::default() };
            let text = render(&request, Reuse::KeepAlive);
            assert_eq!(text.matches("Content-Length: 0\r\n").count(), length, "{method}");
        }
    }

    #[test]
    fn a_placeholder_counts_with_its_width() {
        let request = Request { body: b"{SEQ:3}".to_vec(), ..Request::default() };
        let text = render(&request, Reuse::KeepAlive);
        assert!(text.ends_with("Content-Length: 3\r\n\r\n000"), "{text}");
    }

    #[test]
    fn nothing_can_be_smuggled_into_a_request() {
        let address = "http://127.0.0.1:8000/".parse().expect("it is a URL");
        for (method, name, value) in
            [("GE T", "a", "b"), ("", "a", "b"), ("GET", "a b", "c"), ("GET", "a", "b\r\nc: d")]
        {
            let fields = vec![(name.to_owned(), value.to_owned())];
            let request = Request { method: method.to_owned(), fields, ..Request::default() };
            assert!(request.render(&address, Reuse::KeepAlive).is_err());
        }
    }
}
