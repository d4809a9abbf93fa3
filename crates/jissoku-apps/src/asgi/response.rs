//! The response of an application: its messages become bytes.

use std::path::PathBuf;
use std::sync::Arc;

use jissoku_http::Version;
use jissoku_os::driver::SendBuffer;
use jissoku_os::file::File;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::message::{Message, refused, unexpected};
use super::shared::Shared;
use crate::body_writer::length_fault;
use crate::response_head::{BodySize, Expectation, Framing, ResponseHead, write_field};

const ERROR_TEXT: &[u8] = b"Internal Server Error\n";

/// A response that is being written.
#[derive(Debug)]
pub(super) struct Response {
    shared: Arc<Shared>,
    /// How the request determines its form.
    pub(super) request: Expectation,
    pub(super) head: Option<ResponseHead>,
    /// The framing, once the head is written.
    pub(super) framing: Option<Framing>,
    pub(super) has_trailers: bool,
    pub(super) stage: Stage,
    pub(super) output: SendBuffer,
    /// Bytes that were passed to the driver and not sent, as far as is known.
    pub(super) in_flight: usize,
    pub(super) persists: bool,
    pub(super) status: u16,
    pub(super) body_size: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    #[default]
    Open,
    /// The body is complete, and the trailer section is not.
    AwaitsTrailers,
    Complete,
    /// It ends before it is complete; the connection is closed, so that the client detects it.
    Truncated,
}

impl Response {
    pub(super) fn new(shared: &Arc<Shared>, request: Expectation) -> Self {
        Self {
            shared: Arc::clone(shared),
            request,
            head: None,
            framing: None,
            has_trailers: false,
            stage: Stage::Open,
            output: shared.take_buffer(),
            in_flight: 0,
            persists: false,
            status: 0,
            body_size: 0,
        }
    }

    /// Whether nothing more may be written.
    pub(super) fn has_ended(&self) -> bool {
        matches!(self.stage, Stage::Complete | Stage::Truncated)
    }

    /// Processes a message of the application.
    pub(super) fn write(&mut self, message: &Message<'_, '_>) -> PyResult<()> {
        let kind = message.kind()?;
        let name = kind.to_cow()?;
        match &*name {
            "http.response.start" if !self.has_started() => self.start(message),
            "http.response.body" if self.takes_body() => self.write_body(message),
            "http.response.pathsend" if self.takes_body() => self.send_path(message),
            "http.response.trailers" if self.stage == Stage::AwaitsTrailers => {
                self.write_trailers(message)
            }
            "http.response.early_hint" if !self.has_started() => self.write_hint(message),
            "http.response.start" | "http.response.early_hint" => {
                Err(unexpected(&kind, "after the response has started"))
            }
            _ if !self.has_started() => Err(unexpected(&kind, "before 'http.response.start'")),
            _ => Err(unexpected(&kind, "in a response")),
        }
    }

    fn takes_body(&self) -> bool {
        self.has_started() && self.stage == Stage::Open
    }

    const fn has_started(&self) -> bool {
        self.head.is_some() || self.framing.is_some()
    }

    fn start(&mut self, message: &Message<'_, '_>) -> PyResult<()> {
        let missing = || PyValueError::new_err("'http.response.start' has no status");
        let status = message.status()?.ok_or_else(missing)?;
        let headers = message.headers()?;
        self.head = Some(match self.shared.read_head(status, headers.as_ref()) {
            Some(head) => head,
            None => message.head(self.shared.status_line(status))?,
        });
        Python::attach(|python| {
            self.has_trailers = message.flag(pyo3::intern!(python, "trailers"))?;
            Ok(())
        })
    }

    fn write_body(&mut self, message: &Message<'_, '_>) -> PyResult<()> {
        Python::attach(|python| {
            let body = message.bytes(pyo3::intern!(python, "body"))?;
            let body = body.as_ref().map_or(&[][..], |body| body.as_bytes());
            let has_more = message.flag(pyo3::intern!(python, "more_body"))?;
            let size = body.len() as u64;
            self.write_head(size, has_more)?;
            self.take_length(size, has_more)?;
            let response = &mut *self;
            match response.framing {
                _ if body.is_empty() => {}
                None | Some(Framing::None) => {}
                Some(Framing::Chunked) => {
                    response.output.append(format!("{size:x}\r\n").as_bytes());
                    response.output.append(body);
                    response.output.append(b"\r\n");
                    response.body_size += size;
                }
                Some(Framing::Length(_) | Framing::UntilClose) => {
                    response.output.append(body);
                    response.body_size += size;
                }
            }
            if !has_more {
                self.end_response();
            }
            Ok(())
        })
    }

    /// Sends a file (ASGI, "Path Send" extension).
    fn send_path(&mut self, message: &Message<'_, '_>) -> PyResult<()> {
        Python::attach(|python| {
            let path = message.get(pyo3::intern!(python, "path"))?;
            let missing = || PyValueError::new_err("'http.response.pathsend' has no path");
            let path: PathBuf = path.ok_or_else(missing)?.extract()?;
            let file = File::open(&path)?;
            let size = file.stamp().size;
            // The application may have read the size before the file grew.
            let size = self.announced_length().map_or(size, |length| length.min(size));
            self.write_head(size, false)?;
            self.take_length(size, false)?;
            let response = &mut *self;
            let is_chunked = matches!(response.framing, Some(Framing::Chunked));
            if size > 0 && !matches!(response.framing, Some(Framing::None)) {
                if is_chunked {
                    response.output.append(format!("{size:x}\r\n").as_bytes());
                }
                response.output.append_file(Arc::new(file), 0..size);
                if is_chunked {
                    response.output.append(b"\r\n");
                }
                response.body_size += size;
            }
            self.end_response();
            Ok(())
        })
    }

    /// Writes the head, unless it is written. `size` is that of the next part of the body.
    fn write_head(&mut self, size: u64, has_more: bool) -> PyResult<()> {
        let Some(head) = self.head.take() else { return Ok(()) };
        let is_known = !has_more && !self.has_trailers;
        let size = if is_known { BodySize::Known(size) } else { BodySize::Unknown };
        let plan = head.plan(&self.request, size);
        if let (Framing::Length(length), BodySize::Known(size)) = (plan.framing, size)
            && length != size
        {
            // Nothing is sent: a 500 is still possible.
            self.head = Some(head);
            return Err(PyRuntimeError::new_err(length_fault(size, length)));
        }
        let date = self.shared.date();
        let response = &mut *self;
        head.write(plan, (&date, &response.request), |part| response.output.append(part));
        (response.framing, response.persists) = (Some(plan.framing), plan.persists);
        response.status = head.status();
        response.shared.return_head(head);
        Ok(())
    }

    /// What is left of the Content-Length of the application.
    fn announced_length(&self) -> Option<u64> {
        let planned = || {
            let head = self.head.as_ref()?;
            Some(head.plan(&self.request, BodySize::Unknown).framing)
        };
        match self.framing.or_else(planned)? {
            Framing::Length(length) => Some(length),
            _ => None,
        }
    }

    /// Counts a part of the body against Content-Length.
    fn take_length(&mut self, size: u64, has_more: bool) -> PyResult<()> {
        let Some(Framing::Length(left)) = &mut self.framing else { return Ok(()) };
        let length = *left;
        match length.checked_sub(size) {
            Some(rest) if rest == 0 || has_more => *left = rest,
            _ => {
                // The client detects that the body is incomplete, or the excess is not sent.
                self.stage = Stage::Truncated;
                let fault = length_fault(self.body_size + size, self.body_size + length);
                return Err(PyRuntimeError::new_err(fault));
            }
        }
        Ok(())
    }

    /// What is missing of a response that the application has left incomplete.
    pub(super) fn missing(&self) -> String {
        match self.framing {
            Some(Framing::Length(left)) => length_fault(self.body_size, self.body_size + left),
            _ => "the application has returned without a complete response".to_owned(),
        }
    }

    fn end_response(&mut self) {
        let response = &mut *self;
        let is_chunked = matches!(response.framing, Some(Framing::Chunked));
        if is_chunked {
            response.output.append(b"0\r\n");
        }
        if response.has_trailers {
            // Trailers need the chunked coding; the message is still expected, and ignored.
            response.stage = Stage::AwaitsTrailers;
            return;
        }
        if is_chunked {
            response.output.append(b"\r\n");
        }
        response.stage = Stage::Complete;
    }

    /// Writes trailer fields (RFC 9112 section 7.1.2).
    fn write_trailers(&mut self, message: &Message<'_, '_>) -> PyResult<()> {
        Python::attach(|python| {
            let mut lines = Vec::new();
            message.fields(pyo3::intern!(python, "headers"), |name, value| {
                write_field(name, value, &mut lines)
            })?;
            let has_more = message.flag(pyo3::intern!(python, "more_trailers"))?;
            let response = &mut *self;
            if matches!(response.framing, Some(Framing::Chunked)) {
                response.output.append(&lines);
                if !has_more {
                    response.output.append(b"\r\n");
                }
            }
            if !has_more {
                response.stage = Stage::Complete;
            }
            Ok(())
        })
    }

    /// Writes a 103 (RFC 8297; ASGI, "Early Hints" extension).
    fn write_hint(&mut self, message: &Message<'_, '_>) -> PyResult<()> {
        Python::attach(|python| {
            let mut lines = b"HTTP/1.1 103 Early Hints\r\n".to_vec();
            let links = message.get(pyo3::intern!(python, "links"))?;
            for link in links.map(|links| links.try_iter()).transpose()?.into_iter().flatten() {
                let link = link?;
                let link = link.cast::<PyBytes>()?;
                write_field(b"Link", link.as_bytes(), &mut lines)
                    .map_err(|error| refused(&error))?;
            }
            lines.extend_from_slice(b"\r\n");
            if self.request.version == Version::Http11 {
                self.output.append(&lines);
            }
            Ok(())
        })
    }

    /// Ends a response that the application has left incomplete.
    pub(super) fn fail(&mut self) {
        if self.has_ended() {
            return;
        }
        if self.framing.is_none() {
            let head = ResponseHead::server_error();
            let size = BodySize::Known(ERROR_TEXT.len() as u64);
            let plan = head.plan(&self.request, size);
            let date = self.shared.date();
            let response = &mut *self;
            head.write(plan, (&date, &response.request), |part| response.output.append(part));
            if plan.framing != Framing::None {
                response.output.append(ERROR_TEXT);
                response.body_size = ERROR_TEXT.len() as u64;
            }
            (response.status, response.persists) = (500, plan.persists);
            (response.head, response.stage) = (None, Stage::Complete);
        } else {
            self.stage = Stage::Truncated;
        }
    }
}
