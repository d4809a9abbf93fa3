//! The opening handshake of a WebSocket: its request, and the verification of its response (RFC 6455
//! section 4.1).

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use httparse::{EMPTY_HEADER, Header, ParserConfig, Response, Status};
use ring::digest;

use crate::plan::address::Address;
use crate::plan::invalid::Invalid;
use crate::plan::options::Reuse;
use crate::protocol::reader::FIELDS_USUAL;
use crate::protocol::request::Request;

/// Appended to the key before it is hashed.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

const KEY_FIELD: &str = "Sec-WebSocket-Key";
const EXTENSIONS_FIELD: &str = "Sec-WebSocket-Extensions";
const PROTOCOL_FIELD: &str = "Sec-WebSocket-Protocol";

/// Stands for the key, which differs from connection to connection.
const KEY_PLACEHOLDER: &str = "AAAAAAAAAAAAAAAAAAAAAA==";

/// The handshake that makes each connection to one target a WebSocket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpeningHandshake {
    request: Vec<u8>,
    /// Where the key begins.
    key_at: usize,
    /// The subprotocols that are offered.
    protocols: Vec<String>,
}

/// Why a response does not complete a handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HandshakeError {
    /// The response is not valid HTTP.
    Malformed,
    /// The status is not 101.
    Status(u16),
    /// A field is missing or wrong.
    Field(&'static str),
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed => {
                formatter.write_str("the WebSocket handshake got a malformed response")
            }
            Self::Status(status) => {
                write!(formatter, "the WebSocket handshake was refused with status {status}")
            }
            Self::Field(name) => {
                write!(formatter, "the WebSocket handshake got a wrong or missing field {name}")
            }
        }
    }
}

impl std::error::Error for HandshakeError {}

impl OpeningHandshake {
    /// The handshake for a URL, with further header fields.
    ///
    /// # Errors
    /// A field is invalid, or one of those that the handshake itself has.
    pub fn new(address: &Address, fields: &[(String, String)]) -> Result<Self, Invalid> {
        let own = [
            ("Upgrade", "websocket"),
            ("Connection", "Upgrade"),
            (KEY_FIELD, KEY_PLACEHOLDER),
            ("Sec-WebSocket-Version", "13"),
        ];
        let is_taken = |given: &str| {
            let mut names = own.iter().map(|(name, _)| *name).chain([EXTENSIONS_FIELD]);
            names.any(|name| name.eq_ignore_ascii_case(given))
        };
        if let Some((name, _)) = fields.iter().find(|(name, _)| is_taken(name)) {
            let why = format!("{name} is set by the WebSocket handshake: leave that header out");
            return Err(Invalid(why));
        }
        let own = own.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let fields: Vec<_> = own.into_iter().chain(fields.iter().cloned()).collect();
        let protocols = fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(PROTOCOL_FIELD));
        let protocols = protocols.flat_map(|(_, value)| value.split(','));
        let protocols = protocols.map(|protocol| protocol.trim().to_owned()).collect();
        let template =
            Request { fields, ..Request::default() }.render(address, Reuse::KeepAlive)?;
        if template.has_placeholders() {
            let why =
                "the WebSocket handshake is the same on each connection: leave placeholders out";
            return Err(Invalid(why.to_owned()));
        }
        let request = template.bytes().to_vec();
        let field = format!("\r\n{KEY_FIELD}: {KEY_PLACEHOLDER}\r\n");
        let start = request.windows(field.len()).position(|part| part == field.as_bytes());
        let key_at = start.map_or(0, |start| start + "\r\n: ".len() + KEY_FIELD.len());
        Ok(Self { request, key_at, protocols })
    }

    /// The request of one connection, with a key made of these random numbers, and the
    /// `Sec-WebSocket-Accept` that belongs to it.
    pub(crate) fn request(&self, random: [u64; 2]) -> (Vec<u8>, String) {
        let key = STANDARD.encode(random.map(u64::to_ne_bytes).concat());
        let mut request = self.request.clone();
        request[self.key_at..self.key_at + key.len()].copy_from_slice(key.as_bytes());
        (request, accept(&key))
    }

    /// The size of the response at the front of `bytes`, if it is complete and accepts a key with
    /// `accept`.
    ///
    /// # Errors
    /// The response does not complete the handshake.
    pub(crate) fn check(
        &self,
        bytes: &[u8],
        accept: &str,
    ) -> Result<Option<usize>, HandshakeError> {
        let mut fields = [EMPTY_HEADER; FIELDS_USUAL];
        let mut response = Response::new(&mut fields);
        let mut config = ParserConfig::default();
        config.allow_obsolete_multiline_headers_in_responses(true);
        let size = match config.parse_response(&mut response, bytes) {
            Ok(Status::Complete(size)) => size,
            Ok(Status::Partial) => return Ok(None),
            Err(_) => return Err(HandshakeError::Malformed),
        };
        match response.code {
            Some(101) => {}
            Some(status) => return Err(HandshakeError::Status(status)),
            None => return Err(HandshakeError::Malformed),
        }
        let has = |name, token: &str| {
            let mut found = members(response.headers, name);
            found.any(|member| member.eq_ignore_ascii_case(token.as_bytes()))
        };
        let accepts: Vec<_> = values(response.headers, "Sec-WebSocket-Accept").collect();
        let is_offered =
            |protocol: &[u8]| self.protocols.iter().any(|offered| offered.as_bytes() == protocol);
        let wrong = if response.version != Some(1) {
            return Err(HandshakeError::Malformed);
        } else if !has("Upgrade", "websocket") {
            "Upgrade"
        } else if !has("Connection", "Upgrade") {
            "Connection"
        } else if accepts != [accept.as_bytes()] {
            "Sec-WebSocket-Accept"
        } else if values(response.headers, EXTENSIONS_FIELD).next().is_some() {
            EXTENSIONS_FIELD
        } else if !values(response.headers, PROTOCOL_FIELD).all(is_offered) {
            PROTOCOL_FIELD
        } else {
            return Ok(Some(size));
        };
        Err(HandshakeError::Field(wrong))
    }
}

/// The value of `Sec-WebSocket-Accept` for a key.
fn accept(key: &str) -> String {
    let hash = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, [key, GUID].concat().as_bytes());
    STANDARD.encode(hash)
}

/// The values of a field, in order.
fn values<'a>(fields: &'a [Header<'a>], name: &'a str) -> impl Iterator<Item = &'a [u8]> {
    let of_name = fields.iter().filter(move |field| field.name.eq_ignore_ascii_case(name));
    of_name.map(|field| field.value.trim_ascii())
}

/// The members of a field that is a list, in order.
fn members<'a>(fields: &'a [Header<'a>], name: &'a str) -> impl Iterator<Item = &'a [u8]> {
    let members = values(fields, name).flat_map(|value| value.split(|&byte| byte == b','));
    members.map(<[u8]>::trim_ascii)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handshake(fields: &[(&str, &str)]) -> Result<OpeningHandshake, Invalid> {
        let fields: Vec<_> =
            fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        OpeningHandshake::new(&"http://127.0.0.1:8000/chat".parse().expect("it is a URL"), &fields)
    }

    #[test]
    fn the_key_of_the_specification_has_its_accept() {
        assert_eq!(accept("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn each_connection_has_its_key() {
        let handshake = handshake(&[("Origin", "http://a")]).expect("it is fine");
        let (request, accept_of_it) = handshake.request([1, 2]);
        let text = String::from_utf8(request).expect("all ASCII");
        let key = STANDARD.encode([1_u64, 2].map(u64::to_ne_bytes).concat());
        assert_eq!(
            text,
            format!(
                "GET /chat HTTP/1.1\r\nHost: 127.0.0.1:8000\r\nUpgrade: websocket\r\n\
                 Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\
                 Origin: http://a\r\n\r\n"
            )
        );
        assert_eq!(accept_of_it, accept(&key));
        assert_ne!(handshake.request([3, 2]).1, accept_of_it);
    }

    #[test]
    fn fields_of_the_handshake_are_not_given_twice() {
        for name in ["upgrade", "Connection", "sec-websocket-key", "Sec-WebSocket-Extensions"] {
            let refusal = handshake(&[(name, "x")]).expect_err("it is set already").to_string();
            assert!(refusal.contains(name), "{refusal}");
        }
        assert!(handshake(&[("X-Number", "{SEQ}")]).is_err());
    }

    const GOOD: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\n\
        Connection: keep-alive, upgrade\r\nSec-WebSocket-Accept: right\r\n\r\n";

    #[test]
    fn a_complete_response_is_accepted_and_what_follows_is_left() {
        let handshake = handshake(&[]).expect("it is fine");
        for size in 0..GOOD.len() {
            assert_eq!(handshake.check(&GOOD.as_bytes()[..size], "right"), Ok(None), "{size}");
        }
        let wire = [GOOD.as_bytes(), b"\x89\0"].concat();
        assert_eq!(handshake.check(&wire, "right"), Ok(Some(GOOD.len())));
    }

    #[test]
    fn each_wrong_response_is_refused() {
        let plain = handshake(&[]).expect("it is fine");
        let check = |wire: &str| plain.check(wire.as_bytes(), "right").expect_err("it is wrong");
        let changed = |from: &str, to: &str| {
            assert!(GOOD.contains(from), "{from}");
            check(&GOOD.replace(from, to))
        };
        assert_eq!(check("Hello\r\n\r\n"), HandshakeError::Malformed);
        assert_eq!(changed("HTTP/1.1", "HTTP/1.0"), HandshakeError::Malformed);
        assert_eq!(changed("101", "200"), HandshakeError::Status(200));
        assert_eq!(changed("WebSocket\r", "h2c\r"), HandshakeError::Field("Upgrade"));
        assert_eq!(changed(", upgrade", ""), HandshakeError::Field("Connection"));
        assert_eq!(changed("right", "wrong"), HandshakeError::Field("Sec-WebSocket-Accept"));
        let with = |field: &str| GOOD.replace("\r\n\r\n", &format!("\r\n{field}\r\n\r\n"));
        let twice = with("Sec-WebSocket-Accept: right");
        assert_eq!(check(&twice), HandshakeError::Field("Sec-WebSocket-Accept"));
        let extended = with("Sec-WebSocket-Extensions: permessage-deflate");
        assert_eq!(check(&extended), HandshakeError::Field(EXTENSIONS_FIELD));
        let spoken = with("Sec-WebSocket-Protocol: chat");
        assert_eq!(check(&spoken), HandshakeError::Field(PROTOCOL_FIELD));
        let offering = handshake(&[("Sec-WebSocket-Protocol", "news, chat")]).expect("it is fine");
        assert_eq!(offering.check(spoken.as_bytes(), "right"), Ok(Some(spoken.len())));
    }
}
