//! What is answered, whichever parser has read the request.

use crate::parser::{Refusal, Request};

const HELLO: &[u8] = b"HTTP/1.1 200 OK\r\nServer: parsers\r\nContent-Type: text/plain\r\n\
    Content-Length: 13\r\n\r\nHello, World!";
const HELLO_LAST: &[u8] = b"HTTP/1.1 200 OK\r\nServer: parsers\r\nContent-Type: text/plain\r\n\
    Content-Length: 13\r\nConnection: close\r\n\r\nHello, World!";
const FORTY_TWO: &[u8] = b"HTTP/1.1 200 OK\r\nServer: bench\r\nConnection: keep-alive\r\n\
    Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n42";
const FORTY_TWO_LAST: &[u8] = b"HTTP/1.1 200 OK\r\nServer: bench\r\nConnection: close\r\n\
    Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n42";

/// Appends the answer to one request.
#[inline]
pub fn answer(request: &Request<'_>, out: &mut Vec<u8>) {
    let size = request.target.iter().position(|&byte| byte == b'?');
    let path = &request.target[..size.unwrap_or(request.target.len())];
    match (request.method, path, request.keeps_alive) {
        (b"GET", b"/", true) => out.extend_from_slice(HELLO),
        (b"GET", b"/", false) => out.extend_from_slice(HELLO_LAST),
        (b"GET", b"/42", true) => out.extend_from_slice(FORTY_TWO),
        (b"GET", b"/42", false) => out.extend_from_slice(FORTY_TWO_LAST),
        (b"GET" | b"POST", b"/parsed", keeps_alive) => {
            made("200 OK", &parsed(request), keeps_alive, out);
        }
        (method, _, keeps_alive) => {
            let body: &[u8] = if method == b"HEAD" { b"" } else { b"Not Found\n" };
            made("404 Not Found", body, keeps_alive, out);
        }
    }
}

/// Appends the answer to a request that was not understood; it is the last one of its connection.
#[cold]
pub fn refuse(refusal: Refusal, out: &mut Vec<u8>) {
    let status = match refusal.0 {
        413 => "413 Content Too Large",
        431 => "431 Request Header Fields Too Large",
        501 => "501 Not Implemented",
        _ => "400 Bad Request",
    };
    made(status, b"", false, out);
}

#[cold]
fn made(status: &str, body: &[u8], keeps_alive: bool, out: &mut Vec<u8>) {
    let size = body.len();
    let connection = if keeps_alive { "keep-alive" } else { "close" };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {size}\r\n\
         Connection: {connection}\r\n\r\n"
    );
    out.extend_from_slice(head.as_bytes());
    out.extend_from_slice(body);
}

/// What a parser made of a request, for those who check that they agree.
#[cold]
fn parsed(request: &Request<'_>) -> Vec<u8> {
    let mut text = [request.method, b" ", request.target, b"\n"].concat();
    request.fields.each(|name, value| {
        text.extend_from_slice(name);
        text.extend_from_slice(b"=");
        text.extend_from_slice(value);
        text.extend_from_slice(b"\n");
    });
    text
}
