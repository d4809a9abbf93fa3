//! Writes seeds below `corpus/`, one file each: the cases of `python/jissoku/conformance/cases`, the responses of
//! those for gateways, and the messages of other protocols below.

use std::path::Path;
use std::{fs, io};

use toml::{Table, Value};

/// One response for each way in which one can end.
const ANSWERS: [&[u8]; 7] = [
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHello",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nHe\r\n3;a=b\r\nllo\r\n0\r\nA: b\r\n\r\n",
    b"HTTP/1.0 200 OK\r\n\r\nHello",
    b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nHello",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\nConnection: close\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nDate: Sat, 21 Nov 2026 01:02:03 GMT\r\nContent-Length: 5\r\n\r\nHello",
];

/// A packet of the uwsgi protocol.
const PACKET: &[u8] = b"\0\x68\0\0\x0e\0REQUEST_METHOD\x04\0POST\x0b\0REQUEST_URI\x06\0/a%20b\
    \x09\0PATH_INFO\x04\0/a b\x0e\0CONTENT_LENGTH\x01\x003\x09\0HTTP_HOST\x01\0h\x06\0HTTP_A\x01\0babc";

/// Headers of the PROXY protocol, of both versions.
const PROXY_HEADERS: [&[u8]; 5] = [
    b"PROXY TCP4 192.0.2.1 192.0.2.2 4000 80\r\n",
    b"PROXY TCP6 2001:db8::1 2001:db8::2 4000 80\r\n",
    b"PROXY UNKNOWN\r\n",
    b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0",
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x01\xc0\0\x02\x02\x0f\xa0\0\x50",
];

/// What a client may send in X-Forwarded-For (first byte even) or Forwarded (odd).
const FORWARDED: [&[u8]; 4] = [
    b"\x00203.0.113.9, unknown",
    b"\x01for=203.0.113.9;proto=https;host=evil",
    b"\x05for=203.0.113.9;ext=\"a\\\",for=1",
    b"\x0bfor=\"[2001:db8::1]:4711\"",
];

/// Frames of a WebSocket without their masking keys: messages of each type, whole and in fragments,
/// control frames, and headers with each size of a length.
const FRAMES: [&[u8]; 6] = [
    b"\x81\x05Hello",
    b"\x01\x02He\x89\x03abc\x80\x03llo",
    b"\x82\x00\x8a\x00\x88\x05\x03\xe8bye",
    b"\x82\x7e\x00\x7e",
    b"\x82\x7f\x00\x00\x00\x00\x00\x01\x00\x00",
    b"\xc1\x07\xf2\x48\xcd\xc9\xc9\x07\x00", // "Hello", RFC 7692 section 7.2.3.1
];

/// The fuzz targets.
const TARGETS: [&str; 11] = [
    "head",
    "chunked",
    "exchange",
    "scan",
    "answer",
    "response",
    "uwsgi",
    "proxy_header",
    "forwarded",
    "message",
    "frames",
];

fn main() -> io::Result<()> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    for target in TARGETS {
        fs::create_dir_all(here.join("corpus").join(target))?;
    }
    fs::write(here.join("corpus/uwsgi/0"), PACKET)?;
    for (target, seeds) in [("proxy_header", &PROXY_HEADERS[..]), ("forwarded", &FORWARDED)] {
        for (number, seed) in seeds.iter().enumerate() {
            fs::write(here.join(format!("corpus/{target}/{number}")), seed)?;
        }
    }
    for (number, answer) in ANSWERS.iter().enumerate() {
        for target in ["answer", "response"] {
            let file = here.join(format!("corpus/{target}/{number}"));
            fs::write(file, [&b"."[..], answer].concat())?;
        }
    }
    for (number, frames) in FRAMES.iter().enumerate() {
        let message = [&b"."[..], frames].concat();
        fs::write(here.join(format!("corpus/message/{number}")), message)?;
        let frames = [&b"/"[..], &masked(frames)].concat();
        fs::write(here.join(format!("corpus/frames/{number}")), frames)?;
    }
    for entry in fs::read_dir(here.join("../python/jissoku/conformance/cases"))? {
        let file: Table = fs::read_to_string(entry?.path())?.parse().map_err(io::Error::other)?;
        let at = file.get("at").and_then(Value::as_str);
        for case in file.get("case").and_then(Value::as_array).into_iter().flatten() {
            write(&here.join("corpus"), case, at)?;
        }
    }
    let mut responses = Vec::new();
    for entry in fs::read_dir(here.join("../python/jissoku/conformance/gateway/cases"))? {
        let file: Table = fs::read_to_string(entry?.path())?.parse().map_err(io::Error::other)?;
        collect_responses(&Value::Table(file), &mut responses);
    }
    responses.sort_unstable();
    responses.dedup();
    for (number, response) in responses.iter().enumerate() {
        let bytes = [&b"."[..], &latin1(response)?].concat();
        fs::write(here.join(format!("corpus/response/gateway-{number}")), bytes)?;
    }
    Ok(())
}

/// Complete frames, or one header, as a client sends them: with a masking key of zero.
fn masked(frames: &[u8]) -> Vec<u8> {
    let (mut masked, mut rest) = (Vec::new(), frames);
    while let [first, second, ..] = *rest {
        let (header, payload) = match second {
            126 => (4, 0),
            127 => (10, 0),
            short => (2, usize::from(short)),
        };
        let (frame, after) = rest.split_at(header + payload);
        masked.extend_from_slice(&[first, second | 0x80]);
        masked.extend_from_slice(&frame[2..header]);
        masked.extend_from_slice(&[0; 4]);
        masked.extend_from_slice(&frame[header..]);
        rest = after;
    }
    masked
}

/// Collects what servers send in cases for gateways.
fn collect_responses(value: &Value, responses: &mut Vec<String>) {
    match value {
        Value::String(text) if text.starts_with("HTTP/") => responses.push(text.clone()),
        Value::Array(values) => {
            values.iter().for_each(|value| collect_responses(value, responses));
        }
        Value::Table(table) => {
            table.iter().for_each(|(_, value)| collect_responses(value, responses));
        }
        _ => {}
    }
}

fn write(corpus: &Path, case: &Value, at: Option<&str>) -> io::Result<()> {
    let text = |key| case.get(key).and_then(Value::as_str);
    let (Some(name), Some(send)) = (text("name"), text("send")) else {
        return Err(io::Error::other("a case has a name and sends something"));
    };
    // A long fill is cut: what it tries is a limit, and the fuzzer's inputs are shorter than that.
    let fill = case.get("fill").and_then(|fill| fill.get("text")).and_then(Value::as_str);
    let filled = send.replace('@', fill.or(at).unwrap_or("@"));
    let bytes = latin1(&(filled + text("then").unwrap_or_default()))?;
    fs::write(corpus.join("head").join(name), &bytes)?;
    fs::write(corpus.join("scan").join(name), &bytes)?;
    fs::write(corpus.join("exchange").join(name), [&b"."[..], &bytes].concat())?;
    if let Some(body) = send.strip_prefix('@').filter(|_| at.is_some()) {
        fs::write(corpus.join("chunked").join(name), latin1(body)?)?;
    }
    Ok(())
}

fn latin1(text: &str) -> io::Result<Vec<u8>> {
    text.chars().map(|letter| u8::try_from(letter).map_err(io::Error::other)).collect()
}
