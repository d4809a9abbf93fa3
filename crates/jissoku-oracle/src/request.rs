//! As much HTTP as it takes to know where a request ends, and whether its connection goes on.

use httparse::{EMPTY_HEADER, Status};

/// Header fields of a request; no load generator sends so many.
const FIELDS: usize = 64;

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// Bytes of head and body together.
    pub(crate) size: usize,
    /// Whether the client wants to go on with the connection (RFC 9112 section 9.3).
    pub(crate) keeps_alive: bool,
    /// HTTP/1.0, whose clients have to be told that a connection goes on.
    pub(crate) is_old: bool,
    /// The answer to HEAD has no body.
    pub(crate) is_head: bool,
}

/// What we do not understand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Nonsense;

/// Reads the request at the front of `bytes`; `None` when its end is still to come.
pub(crate) fn read(bytes: &[u8]) -> Result<Option<Request>, Nonsense> {
    let mut fields = [EMPTY_HEADER; FIELDS];
    let mut head = httparse::Request::new(&mut fields);
    let Status::Complete(head_size) = head.parse(bytes).map_err(|_| Nonsense)? else {
        return Ok(None);
    };
    let is_old = head.version == Some(0);
    let mut found = Request {
        size: head_size,
        keeps_alive: !is_old,
        is_old,
        is_head: head.method == Some("HEAD"),
    };
    for field in head.headers.iter() {
        let value = str::from_utf8(field.value).map_err(|_| Nonsense)?.trim();
        if field.name.eq_ignore_ascii_case("content-length") {
            let body: usize = value.parse().map_err(|_| Nonsense)?;
            found.size = head_size.checked_add(body).ok_or(Nonsense)?;
        } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(Nonsense);
        } else if field.name.eq_ignore_ascii_case("connection") {
            let says = |word: &str| value.split(',').any(|it| it.trim().eq_ignore_ascii_case(word));
            found.keeps_alive = !says("close") && (!is_old || says("keep-alive"));
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
    fn who_wants_to_go_on_says_so() {
        assert!(keeps_alive("GET / HTTP/1.1\r\n\r\n"));
        assert!(!keeps_alive("GET / HTTP/1.1\r\nConnection: close\r\n\r\n"));
        assert!(!keeps_alive("GET / HTTP/1.0\r\n\r\n"));
        assert!(keeps_alive("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"));
    }

    #[test]
    fn nonsense_is_nonsense() {
        assert_eq!(read(b"\0\r\n\r\n"), Err(Nonsense));
        assert_eq!(read(b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"), Err(Nonsense));
    }
}
