//! Parses requests: where one ends, and whether the connection persists.

use httparse::{EMPTY_HEADER, Status};

/// Limit of the header fields; no load generator sends as many.
const FIELDS: usize = 64;

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// Size of head and body together, in bytes.
    pub(crate) size: usize,
    /// Whether the client keeps the connection open (RFC 9112 section 9.3).
    pub(crate) keeps_alive: bool,
    /// HTTP/1.0: persistence has to be announced in the response.
    pub(crate) is_http10: bool,
    /// HEAD: the response has no body.
    pub(crate) is_head: bool,
}

/// An invalid or unsupported request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InvalidRequest;

/// Parses the request at the front of `bytes`; `None` if it is incomplete.
pub(crate) fn read(bytes: &[u8]) -> Result<Option<Request>, InvalidRequest> {
    let mut fields = [EMPTY_HEADER; FIELDS];
    let mut head = httparse::Request::new(&mut fields);
    let Status::Complete(head_size) = head.parse(bytes).map_err(|_| InvalidRequest)? else {
        return Ok(None);
    };
    let is_http10 = head.version == Some(0);
    let mut found = Request {
        size: head_size,
        keeps_alive: !is_http10,
        is_http10,
        is_head: head.method == Some("HEAD"),
    };
    for field in head.headers.iter() {
        let value = str::from_utf8(field.value).map_err(|_| InvalidRequest)?.trim();
        if field.name.eq_ignore_ascii_case("content-length") {
            let body: usize = value.parse().map_err(|_| InvalidRequest)?;
            found.size = head_size.checked_add(body).ok_or(InvalidRequest)?;
        } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(InvalidRequest);
        } else if field.name.eq_ignore_ascii_case("connection") {
            let says = |word: &str| value.split(',').any(|it| it.trim().eq_ignore_ascii_case(word));
            found.keeps_alive = !says("close") && (!is_http10 || says("keep-alive"));
        }
    }
    Ok((bytes.len() >= found.size).then_some(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keeps_alive(text: &str) -> bool {
        read(text.as_bytes()).expect("it is HTTP").expect("it is whole").keeps_alive
    }

    #[test]
    fn a_request_ends_where_it_says() {
        let text = b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET";
        let end = text.len() - 3;
        for size in 0..end {
            assert_eq!(read(&text[..size]), Ok(None), "{size}");
        }
        assert_eq!(read(text).expect("it is HTTP").expect("it is whole").size, end);
    }

    #[test]
    fn persistence_depends_on_version_and_connection_field() {
        assert!(keeps_alive("GET / HTTP/1.1\r\n\r\n"));
        assert!(!keeps_alive("GET / HTTP/1.1\r\nConnection: close\r\n\r\n"));
        assert!(!keeps_alive("GET / HTTP/1.0\r\n\r\n"));
        assert!(keeps_alive("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"));
    }

    #[test]
    fn invalid_requests_are_rejected() {
        assert_eq!(read(b"\0\r\n\r\n"), Err(InvalidRequest));
        assert_eq!(
            read(b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"),
            Err(InvalidRequest)
        );
    }
}
