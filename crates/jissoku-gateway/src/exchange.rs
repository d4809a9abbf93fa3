//! A request of a client and its response: what has been received of both, and what is still to be
//! sent.

mod method;
mod output;

use jissoku_http::forward::{ClientFraming, Offer, add_field, write_response_head, write_trailers};
use jissoku_http::response_reader::ResponseHead;
use jissoku_http::{Head, Version, uwsgi};
use jissoku_os::driver::{ConnectionId, SendBuffer};
use jissoku_server::{BodyFlow, ForwardedNotes, HedgeResult};
use jissoku_upstream::configuration::{ClientEnd, Protocol};
use jissoku_upstream::rate::Permit;

use crate::failure::{Attempt, Received};
use crate::part_head::PartHead;
use crate::place::Place;
use crate::slab::Key;
use crate::transfer::append_from;
use crate::upload::{Upload, UploadFraming};

pub(crate) use method::MethodInfo;
pub(crate) use output::Output;

/// How long a response of unknown length may pause when its client has shut down its side.
const PAUSE_NS: u64 = 1_000_000_000;

/// A request and its response.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// The connection of the client.
    pub(crate) client: ConnectionId,
    pub(crate) method: MethodInfo,
    pub(crate) place: Place,
    version: Version,
    /// The forwarded head, and the body if it was collected. Kept until the response has begun if
    /// it may be repeated.
    pub(crate) request: Vec<u8>,
    /// How much of it is the head.
    pub(crate) head_size: usize,
    /// The body if it is not collected; after a switch of protocols, what the client sends.
    pub(crate) upload: Option<Box<Upload>>,
    pub(crate) offer: Offer,
    /// The connection to the server.
    pub(crate) upstream: Option<Key>,
    pub(crate) is_reused: bool,
    pub(crate) received: Received,
    pub(crate) output: Output,
    pub(crate) ending: Option<Ending>,
    /// The server of a tunnel has sent everything.
    pub(crate) server_has_ended: bool,
    pub(crate) client_state: ClientState,
    /// Counts the request at its route, if its client does not.
    pub(crate) permit: Option<Permit>,
    /// When something was last sent to the client.
    pub(crate) sent_ns: u64,
    /// Of a part of a gathered response, whose output is the body alone.
    pub(crate) part: Option<Box<PartHead>>,
    /// The second copy of the request, as long as it is not decided whose response is used.
    pub(crate) copy: Option<Key>,
    /// What became of that copy, for the access log.
    pub(crate) hedge: Option<HedgeResult>,
    /// Whether the copy was put off once.
    pub(crate) is_copy_put_off: bool,
    /// Of one that is without a client because another copy of its request was responded to: until
    /// when its response is received.
    pub(crate) unused_until_ns: Option<u64>,
    /// What its server speaks.
    pub(crate) protocol: Protocol,
}

/// What is known of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ClientState {
    Present,
    /// It has shut down its side, and still waits for its response.
    Ended,
    /// It is gone, and the response is received nevertheless.
    Gone,
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

impl Exchange {
    pub(crate) fn new(
        client: ConnectionId,
        head: &Head,
        (place, protocol): (Place, Protocol),
    ) -> Self {
        Self::unsent(client, MethodInfo::new(head), head.version, (place, protocol))
    }

    /// The request once more, for another server than those that this one was sent to.
    pub(crate) fn second_copy(&self) -> Self {
        let place = self.place.for_copy();
        let mut copy = Self::unsent(self.client, self.method, self.version, (place, self.protocol));
        copy.request.clone_from(&self.request);
        copy.head_size = self.head_size;
        copy.offer = self.offer;
        copy.part = self.part.as_ref().map(|_| Box::default());
        copy
    }

    /// Nothing has been sent or received.
    fn unsent(
        client: ConnectionId,
        method: MethodInfo,
        version: Version,
        (place, protocol): (Place, Protocol),
    ) -> Self {
        Self {
            client,
            method,
            place,
            version,
            request: Vec::new(),
            head_size: 0,
            upload: None,
            offer: Offer::default(),
            upstream: None,
            is_reused: false,
            received: Received::Nothing,
            output: Output::default(),
            ending: None,
            server_has_ended: false,
            client_state: ClientState::Present,
            permit: None,
            sent_ns: 0,
            part: None,
            copy: None,
            hedge: None,
            is_copy_put_off: false,
            unused_until_ns: None,
            protocol,
        }
    }

    /// Whether a second copy may be sent: repeating it does no harm, and no protocol is switched.
    pub(crate) const fn is_copyable(&self) -> bool {
        self.is_repeatable() && !self.offer.upgrades
    }

    /// Whether the head of its response is awaited from a server.
    pub(crate) const fn is_awaited(&self) -> bool {
        self.upstream.is_some() && self.ending.is_none() && !matches!(self.received, Received::Head)
    }

    /// Whether the request may be sent once more, to a server that may have received it.
    pub(crate) const fn is_repeatable(&self) -> bool {
        self.method.is_idempotent && self.upload.is_none()
    }

    /// Writes the head, and the body if it was collected.
    pub(crate) fn write_request(&mut self, output: &mut SendBuffer) {
        if self.is_repeatable() {
            output.append(&self.request);
        } else {
            append_from(0, &mut self.request, output);
        }
    }

    /// As [`Exchange::write_request`], with the time that is left in the field of this name.
    pub(crate) fn write_request_until(&mut self, name: &str, now_ns: u64, output: &mut SendBuffer) {
        let value = self.place.left_ms(now_ns).to_string();
        let mut bytes = Vec::with_capacity(self.request.len() + name.len() + value.len() + 16);
        let (field, size) = ((name, value.as_str()), self.head_size);
        if self.protocol.is_http() {
            add_field(&self.request, size, field, &mut bytes);
        } else if uwsgi::add_field(&self.request, size, field, &mut bytes).is_err() {
            // There was room for it when the head was written.
            return self.write_request(output);
        }
        if !self.is_repeatable() {
            self.request = Vec::new();
        }
        append_from(0, &mut bytes, output);
    }

    /// Whether the whole request was handed to the driver.
    pub(crate) fn is_handed_over(&self) -> bool {
        self.upload.as_ref().is_none_or(|upload| upload.is_done())
    }

    /// Whether the client has sent its whole request.
    pub(crate) fn is_received(&self) -> bool {
        self.upload.as_ref().is_none_or(|upload| upload.is_ended())
    }

    /// Whether the server has switched protocols.
    pub(crate) fn is_tunnel(&self) -> bool {
        self.output.framing == Some(ClientFraming::Upgraded)
    }

    /// How the rest of the request is to be received.
    pub(crate) fn body_flow(&self) -> BodyFlow {
        match &self.upload {
            None => BodyFlow::Whole,
            Some(upload) if upload.is_held() => BodyFlow::Hold,
            Some(upload) if upload.awaits_continue => BodyFlow::Await,
            Some(_) => BodyFlow::Receive,
        }
    }

    /// Whether the server is not received from, because the client is slower.
    pub(crate) const fn is_held(&self) -> bool {
        self.output.is_high()
    }

    /// Whether the server waits for the client: to read its response, or to send more of its
    /// request.
    pub(crate) fn is_client_awaited(&self) -> bool {
        let upload = self.upload.as_ref();
        self.is_held()
            || upload.is_some_and(|upload| {
                upload.is_receiving() && upload.is_empty() && !upload.awaits_continue
            })
    }

    /// Whether the client has shut down its side, and the response, whose end is not known, has
    /// paused: there may be no reader any more.
    pub(crate) const fn is_without_reader(&self, now_ns: u64) -> bool {
        let is_endless = matches!(
            self.output.framing,
            Some(
                ClientFraming::Chunked
                    | ClientFraming::ChunkedWithTrailers
                    | ClientFraming::UntilClose
            )
        );
        matches!(self.client_state, ClientState::Ended)
            && !matches!(self.place.forwarding.on_client_end, ClientEnd::Finish)
            && self.ending.is_none()
            && is_endless
            && now_ns.saturating_sub(self.sent_ns) >= PAUSE_NS
    }

    /// Whether its client has shut down its side, and that ends it.
    pub(crate) fn is_aborted(&self) -> bool {
        self.client_state == ClientState::Ended
            && self.place.forwarding.on_client_end == ClientEnd::Abort
            && self.ending.is_none()
            && !self.is_tunnel()
    }

    /// Whether it goes on without its client.
    pub(crate) fn is_orphan(&self) -> bool {
        self.client_state == ClientState::Gone
    }

    /// Whether its response is received although its client is gone: a server has the whole request,
    /// or gets it.
    pub(crate) fn is_finishable(&self) -> bool {
        self.place.forwarding.on_client_end == ClientEnd::Finish
            && self.upstream.is_some()
            && self.ending.is_none()
            && self.is_received()
            && !self.is_tunnel()
    }

    pub(crate) const fn version(&self) -> Version {
        self.version
    }

    /// How far it has come.
    pub(crate) const fn attempt(&self, now_ns: u64) -> Attempt {
        Attempt {
            is_reused: self.is_reused,
            received: self.received,
            has_relayed: self.output.has_interim || matches!(self.received, Received::Head),
            is_repeatable: self.is_repeatable(),
            tries: self.place.tries,
            was_replaced: self.place.was_replaced,
            left_ns: self.place.until_ns.saturating_sub(now_ns),
        }
    }

    /// The final response begins. `is_sent`: the request has gone out as a whole.
    pub(crate) const fn note_early(&mut self, is_sent: bool) {
        if !is_sent {
            self.place.notes.add(ForwardedNotes::EARLY);
        }
    }

    /// Writes an interim response, to clients that know them.
    pub(crate) fn write_interim(&mut self, head: &ResponseHead, bytes: &[u8]) {
        if head.status == 100 {
            // This side asks the client for its body, and has done so for one that is collected.
            if let Some(upload) = &mut self.upload {
                upload.awaits_continue = false;
            }
        } else if self.part.is_none() && self.version == Version::Http11 {
            self.output.has_interim = true;
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
        let framing = ClientFraming::new(head.body, self.version, self.offer.takes_trailers);
        let request = std::mem::take(&mut self.request);
        let Output { bytes: output, fields_at, .. } = &mut self.output;
        output::prepare(output, request, bytes.len());
        let start = output.len();
        let line_size = write_response_head(head, bytes, framing, output);
        *fields_at = Some(start + line_size);
        self.received = Received::Head;
        self.output.has_date = head.has_date;
        self.output.status = head.status;
        self.output.framing = Some(framing);
        // Where every connection is closed, that says nothing about the rest of the request.
        let closes = !head.keeps_alive && self.protocol.is_http();
        if let Some(upload) = &mut self.upload
            && (head.status >= 300 || closes || upload.awaits_continue)
        {
            // The server does not want the rest (RFC 9112 section 9.5).
            upload.stop();
        }
    }

    /// Writes the head of a switch of protocols.
    pub(crate) fn write_upgrade(&mut self, head: &ResponseHead, bytes: &[u8]) {
        write_response_head(head, bytes, ClientFraming::Upgraded, &mut self.output.bytes);
        self.received = Received::Head;
        self.output.status = head.status;
        self.output.framing = Some(ClientFraming::Upgraded);
        self.request = Vec::new();
        self.upload = Some(Box::new(Upload::new(UploadFraming::Raw, false)));
    }

    /// Writes a part of the body.
    pub(crate) fn write_body(&mut self, part: &[u8]) {
        let Output { bytes, framing, body_size, .. } = &mut self.output;
        *body_size += part.len() as u64;
        if matches!(framing, Some(ClientFraming::Chunked | ClientFraming::ChunkedWithTrailers)) {
            bytes.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
            bytes.extend_from_slice(part);
            bytes.extend_from_slice(b"\r\n");
        } else {
            bytes.extend_from_slice(part);
        }
    }

    /// The response is complete. `trailers` are its trailer lines.
    pub(crate) fn finish(&mut self, trailers: &[u8]) {
        let output = &mut self.output.bytes;
        match self.output.framing {
            Some(ClientFraming::Chunked) => output.extend_from_slice(b"0\r\n\r\n"),
            Some(ClientFraming::ChunkedWithTrailers) => write_trailers(trailers, output),
            _ => {}
        }
        self.ending = Some(Ending::Complete);
    }
}
