//! A request of a client and its response: what has been received of both, and what is still to be
//! sent.

use jissoku_http::forward::{ClientFraming, write_response_head};
use jissoku_http::framing::Body;
use jissoku_http::response_reader::ResponseHead;
use jissoku_http::{Head, Method, Version};
use jissoku_os::driver::ConnectionId;

use crate::failure::{Attempt, Received};
use crate::part_head::PartHead;
use crate::place::Place;
use crate::slab::Key;

/// Output for a client above which its server is not received from.
const OUTPUT_SIZE_HIGH: usize = 64 * 1024;

/// A request and its response.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// The connection of the client.
    pub(crate) client: ConnectionId,
    pub(crate) method: MethodInfo,
    pub(crate) place: Place,
    version: Version,
    /// The forwarded head and body. Kept until the response has begun, to be repeated.
    pub(crate) request: Vec<u8>,
    /// The connection to the server.
    pub(crate) upstream: Option<Key>,
    pub(crate) is_reused: bool,
    pub(crate) received: Received,
    pub(crate) output: Output,
    pub(crate) ending: Option<Ending>,
    /// Of a part of a gathered response, whose output is the body alone.
    pub(crate) part: Option<Box<PartHead>>,
}

/// What the method of a request means for forwarding it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MethodInfo {
    pub(crate) is_head: bool,
    /// Whether the request may be sent on a connection that the server may be closing, and then be
    /// repeated (RFC 9110 section 9.2.2).
    pub(crate) is_idempotent: bool,
    /// A body was sent with a method that has none as a rule. Servers may ignore such a body and
    /// take it for the next request, so the connection is not used again.
    pub(crate) has_unusual_body: bool,
}

impl MethodInfo {
    fn new(head: &Head) -> Self {
        let is_safe = matches!(head.method, Method::Get | Method::Head | Method::Options);
        let is_delete = head.method == Method::Delete;
        Self {
            is_head: head.method == Method::Head,
            is_idempotent: is_safe || is_delete || head.method == Method::Put,
            has_unusual_body: (is_safe || is_delete) && head.body != Body::Empty,
        }
    }
}

/// What is to be sent to the client.
#[derive(Debug, Default)]
pub(crate) struct Output {
    pub(crate) bytes: Vec<u8>,
    /// Behind the status line of the final response, if that is in `bytes`.
    pub(crate) fields_at: Option<usize>,
    pub(crate) has_date: bool,
    /// 0 until the final head was received.
    pub(crate) status: u16,
    pub(crate) body_size: u64,
    pub(crate) framing: Option<ClientFraming>,
}

/// How a response ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// With its last byte.
    Complete,
    /// Before that.
    Truncated,
    /// There is none: a response with this status is made here, because of an error of this type.
    Failed(u16, &'static str),
}

impl Output {
    pub(crate) const fn is_high(&self) -> bool {
        self.bytes.len() >= OUTPUT_SIZE_HIGH
    }
}

impl Exchange {
    pub(crate) fn new(client: ConnectionId, head: &Head, place: Place) -> Self {
        Self {
            client,
            method: MethodInfo::new(head),
            place,
            version: head.version,
            request: Vec::new(),
            upstream: None,
            is_reused: false,
            received: Received::Nothing,
            output: Output::default(),
            ending: None,
            part: None,
        }
    }

    /// Whether the server is not received from, because the client is slower.
    pub(crate) const fn is_held(&self) -> bool {
        self.output.is_high()
    }

    pub(crate) const fn version(&self) -> Version {
        self.version
    }

    /// How far it has come.
    pub(crate) const fn attempt(&self, now_ns: u64) -> Attempt {
        Attempt {
            is_reused: self.is_reused,
            received: self.received,
            is_repeatable: self.method.is_idempotent,
            tries: self.place.tries,
            was_replaced: self.place.was_replaced,
            left_ns: self.place.until_ns.saturating_sub(now_ns),
        }
    }

    /// Writes an interim response, to clients that know them.
    pub(crate) fn write_interim(&mut self, head: &ResponseHead, bytes: &[u8]) {
        // A body that was collected was asked for by this side.
        if self.part.is_none() && self.version == Version::Http11 && head.status != 100 {
            let output = &mut self.output.bytes;
            write_response_head(head, bytes, ClientFraming::AsReceived, output);
        }
    }

    /// Writes the final head.
    pub(crate) fn write_head(&mut self, head: &ResponseHead, bytes: &[u8]) {
        if let Some(part) = &mut self.part {
            part.keep(head, bytes);
            self.received = Received::Head;
            self.output.status = head.status;
            return;
        }
        let framing = ClientFraming::new(head.body, self.version);
        let Output { bytes: output, fields_at, .. } = &mut self.output;
        let start = output.len();
        let line_size = write_response_head(head, bytes, framing, output);
        *fields_at = Some(start + line_size);
        self.received = Received::Head;
        self.output.has_date = head.has_date;
        self.output.status = head.status;
        self.output.framing = Some(framing);
        self.request = Vec::new();
    }

    /// Writes a part of the body.
    pub(crate) fn write_body(&mut self, part: &[u8]) {
        let Output { bytes, framing, body_size, .. } = &mut self.output;
        *body_size += part.len() as u64;
        if *framing == Some(ClientFraming::Chunked) {
            bytes.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
            bytes.extend_from_slice(part);
            bytes.extend_from_slice(b"\r\n");
        } else {
            bytes.extend_from_slice(part);
        }
    }

    /// The response is complete.
    pub(crate) fn finish(&mut self) {
        if self.output.framing == Some(ClientFraming::Chunked) {
            self.output.bytes.extend_from_slice(b"0\r\n\r\n");
        }
        self.ending = Some(Ending::Complete);
        self.upstream = None;
    }
}
