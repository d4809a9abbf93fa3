//! The protocol of a `WebSocket` between its client and an application.

use std::collections::VecDeque;
use std::sync::Arc;

use jissoku_http::Version;
use jissoku_os::driver::SendBuffer;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};

use super::deflate::ACCEPTED;
use super::failure::{Failure, code};
use super::frames::{self, Decoder, Event};
use super::handshake::Handshake;
use super::message::{ClientDisconnected, Message, refused, unexpected};
use super::shared::Shared;
use crate::request_name::RequestName;
use crate::response_head::{BodySize, Expectation, ResponseHead, write_field};

/// Bytes of messages that are received before the application calls `receive`, and bytes that a
/// client has not read before `send` waits.
pub(super) const BUFFER_SIZE_MAX: usize = 32 * 1024;

/// A client that sends nothing for this long is sent a ping, and after the same time without an
/// answer the connection is closed. The default of uvicorn.
const PING_NS: u64 = 20_000_000_000;

/// How long the client's Close frame, or the refusal of a frame, waits for the application to receive
/// the messages before it.
const END_DELAY_NS: u64 = 5_000_000_000;

/// The state of a `WebSocket`.
#[derive(Debug)]
pub(super) struct Session {
    shared: Arc<Shared>,
    handshake: Handshake,
    pub(super) state: State,
    decoder: Decoder,
    /// Messages that the application has not received, and their size.
    messages: VecDeque<Event>,
    queued_size: usize,
    /// Code and reason of the disconnect, once there was one.
    pub(super) disconnect: Option<(u16, String)>,
    /// The code and reason of the Close frame to be sent when the application has received all
    /// messages, so that its answers come before: nothing more is received from the client.
    ending: Option<(u16, String)>,
    pub(super) output: SendBuffer,
    /// Bytes that were passed to the driver and not sent, as far as is known.
    pub(super) in_flight: usize,
    /// The head and the body of a response in place of the handshake.
    denial: Option<(ResponseHead, Vec<u8>)>,
    pub(super) status: u16,
    pub(super) body_size: u64,
    /// When bytes were last received from the client, on the monotonic clock, and whether a ping
    /// was sent since.
    received_ns: u64,
    is_pinged: bool,
}

/// The stage of a `WebSocket`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// `websocket.connect` is to be received by the application.
    New,
    /// The application has to accept or refuse.
    Connecting,
    Open,
    /// The server has sent a close frame.
    Closing,
    /// Nothing more is sent; the connection is closed when the output is sent.
    Done,
    /// The connection is closed.
    Closed,
}

impl Session {
    pub(super) fn new(shared: &Arc<Shared>, handshake: Handshake, now_ns: u64) -> Self {
        Self {
            shared: Arc::clone(shared),
            decoder: Decoder::new(handshake.compresses, shared.message_size_max),
            handshake,
            state: State::New,
            messages: VecDeque::new(),
            queued_size: 0,
            disconnect: None,
            ending: None,
            output: SendBuffer::default(),
            in_flight: 0,
            denial: None,
            status: 0,
            body_size: 0,
            received_ns: now_ns,
            is_pinged: false,
        }
    }

    /// Processes bytes of the client.
    pub(super) fn add_bytes(&mut self, bytes: &[u8]) {
        if self.ending.is_some() {
            return;
        }
        self.is_pinged = false;
        self.received_ns = 0;
        if !matches!(self.state, State::Open | State::Closing) {
            return;
        }
        let mut events = Vec::new();
        let shared = Arc::clone(&self.shared);
        let result = shared
            .with_deflate(|deflate| self.decoder.feed(bytes, deflate, |event| events.push(event)));
        for event in events {
            self.take(event);
        }
        if let Err(Failure(code, reason)) = result {
            self.end_after_messages(code, reason);
        }
    }

    /// Sends a Close frame and ends, once the application has received what came before.
    fn end_after_messages(&mut self, code: u16, reason: &str) {
        self.ending = Some((code, reason.to_owned()));
        if self.messages.is_empty() || self.state != State::Open {
            self.finish_ending();
        }
    }

    fn finish_ending(&mut self) {
        let Some((code, reason)) = self.ending.take() else { return };
        if self.state == State::Open {
            frames::write_close(code, &reason, |part| self.output.append(part));
        }
        self.end(code, &reason);
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Ping(payload) if self.state == State::Open => {
                frames::write_pong(&payload, |part| self.output.append(part));
            }
            Event::Ping(_) | Event::Pong => {}
            Event::Close(code, reason) => self.end_after_messages(code, &reason),
            Event::Text(_) | Event::Binary(_) if self.state == State::Closing => {}
            Event::Text(_) | Event::Binary(_) => {
                self.queued_size += size_of_message(&event);
                self.messages.push_back(event);
            }
        }
    }

    /// Ends the connection once the output is sent.
    pub(super) fn end(&mut self, code: u16, reason: &str) {
        if self.state != State::Closed {
            self.state = State::Done;
        }
        let known = self.ending.take().unwrap_or_else(|| (code, reason.to_owned()));
        self.disconnect.get_or_insert(known);
    }

    /// Pings a silent client, closes the connection of one that does not answer, and closes all
    /// before a shutdown. Called once a second.
    pub(super) fn keep_alive(&mut self, now_ns: u64) {
        if self.received_ns == 0 {
            self.received_ns = now_ns;
        }
        if self.state != State::Open {
            let is_late = now_ns.saturating_sub(self.received_ns) > PING_NS;
            if self.state == State::Closing && is_late {
                self.end(code::ABNORMAL, "");
            }
            return;
        }
        // A client from which nothing is received is not silent.
        if self.is_held() && self.ending.is_none() {
            self.received_ns = now_ns;
        }
        let silent_ns = now_ns.saturating_sub(self.received_ns);
        if self.ending.is_some() {
            if silent_ns > END_DELAY_NS {
                self.finish_ending();
            }
        } else if self.shared.is_shutting_down() {
            self.send_close(code::SERVICE_RESTART, "");
            self.disconnect = Some((code::SERVICE_RESTART, String::new()));
        } else if silent_ns > 2 * PING_NS {
            let reason = "no answer to a ping";
            frames::write_close(code::SERVER_ERROR, reason, |part| self.output.append(part));
            self.end(code::ABNORMAL, reason);
        } else if silent_ns > PING_NS && !std::mem::replace(&mut self.is_pinged, true) {
            frames::write_ping(|part| self.output.append(part));
        }
    }

    /// Whether nothing is received until the application has received messages.
    pub(super) const fn is_held(&self) -> bool {
        self.queued_size > BUFFER_SIZE_MAX
    }

    pub(super) fn is_full(&self) -> bool {
        self.state == State::Open && self.output.size() + self.in_flight > BUFFER_SIZE_MAX
    }

    /// The next message for the application, if there is one.
    pub(super) fn take_message<'py>(
        &mut self,
        python: Python<'py>,
    ) -> PyResult<Option<Bound<'py, PyDict>>> {
        let message = PyDict::new(python);
        let set_kind = |kind: &str| message.set_item("type", PyString::intern(python, kind));
        if self.state == State::New {
            self.state = State::Connecting;
            set_kind("websocket.connect")?;
            return Ok(Some(message));
        }
        if let Some(event) = self.messages.pop_front() {
            self.queued_size -= size_of_message(&event);
            set_kind("websocket.receive")?;
            match event {
                Event::Text(text) => message.set_item("text", text)?,
                Event::Binary(bytes) => {
                    message.set_item("bytes", PyBytes::new(python, &bytes))?;
                }
                Event::Ping(_) | Event::Pong | Event::Close(..) => {}
            }
            return Ok(Some(message));
        }
        self.finish_ending();
        let Some((code, reason)) = &self.disconnect else { return Ok(None) };
        set_kind("websocket.disconnect")?;
        message.set_item("code", code)?;
        message.set_item("reason", reason)?;
        Ok(Some(message))
    }

    /// Processes a message of the application.
    pub(super) fn write(&mut self, python: Python<'_>, message: &Message<'_, '_>) -> PyResult<()> {
        let kind = message.kind()?;
        let name = kind.to_cow()?;
        if matches!(self.state, State::Done | State::Closed) && self.denial.is_none() {
            return Err(ClientDisconnected::new_err("the client has disconnected"));
        }
        let is_connecting = matches!(self.state, State::New | State::Connecting);
        match (&*name, self.state) {
            ("websocket.accept", _) if is_connecting && self.denial.is_none() => {
                self.accept(python, message)?;
            }
            ("websocket.close", _) if is_connecting && self.denial.is_none() => self.deny(),
            ("websocket.http.response.start", _) if is_connecting && self.denial.is_none() => {
                let missing = || PyValueError::new_err("the response has no status");
                let status = message.status()?.ok_or_else(missing)?;
                let shared = Arc::clone(&self.shared);
                let head = message.head(shared.status_line(status))?;
                self.denial = Some((head, Vec::new()));
            }
            ("websocket.http.response.body", _) if is_connecting && self.denial.is_some() => {
                let body = message.bytes(pyo3::intern!(python, "body"))?;
                if let (Some((_, whole)), Some(body)) = (&mut self.denial, body) {
                    whole.extend_from_slice(body.as_bytes());
                }
                if !message.flag(pyo3::intern!(python, "more_body"))? {
                    self.send_denial();
                }
            }
            ("websocket.send", State::Open) => self.send_message(python, message)?,
            ("websocket.close", State::Open) => {
                let code = message.get(pyo3::intern!(python, "code"))?;
                let code = code.map_or(Ok(code::NORMAL), |code| code.extract::<u16>())?;
                if !frames::is_sendable(code) {
                    return Err(PyValueError::new_err(format!("invalid close code {code}")));
                }
                let reason = message.get(pyo3::intern!(python, "reason"))?;
                let reason: String = reason.map_or(Ok(String::new()), |text| text.extract())?;
                self.send_close(code, &reason);
            }
            (_, State::Closing) => return Err(unexpected(&kind, "after 'websocket.close'")),
            _ if is_connecting => return Err(unexpected(&kind, "before 'websocket.accept'")),
            _ => return Err(unexpected(&kind, "in a WebSocket")),
        }
        Ok(())
    }

    fn send_close(&mut self, code: u16, reason: &str) {
        frames::write_close(code, reason, |part| self.output.append(part));
        if self.ending.is_some() {
            // The client has sent its own, or is not listened to.
            return self.end(code, reason);
        }
        self.state = State::Closing;
        self.disconnect.get_or_insert_with(|| (code, reason.to_owned()));
    }

    fn send_message(&mut self, python: Python<'_>, message: &Message<'_, '_>) -> PyResult<()> {
        let Self { shared, output, handshake, .. } = self;
        let mut append = |is_text, payload: &[u8]| {
            shared.with_deflate(|deflate| {
                let deflate = handshake.compresses.then_some(deflate);
                frames::write_message(is_text, payload, deflate, |part| output.append(part));
            });
        };
        if let Some(text) = message.get(pyo3::intern!(python, "text"))? {
            append(true, text.cast::<PyString>()?.to_str()?.as_bytes());
            return Ok(());
        }
        let bytes = message.bytes(pyo3::intern!(python, "bytes"))?;
        let missing = || PyRuntimeError::new_err("'websocket.send' has neither bytes nor text");
        append(false, bytes.ok_or_else(missing)?.as_bytes());
        Ok(())
    }

    /// Completes the handshake (RFC 6455 section 4.2.2).
    fn accept(&mut self, python: Python<'_>, message: &Message<'_, '_>) -> PyResult<()> {
        let mut lines = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
            Connection: Upgrade\r\nSec-WebSocket-Accept: "
            .to_vec();
        lines.extend_from_slice(self.handshake.accept.as_bytes());
        lines.extend_from_slice(b"\r\n");
        if self.handshake.compresses {
            let field = format!("Sec-WebSocket-Extensions: {ACCEPTED}\r\n");
            lines.extend_from_slice(field.as_bytes());
        }
        if let Some(subprotocol) = message.get(pyo3::intern!(python, "subprotocol"))? {
            let name: String = subprotocol.extract()?;
            write_field(b"Sec-WebSocket-Protocol", name.as_bytes(), &mut lines)
                .map_err(|error| refused(&error))?;
        }
        message.fields(pyo3::intern!(python, "headers"), |name, value| {
            write_field(name, value, &mut lines)
        })?;
        lines.extend_from_slice(b"\r\n");
        self.output.append(&lines);
        (self.state, self.status) = (State::Open, 101);
        Ok(())
    }

    /// Refuses with a 403 (ASGI, "Close - send event").
    fn deny(&mut self) {
        let head = ResponseHead::new(b"403 Forbidden").ok();
        self.denial = head.map(|head| (head, Vec::new()));
        self.send_denial();
    }

    fn send_denial(&mut self) {
        let Some((head, body)) = self.denial.take() else { return };
        let request = Expectation {
            version: Version::Http11,
            is_head: false,
            persists: false,
            request_id: None,
            name: RequestName::default(),
        };
        let plan = head.plan(&request, BodySize::Known(body.len() as u64));
        let date = self.shared.date();
        head.write(plan, (&date, &request), |part| self.output.append(part));
        self.output.append(&body);
        (self.status, self.body_size) = (head.status(), body.len() as u64);
        self.end(code::ABNORMAL, "");
    }

    /// Ends the session, when the application has ended with an error or without one.
    pub(super) fn end_application(&mut self, has_failed: bool) {
        match self.state {
            State::New | State::Connecting => {
                let text = b"Internal Server Error\n".to_vec();
                self.denial = Some((ResponseHead::server_error(), text));
                self.send_denial();
            }
            State::Open if has_failed => {
                self.send_close(code::SERVER_ERROR, "the application has failed");
            }
            State::Open => self.send_close(code::NORMAL, ""),
            State::Closing | State::Done | State::Closed => {}
        }
    }
}

fn size_of_message(event: &Event) -> usize {
    // An empty message takes memory, too.
    let overhead = 64;
    overhead
        + match event {
            Event::Text(text) => text.len(),
            Event::Binary(bytes) => bytes.len(),
            Event::Ping(_) | Event::Pong | Event::Close(..) => 0,
        }
}

#[cfg(test)]
mod tests;
