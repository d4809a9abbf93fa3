//! Requests whose target is in absolute form, as requests in origin form.
//!
//! The host of such a request is that of its target, and its Host field is ignored (RFC 9112
//! section 3.2.2). Each reader of a target or a Host would have to know that, and routes and
//! applications that do not agree are a hole. So it is decided here, once: a server passes on what
//! this writes, in which target and Host say the same to every reader.

use super::request_line::{after_scheme, authority, span};
use super::{Head, Method, Span};

impl Head {
    /// The same request in origin form, if this one has a target in absolute form; `text` then has its
    /// bytes. The authority of the target becomes Host, which is the first field.
    #[inline]
    pub fn in_origin_form(&self, bytes: &[u8], text: &mut Vec<u8>) -> Option<Self> {
        match self.target.of(bytes) {
            [b'/' | b'*', ..] => None,
            target => self.rewritten((bytes, target), text),
        }
    }

    #[cold]
    fn rewritten(&self, (bytes, target): (&[u8], &[u8]), text: &mut Vec<u8>) -> Option<Self> {
        let host = authority(target)?;
        let rest = &after_scheme(target)?[host.len()..];
        // An empty path is a slash, or an asterisk for OPTIONS (RFC 9112 section 3.2.4).
        let before: &[u8] = match rest {
            [] if self.method == Method::Options => b"*",
            [b'/', ..] => b"",
            _ => b"/",
        };
        Some(self.with((bytes, &[before, rest]), Some(host), text))
    }

    /// The same request with another path; `text` then has its bytes. `path` begins with a slash.
    #[must_use]
    pub fn with_path(&self, bytes: &[u8], path: &[u8], text: &mut Vec<u8>) -> Self {
        let target = self.target.of(bytes);
        let path_size = target.iter().position(|&byte| byte == b'?').unwrap_or(target.len());
        self.with((bytes, &[path, &target[path_size..]]), None, text)
    }

    /// The same request with this field in place of any of its name, which `Connection` does not name
    /// either: otherwise a client could have the next server drop it. `text` then has its bytes.
    #[must_use]
    pub fn with_field(&self, bytes: &[u8], field: (&[u8], &[u8]), text: &mut Vec<u8>) -> Self {
        text.clear();
        text.extend_from_slice(&bytes[self.method_name.start as usize..self.fields.start as usize]);
        let move_back = |at: u32| at - self.method_name.start;
        let moved = |part: Span| span(move_back(part.start) as usize, move_back(part.end) as usize);
        let (method_name, target) = (moved(self.method_name), moved(self.target));
        let fields_at = text.len();
        for (name, value) in self.fields(bytes).filter(|(it, _)| !it.eq_ignore_ascii_case(field.0))
        {
            text.extend_from_slice(name);
            text.extend_from_slice(b": ");
            if name.eq_ignore_ascii_case(b"connection") {
                let options = value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
                let kept: Vec<&[u8]> =
                    options.filter(|it| !it.eq_ignore_ascii_case(field.0)).collect();
                text.extend_from_slice(&kept.join(&b", "[..]));
            } else {
                text.extend_from_slice(value);
            }
            text.extend_from_slice(b"\r\n");
        }
        for part in [field.0, b": ", field.1, b"\r\n"] {
            text.extend_from_slice(part);
        }
        let fields = span(fields_at, text.len());
        text.extend_from_slice(b"\r\n");
        let size = span(0, text.len()).end;
        Self { method_name, target, fields, size, ..*self }
    }

    /// The same request with another target, and another Host if one is given.
    fn with(
        &self,
        (bytes, target_parts): (&[u8], &[&[u8]; 2]),
        host: Option<&[u8]>,
        text: &mut Vec<u8>,
    ) -> Self {
        text.clear();
        text.extend_from_slice(self.method_name.of(bytes));
        let method_name = span(0, text.len());
        text.push(b' ');
        let target_at = text.len();
        for part in target_parts {
            text.extend_from_slice(part);
        }
        let target = span(target_at, text.len());
        // The version.
        text.extend_from_slice(&bytes[self.target.end as usize..self.fields.start as usize]);
        let fields_at = text.len();
        match host {
            None => text.extend_from_slice(self.fields.of(bytes)),
            Some(host) => {
                let others =
                    self.fields(bytes).filter(|(name, _)| !name.eq_ignore_ascii_case(b"host"));
                for (name, value) in [(b"Host".as_slice(), host)].into_iter().chain(others) {
                    for part in [name, b": ", value, b"\r\n"] {
                        text.extend_from_slice(part);
                    }
                }
            }
        }
        let fields = span(fields_at, text.len());
        text.extend_from_slice(b"\r\n");
        let size = span(0, text.len()).end;
        Self { method_name, target, fields, size, ..*self }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::head::HeadReader;
    use crate::limits::Limits;

    fn read(text: &str) -> Head {
        let head = HeadReader::default().read(text.as_bytes(), &Limits::DEFAULT);
        head.expect("the head is in order").expect("the head is complete")
    }

    #[test]
    fn a_field_replaces_all_of_its_name() {
        let request = "\r\nGET /a?b HTTP/1.1\r\nHost: a\r\nx-ID: 1\r\nConnection: close, x-id\r\n\
                       X-Id: 2\r\nX-Id2: 3\r\nX-Id:\r\n\r\nrest";
        let expected = "GET /a?b HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-Id2: 3\r\n\
                        X-Id: 4\r\n\r\n";
        let mut text = b"former".to_vec();
        let head = read(request).with_field(request.as_bytes(), (b"X-Id", b"4"), &mut text);
        assert_eq!(String::from_utf8_lossy(&text), expected);
        assert_eq!(head, read(expected));
    }

    #[test]
    fn the_host_of_an_absolute_target_is_that_of_the_request() {
        let check = |request: &str, expected: &str| {
            let request = format!("{request}\r\nrest");
            let mut text = b"former".to_vec();
            let head = read(&request).in_origin_form(request.as_bytes(), &mut text);
            let head = head.expect("it is in absolute form");
            assert_eq!(String::from_utf8_lossy(&text), format!("{expected}\r\n"));
            // It is what is parsed from its bytes.
            assert_eq!(head, read(&format!("{expected}\r\n")));
        };
        check(
            "GET http://b:2/c?d HTTP/1.1\r\nA: b\r\nhOsT: a:1\r\n",
            "GET /c?d HTTP/1.1\r\nHost: b:2\r\nA: b\r\n",
        );
        check("GET HTTPS://b?c=/d HTTP/1.1\r\nHost:\r\n", "GET /?c=/d HTTP/1.1\r\nHost: b\r\n");
        check("GET http://b HTTP/1.0\r\n", "GET / HTTP/1.0\r\nHost: b\r\n");
        check("GET http://b#/c HTTP/1.1\r\nHost: a\r\n", "GET /#/c HTTP/1.1\r\nHost: b\r\n");
        check("OPTIONS http://b HTTP/1.1\r\nHost: b\r\n", "OPTIONS * HTTP/1.1\r\nHost: b\r\n");
        check("OPTIONS http://b/ HTTP/1.1\r\nHost: b\r\n", "OPTIONS / HTTP/1.1\r\nHost: b\r\n");
        check(
            "POST http://[::1]:8/ HTTP/1.1\r\nContent-Length: 4\r\nHost: a\r\n",
            "POST / HTTP/1.1\r\nHost: [::1]:8\r\nContent-Length: 4\r\n",
        );
    }

    #[test]
    fn another_path_keeps_query_and_fields() {
        let request = "\r\nGET /a%2Fb?c/d HTTP/1.1\r\nHost: a\r\nA:  b\r\n\r\nrest";
        let mut text = Vec::new();
        let head = read(request).with_path(request.as_bytes(), b"/a/b", &mut text);
        let expected = "GET /a/b?c/d HTTP/1.1\r\nHost: a\r\nA:  b\r\n\r\n";
        assert_eq!((String::from_utf8_lossy(&text), head), (expected.into(), read(expected)));
    }

    #[test]
    fn other_forms_stay_as_they_are() {
        for line in ["GET / HTTP/1.1", "GET /http://b/ HTTP/1.1", "OPTIONS * HTTP/1.1"] {
            let request = format!("{line}\r\nHost: a\r\n\r\n");
            let rewritten = read(&request).in_origin_form(request.as_bytes(), &mut Vec::new());
            assert_eq!(rewritten, None, "{line}");
        }
    }

    proptest! {
        /// Whatever the target and Host: what is written is a request for the host of the target.
        #[test]
        fn target_and_host_say_the_same(
            host in "[a-z][a-z0-9.-]{0,9}(:[0-9]{1,4})?",
            path in "(/[!-\"$->@-~]{0,9})?([?][!-\"$-~]{0,9})?",
            fields in prop::collection::vec("[A-Z][a-z-]{0,6}: ?[!-~]{0,9}", 0..5),
            other in "[a-z]{1,5}",
        ) {
            let mut lines = fields;
            lines.push(format!("Host: {other}\r\n"));
            let lines = lines.join("\r\n");
            let request = format!("GET http://{host}{path} HTTP/1.1\r\n{lines}\r\n");
            let Ok(Some(head)) = HeadReader::default().read(request.as_bytes(), &Limits::DEFAULT)
            else {
                return Ok(());
            };
            let mut text = Vec::new();
            let rewritten = head.in_origin_form(request.as_bytes(), &mut text);
            let parsed = HeadReader::default().read(&text, &Limits::DEFAULT);
            prop_assert_eq!(parsed, Ok(rewritten));
            let rewritten = rewritten.expect("the target was in absolute form");
            prop_assert_eq!(rewritten.host(&text), Some(host.as_bytes()));
            let slash = if path.starts_with('/') { "" } else { "/" };
            let expected = format!("{slash}{path}");
            prop_assert_eq!(rewritten.path_and_query(&text), expected.as_bytes());
            let before: Vec<_> = head
                .fields(request.as_bytes())
                .filter(|(name, _)| !name.eq_ignore_ascii_case(b"host"))
                .collect();
            prop_assert_eq!(rewritten.fields(&text).skip(1).collect::<Vec<_>>(), before);
        }
    }
}
