//! The opening handshake of a `WebSocket` (RFC 6455 section 4.2.1).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jissoku_http::{Head, Method, Version};
use ring::digest;

use super::deflate;

/// Appended to the key of the client.
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// A valid opening handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Handshake {
    /// The value of `Sec-WebSocket-Accept`.
    pub(super) accept: String,
    /// Whether messages may be compressed.
    pub(super) compresses: bool,
}

/// Whether a request is an opening handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Upgrade {
    None,
    WebSocket(Handshake),
    /// A handshake that cannot be completed, with the status of its response.
    Invalid(u16),
}

impl Upgrade {
    pub(super) fn of(head: &Head, bytes: &[u8]) -> Self {
        let has = |name, token: &[u8]| {
            list(head, bytes, name).any(|value| value.eq_ignore_ascii_case(token))
        };
        let is_requested = head.method == Method::Get
            && head.version == Version::Http11
            && has("upgrade", b"websocket")
            && has("connection", b"upgrade");
        if !is_requested {
            return Self::None;
        }
        if !has("sec-websocket-version", b"13") {
            return Self::Invalid(426);
        }
        let mut keys = values(head, bytes, "sec-websocket-key");
        let (Some(key), None) = (keys.next(), keys.next()) else { return Self::Invalid(400) };
        if STANDARD.decode(key).map(|key| key.len()) != Ok(16) {
            return Self::Invalid(400);
        }
        let hash = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, &[key, GUID].concat());
        let offers = list(head, bytes, "sec-websocket-extensions");
        let compresses = deflate::is_acceptable(offers);
        Self::WebSocket(Handshake { accept: STANDARD.encode(hash), compresses })
    }
}

/// The values of a field, in order.
fn values<'a>(head: &'a Head, bytes: &'a [u8], name: &'a str) -> impl Iterator<Item = &'a [u8]> {
    let of_name = move |(field, value): (&'a [u8], &'a [u8])| {
        field.eq_ignore_ascii_case(name.as_bytes()).then_some(value)
    };
    head.fields(bytes).filter_map(of_name)
}

/// The members of a field that is a list, in order.
pub(super) fn list<'a>(
    head: &'a Head,
    bytes: &'a [u8],
    name: &'a str,
) -> impl Iterator<Item = &'a [u8]> {
    let members = values(head, bytes, name).flat_map(|value| value.split(|&byte| byte == b','));
    members.map(<[u8]>::trim_ascii)
}
