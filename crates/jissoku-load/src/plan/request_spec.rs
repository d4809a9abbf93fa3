//! A request and the response expected for it.

use httparse::{EMPTY_HEADER, Status};

use crate::plan::address::Address;
use crate::plan::expect::Expected;
use crate::plan::invalid::Invalid;
use crate::protocol::message::MessageType;
use crate::protocol::request_template::RequestTemplate;
use crate::protocol::response_reader::ResponseFraming;

/// Limit of the number of header fields.
const FIELDS_MAX: usize = 200;

/// One request of a target's cycle.
#[derive(Debug)]
pub struct RequestSpec {
    /// Its name in reports.
    pub name: String,
    /// The bytes to send.
    pub template: RequestTemplate,
    /// How the response is framed.
    pub framing: ResponseFraming,
    /// The expected response.
    pub expected: Expected,
}

impl RequestSpec {
    /// Parses a complete request, as it is sent.
    ///
    /// `{PATH}` and `{HOST}` are replaced by the URL's, and placeholders are those of
    /// [`RequestTemplate`]. Nothing else is changed or added.
    ///
    /// # Errors
    /// The bytes are not exactly one request, so that responses could not be assigned.
    pub fn raw(
        name: &str,
        text: &[u8],
        address: &Address,
        expected: Expected,
    ) -> Result<Self, Invalid> {
        let text = replace(text, b"{PATH}", address.request_target().as_bytes());
        let text = replace(&text, b"{HOST}", address.authority().as_bytes());
        let template = RequestTemplate::parse(&text)?;
        let method = method_of_one_request(template.bytes())
            .map_err(|why| Invalid(format!("{name} is not exactly one HTTP request: {why}")))?;
        let framing = ResponseFraming::of_method(&method);
        Ok(Self { name: name.to_owned(), template, framing, expected })
    }

    /// A WebSocket message with this payload, which is sent as it is, without placeholders.
    ///
    /// # Errors
    /// A text is not UTF-8.
    pub fn message(
        message_type: MessageType,
        payload: &[u8],
        expected: Expected,
    ) -> Result<Self, Invalid> {
        if message_type == MessageType::Text && std::str::from_utf8(payload).is_err() {
            return Err(Invalid("a text message must be UTF-8".to_owned()));
        }
        let (template, framing) =
            (message_type.template(payload), ResponseFraming::Message(message_type));
        Ok(Self { name: "message".to_owned(), template, framing, expected })
    }
}

impl RequestSpec {
    /// Whether the request says that no other one follows on its connection (RFC 9112 section 9.6).
    pub fn asks_for_close(&self) -> bool {
        let mut fields = [EMPTY_HEADER; FIELDS_MAX];
        let mut request = httparse::Request::new(&mut fields);
        if request.parse(self.template.bytes()).is_err() {
            return false; // The payload of a WebSocket.
        }
        let connection =
            request.headers.iter().filter(|field| field.name.eq_ignore_ascii_case("connection"));
        let mut options = connection.flat_map(|field| field.value.split(|&byte| byte == b','));
        options.any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close"))
    }
}

fn replace(text: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(&first) = rest.first() {
        if let Some(after) = rest.strip_prefix(from) {
            out.extend_from_slice(to);
            rest = after;
        } else {
            out.push(first);
            rest = &rest[1..];
        }
    }
    out
}

/// The method, if the bytes are exactly one complete request.
fn method_of_one_request(bytes: &[u8]) -> Result<String, &'static str> {
    let mut fields = [EMPTY_HEADER; FIELDS_MAX];
    let mut request = httparse::Request::new(&mut fields);
    let size = match request.parse(bytes) {
        Ok(Status::Complete(size)) => size,
        Ok(Status::Partial) => return Err("its head does not end with an empty line (CRLF CRLF)"),
        Err(_) => return Err("its head is malformed"),
    };
    let lines = bytes[..size].split_inclusive(|&byte| byte == b'\n');
    if lines.into_iter().any(|line| !line.ends_with(b"\r\n")) {
        return Err("the lines of its head must end with CRLF");
    }
    let field = |name: &str| {
        let found = request.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name));
        found.map(|field| field.value.trim_ascii())
    };
    let body = &bytes[size..];
    if field("transfer-encoding").is_some() {
        if !body.ends_with(b"0\r\n\r\n") {
            return Err("its chunked body does not end with the last chunk");
        }
    } else {
        let length = field("content-length").unwrap_or(b"0");
        let length = std::str::from_utf8(length).ok().and_then(|text| text.parse().ok());
        if length != Some(body.len()) {
            return Err("its Content-Length is not the length of its body");
        }
    }
    Ok(request.method.unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::expect::Verify;

    fn raw(text: &str) -> Result<RequestSpec, Invalid> {
        let address = "http://127.0.0.1:81/a?b".parse().expect("it is a URL");
        RequestSpec::raw(
            "x.http",
            text.as_bytes(),
            &address,
            Expected::new(Verify::None, vec![], None),
        )
    }

    #[test]
    fn path_and_host_come_from_the_url() {
        let spec = raw("HEAD {PATH} HTTP/1.1\r\nHost: {HOST}\r\n\r\n").expect("it is one request");
        assert_eq!(spec.template.bytes(), b"HEAD /a?b HTTP/1.1\r\nHost: 127.0.0.1:81\r\n\r\n");
        assert_eq!(spec.framing, ResponseFraming::Head);
        let spec = raw("POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}").expect("it is one too");
        assert_eq!(spec.framing, ResponseFraming::Http);
    }

    #[test]
    fn a_request_may_be_the_last_of_its_connection() {
        for (fields, asks) in [
            ("", false),
            ("Connection: keep-alive\r\n", false),
            ("connection: Close\r\n", true),
            ("Connection: te\r\nConnection: x, close\r\n", true),
            ("X: close\r\n", false),
        ] {
            let spec = raw(&format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
            assert_eq!(spec.expect("it is one request").asks_for_close(), asks, "{fields:?}");
        }
    }

    #[test]
    fn the_eight_shapes_are_requests_that_must_be_answered_alike() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("shapes");
        let files = std::fs::read_dir(folder).expect("it is there");
        let paths = files.map(|file| file.expect("it can be listed").path());
        let paths: Vec<_> =
            paths.filter(|path| path.extension().is_some_and(|end| end == "http")).collect();
        assert_eq!(paths.len(), 8);
        for path in paths {
            let text = std::fs::read_to_string(&path).expect("it is text");
            let spec = raw(&text).unwrap_or_else(|_| panic!("{path:?} is one request"));
            let sent = String::from_utf8_lossy(spec.template.bytes()).to_ascii_lowercase();
            assert!(sent.starts_with("get /a?b"), "{path:?}");
            for divisive in ["accept-encoding:", "range:", "if-", "content-", "{"] {
                assert!(!sent.contains(&format!("\n{divisive}")), "{path:?} holds {divisive}");
            }
        }
    }

    #[test]
    fn anything_but_one_request_is_rejected() {
        for (text, why) in [
            ("GET / HTTP/1.1\r\nHost: a\r\n", "empty line"),
            ("GET / HTTP/1.1\nHost: a\n\n", "CRLF"),
            ("GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n", "Content-Length"),
            ("POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nshort", "Content-Length"),
            ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n", "last chunk"),
            ("\0", "malformed"),
        ] {
            let refusal = raw(text).expect_err("it is not one request").to_string();
            assert!(refusal.contains(why) && refusal.contains("x.http"), "{refusal}");
        }
    }
}
