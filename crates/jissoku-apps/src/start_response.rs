//! `start_response` and `write` (PEP 3333, "The `start_response()` Callable").

use std::thread::{self, ThreadId};

use pyo3::exceptions::{PyAssertionError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple, PyType};

use crate::constant_headers::ConstantHeaders;
use crate::interpreter::references;
use crate::response_head::{BodySize, HeadError, ResponseHead};
use crate::sink::LiveResponse;
use crate::text::{class_name, to_latin1};

/// The head of a response. The application calls one of its methods with the status and the
/// headers.
#[pyclass(module = "jissoku")]
#[derive(Debug, Default)]
pub(crate) struct StartResponse {
    head: ResponseHead,
    /// Whether there is a head that can still be replaced.
    has_head: bool,
    /// Whether the head was sent, or something that follows it.
    is_sent: bool,
    /// Interim responses that precede the head and are not sent yet.
    hints: Vec<u8>,
    /// Bytes that were passed to `write` and are not sent yet.
    written: Vec<u8>,
    /// The response, on the thread that is calling the application.
    live: Option<(ThreadId, LiveResponse)>,
    /// Memory for the next head.
    next: ResponseHead,
    constants: ConstantHeaders,
    /// The last status, and its head without headers. A string never changes.
    status: Option<(Py<PyString>, ResponseHead)>,
    /// The bound method `write`, while the object is reused.
    write: Option<Py<PyAny>>,
}

impl StartResponse {
    /// Marks the head as sent and returns it. From now on it cannot be replaced.
    pub(crate) fn send_head(&mut self) -> Option<&ResponseHead> {
        self.is_sent |= self.has_head;
        std::mem::take(&mut self.has_head).then_some(&self.head)
    }

    pub(crate) fn take_written(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.written)
    }

    /// `write` sends on this thread from now on.
    pub(crate) fn set_live(&mut self, live: LiveResponse) {
        self.live = Some((thread::current().id(), live));
    }

    pub(crate) fn take_live(&mut self) -> Option<LiveResponse> {
        self.live.take().map(|(_, live)| live)
    }

    /// Takes the response if this is its thread.
    fn live_here(&mut self) -> Option<LiveResponse> {
        let here = thread::current().id();
        self.live.take_if(|(thread, _)| *thread == here).map(|(_, live)| live)
    }

    /// Writes the head, unless it was written, and what was passed to `write`.
    fn write_out(&mut self, live: &mut LiveResponse, data: &[u8]) {
        let LiveResponse { sink, body, date, .. } = live;
        if let Some(head) = self.send_head() {
            body.write_head(head, BodySize::Unknown, date, sink.output());
        }
        body.write(&self.take_written(), sink.output());
        body.write(data, sink.output());
    }

    /// Whether the head was sent, or something that follows it.
    pub(crate) const fn is_sent(&self) -> bool {
        self.is_sent
    }

    /// Adds an interim response.
    pub(crate) fn add_hint(&mut self, lines: &[u8]) {
        self.hints.extend_from_slice(lines);
    }

    pub(crate) fn take_hints(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.hints)
    }

    const fn is_started(&self) -> bool {
        self.is_sent || self.has_head
    }

    /// Reads status and headers of the exact built-in types, which runs no Python code. `None` for
    /// other types and for invalid values.
    fn read_exact_types(
        &mut self,
        status: &Bound<'_, PyAny>,
        headers: &Bound<'_, PyAny>,
    ) -> Option<()> {
        let Self { next, constants, status: last, .. } = self;
        match last {
            Some((last, head)) if last.is(status) => next.restart_as(head),
            _ => {
                next.restart(ascii(status)?).ok()?;
                let mut head = last.take().map(|(_, head)| head).unwrap_or_default();
                head.restart_as(next);
                *last = Some((status.clone().cast_into().ok()?.unbind(), head));
            }
        }
        for pair in headers.cast_exact::<PyList>().ok()?.iter() {
            let pair = pair.cast_into_exact::<PyTuple>().ok()?;
            if let Some(line) = constants.line(&pair) {
                next.add_lines(line);
                continue;
            }
            if pair.len() != 2 {
                return None;
            }
            let (name, value) = (pair.get_borrowed_item(0).ok()?, pair.get_borrowed_item(1).ok()?);
            let (name, value) = (ascii(&name)?, ascii(&value)?);
            let size = next.size();
            next.add(name, value).ok()?;
            constants.insert_if_constant(&pair, next.lines_since(size));
        }
        Some(())
    }
}

#[pymethods]
impl StartResponse {
    #[pyo3(signature = (status, headers, exc_info=None))]
    fn start_response<'py>(
        this: &Bound<'py, Self>,
        status: &Bound<'py, PyAny>,
        headers: &Bound<'py, PyAny>,
        exc_info: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let python = this.py();
        let mut start = this.borrow_mut();
        match exc_info {
            Some(fault) if start.is_sent => return Err(reraised(fault)?),
            None if start.is_started() => {
                return Err(PyAssertionError::new_err("start_response was called already"));
            }
            _ => {}
        }
        if start.read_exact_types(status, headers).is_none() {
            // Reading may call this method again.
            drop(start);
            let head = read(status, headers)?;
            start = this.borrow_mut();
            start.next = head;
        }
        let this_start = &mut *start;
        std::mem::swap(&mut this_start.head, &mut this_start.next);
        this_start.has_head = true;
        if let Some(write) = &this_start.write {
            return Ok(write.bind(python).clone());
        }
        drop(start);
        this.getattr(pyo3::intern!(python, "write"))
    }

    /// Sends `data` after the head, on the thread that is calling the application. From another
    /// thread, or after the call, it is sent with the next part.
    #[pyo3(signature = (data, /))]
    fn write(this: &Bound<'_, Self>, data: &Bound<'_, PyBytes>) {
        let is_sent = send_early(this, |start, live| start.write_out(live, data.as_bytes()));
        if !is_sent {
            let mut start = this.borrow_mut();
            // The head precedes the data, so it cannot be replaced any more.
            start.is_sent = true;
            start.written.extend_from_slice(data.as_bytes());
        }
    }
}

/// Sends interim responses and what `write` writes, if this is the thread that is calling the
/// application. Returns whether it is.
pub(crate) fn send_early(
    this: &Bound<'_, StartResponse>,
    write: impl FnOnce(&mut StartResponse, &mut LiveResponse),
) -> bool {
    let mut start = this.borrow_mut();
    let Some(mut live) = start.live_here() else { return false };
    let hints = start.take_hints();
    live.sink.output().append(&hints);
    write(&mut start, &mut live);
    // Other threads may use the object while this one waits for the client.
    drop(start);
    live.send(this.py());
    this.borrow_mut().set_live(live);
    true
}

/// A [`StartResponse`] and its method for the application, reused for successive responses.
#[derive(Debug)]
pub(crate) struct Starter {
    pub(crate) response: Py<StartResponse>,
    /// The method `start_response`.
    pub(crate) callable: Py<PyAny>,
}

impl Starter {
    pub(crate) fn new(python: Python<'_>) -> PyResult<Self> {
        let response = Bound::new(python, StartResponse::default())?;
        let write = response.getattr("write")?;
        response.borrow_mut().write = Some(write.unbind());
        let callable = response.getattr("start_response")?.unbind();
        Ok(Self { response: response.unbind(), callable })
    }

    /// Resets it for another response. `None` if the application has kept a reference to it, which
    /// must never affect another response.
    pub(crate) fn reset(self, python: Python<'_>) -> Option<Self> {
        let response = self.response.bind(python);
        // References: this one, and those of the two methods.
        let is_unshared = references(response) == 3;
        let mut start = response.borrow_mut();
        let is_ours = |write: &Py<PyAny>| references(write.bind(python)) == 1;
        let is_free = is_unshared
            && references(self.callable.bind(python)) == 1
            && start.write.as_ref().is_some_and(is_ours);
        if !is_free {
            // Without this, the object would keep itself alive.
            let _write = start.write.take();
            return None;
        }
        (start.has_head, start.is_sent) = (false, false);
        start.written.clear();
        start.hints.clear();
        start.live = None;
        drop(start);
        Some(self)
    }
}

/// The bytes of a string of exactly this type, if it is ASCII.
fn ascii<'a>(text: &'a Bound<'_, PyAny>) -> Option<&'a [u8]> {
    let text = text.cast_exact::<PyString>().ok()?.to_str().ok()?;
    text.is_ascii().then_some(text.as_bytes())
}

fn read(status: &Bound<'_, PyAny>, headers: &Bound<'_, PyAny>) -> PyResult<ResponseHead> {
    let status = string(status, "the status")?;
    let refusal = |error: HeadError| PyValueError::new_err(error.to_string());
    let status = latin1_of(status, "the status")?;
    let mut head = ResponseHead::new(&status).map_err(refusal)?;
    for header in headers.try_iter()? {
        let header = header?;
        let pair = header.cast::<PyTuple>().ok().filter(|pair| pair.len() == 2);
        let pair =
            pair.ok_or_else(|| PyTypeError::new_err("a header is a tuple of two strings"))?;
        let (name, value) = (pair.get_borrowed_item(0)?, pair.get_borrowed_item(1)?);
        let name = latin1_of(string(&name, "the name of a header")?, "the name of a header")?;
        let value = latin1_of(string(&value, "the value of a header")?, "the value of a header")?;
        head.add(&name, &value).map_err(refusal)?;
    }
    Ok(head)
}

fn string<'a, 'py>(value: &'a Bound<'py, PyAny>, what: &str) -> PyResult<&'a Bound<'py, PyString>> {
    value.cast::<PyString>().map_err(|_| {
        PyTypeError::new_err(format!("{what} has to be a str, not {}", class_name(value)))
    })
}

fn latin1_of<'a>(
    text: &'a Bound<'_, PyString>,
    what: &str,
) -> PyResult<std::borrow::Cow<'a, [u8]>> {
    to_latin1(text)?
        .ok_or_else(|| PyValueError::new_err(format!("{what} has a character that is not latin-1")))
}

/// The exception of `exc_info`, with its traceback.
fn reraised(exc_info: &Bound<'_, PyAny>) -> PyResult<PyErr> {
    let fault = exc_info.cast::<PyTuple>()?.get_item(1)?;
    if fault.is_instance_of::<PyType>() {
        return Err(PyTypeError::new_err("exc_info[1] has to be an exception"));
    }
    Ok(PyErr::from_value(fault))
}
