//! The response of an application: its iterable becomes framed bytes, a part at a time.

use jissoku_os::driver::SendBuffer;
use pyo3::exceptions::{PyAssertionError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyIterator, PyList, PyTuple};

use crate::head::{BodySize, Expectation, Framing, ResponseHead};
use crate::start_response::StartResponse;

/// The body of a response to a request that the application failed at.
const ERROR_TEXT: &[u8] = b"Internal Server Error\n";

/// What follows after a part of a response was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The response is complete.
    Done { persists: bool },
    /// More follows once the part is sent.
    More,
    /// It broke off, and its end shows that: what was written is sent, and then the connection is
    /// closed.
    Truncated,
}

/// A response that is being sent. Dropping it calls the iterable's `close`.
#[derive(Debug)]
pub(crate) struct Response {
    start: Option<Py<StartResponse>>,
    /// What the application returned, until its `close` was called.
    iterable: Option<Py<PyAny>>,
    iterator: Option<Py<PyIterator>>,
    request: Expectation,
    /// The framing, once the head is sent.
    framing: Option<Framing>,
    persists: bool,
    /// 0 until the head is sent.
    pub(crate) status: u16,
    /// Bytes of the body that were sent.
    pub(crate) body_size: u64,
}

impl Response {
    pub(crate) const fn new(request: Expectation) -> Self {
        Self {
            start: None,
            iterable: None,
            iterator: None,
            request,
            framing: None,
            persists: false,
            status: 0,
            body_size: 0,
        }
    }

    /// Sets the object that collects the head.
    pub(crate) fn set_start(&mut self, start: &Bound<'_, StartResponse>) {
        self.start = Some(start.clone().unbind());
    }

    /// Ends a response after an error of the application: with a 500 if nothing was sent.
    pub(crate) fn fail(
        &mut self,
        python: Python<'_>,
        date: &[u8],
        output: &mut SendBuffer,
    ) -> Turn {
        self.close(python);
        if self.framing.is_some() {
            return Turn::Truncated;
        }
        let size = BodySize::Known(ERROR_TEXT.len() as u64);
        self.write_given_head(&ResponseHead::server_error(), size, date, output);
        self.write(ERROR_TEXT, output);
        self.finish(output)
    }

    /// Begins with what the application has returned.
    ///
    /// # Errors
    /// The error of the application.
    pub(crate) fn begin(
        &mut self,
        returned: Bound<'_, PyAny>,
        date: &[u8],
        output: &mut SendBuffer,
    ) -> PyResult<Turn> {
        let python = returned.py();
        let written = self.take_written(python);
        if written.is_empty() {
            // Neither a list nor a tuple has a `close`.
            if let Some(size) = size_of(&returned) {
                self.write_head(python, BodySize::Known(size), date, output)?;
                for chunk in returned.try_iter()? {
                    self.write(chunk?.cast::<PyBytes>()?.as_bytes(), output);
                }
                return Ok(self.finish(output));
            }
        } else {
            self.write_head(python, BodySize::Unknown, date, output)?;
            self.write(&written, output);
        }
        let iterator = returned.try_iter();
        self.iterable = Some(returned.unbind());
        self.iterator = Some(iterator?.unbind());
        self.pull(python, date, output)
    }

    /// Writes the next part.
    ///
    /// # Errors
    /// The error of the application.
    pub(crate) fn pull(
        &mut self,
        python: Python<'_>,
        date: &[u8],
        output: &mut SendBuffer,
    ) -> PyResult<Turn> {
        let iterator = self.iterator.as_ref().map(|iterator| iterator.bind(python).clone());
        if let Some(chunk) = iterator.and_then(|mut iterator| iterator.next()) {
            let chunk = chunk?;
            let chunk = chunk.cast::<PyBytes>().map_err(|_| not_bytes(&chunk))?;
            let written = self.take_written(python);
            if written.is_empty() && chunk.as_bytes().is_empty() {
                return Ok(Turn::More);
            }
            if self.framing.is_none() {
                self.write_head(python, BodySize::Unknown, date, output)?;
            }
            self.write(&written, output);
            self.write(chunk.as_bytes(), output);
            if self.framing == Some(Framing::None) {
                // Nothing that follows would be sent, however long it is.
                return self.end(python, date, output);
            }
            // The application may take its time for the next one (PEP 3333, "Buffering and
            // Streaming").
            return Ok(Turn::More);
        }
        self.end(python, date, output)
    }

    fn end(&mut self, python: Python<'_>, date: &[u8], output: &mut SendBuffer) -> PyResult<Turn> {
        let written = self.take_written(python);
        if self.framing.is_none() {
            self.write_head(python, BodySize::Known(written.len() as u64), date, output)?;
        }
        self.write(&written, output);
        self.close(python);
        Ok(self.finish(output))
    }

    fn take_written(&self, python: Python<'_>) -> Vec<u8> {
        let start = self.start.as_ref().map(|start| start.borrow_mut(python));
        start.map(|mut start| start.take_written()).unwrap_or_default()
    }

    fn write_head(
        &mut self,
        python: Python<'_>,
        size: BodySize,
        date: &[u8],
        output: &mut SendBuffer,
    ) -> PyResult<()> {
        let head = self.start.as_ref().and_then(|start| start.borrow_mut(python).send_head());
        let Some(head) = head else {
            return Err(PyAssertionError::new_err("the application did not call start_response"));
        };
        self.write_given_head(&head, size, date, output);
        Ok(())
    }

    fn write_given_head(
        &mut self,
        head: &ResponseHead,
        size: BodySize,
        date: &[u8],
        output: &mut SendBuffer,
    ) {
        let plan = head.plan(self.request, size);
        head.write(plan, date, |part| output.append(part));
        self.framing = Some(plan.framing);
        (self.persists, self.status) = (plan.persists, head.status());
    }

    fn write(&mut self, bytes: &[u8], output: &mut SendBuffer) {
        if bytes.is_empty() {
            return;
        }
        let mut size = bytes.len();
        match &mut self.framing {
            None | Some(Framing::None) => return,
            Some(Framing::UntilClose) => output.append(bytes),
            Some(Framing::Chunked) => {
                output.append(format!("{size:x}\r\n").as_bytes());
                output.append(bytes);
                output.append(b"\r\n");
            }
            Some(Framing::Length(left)) => {
                // What exceeds the announced length would be read as another response.
                size = usize::try_from(*left).map_or(size, |left| left.min(size));
                *left -= size as u64;
                output.append(&bytes[..size]);
            }
        }
        self.body_size += size as u64;
    }

    fn finish(&self, output: &mut SendBuffer) -> Turn {
        match self.framing {
            // The client waits for the rest until the connection closes.
            Some(Framing::Length(1..)) => return Turn::Truncated,
            Some(Framing::Chunked) => output.append(b"0\r\n\r\n"),
            _ => {}
        }
        Turn::Done { persists: self.persists }
    }

    /// Calls the iterable's `close`, which the application relies on, also after an error.
    fn close(&mut self, python: Python<'_>) {
        self.iterator = None;
        let Some(iterable) = self.iterable.take() else { return };
        let close = iterable.bind(python).getattr_opt(pyo3::intern!(python, "close"));
        if let Err(error) = close.and_then(|close| close.map(|close| close.call0()).transpose()) {
            crate::log::report(python, &error, "in close()");
        }
    }
}

impl Drop for Response {
    fn drop(&mut self) {
        if self.iterable.is_some() {
            Python::attach(|python| self.close(python));
        }
    }
}

/// The size of a body that is complete: a list or a tuple of bytes.
fn size_of(returned: &Bound<'_, PyAny>) -> Option<u64> {
    let size = |chunk: &Bound<'_, PyAny>| {
        let bytes = chunk.cast_exact::<PyBytes>().ok();
        bytes.map(|bytes| bytes.as_bytes().len() as u64)
    };
    if let Ok(list) = returned.cast_exact::<PyList>() {
        return list.iter().map(|chunk| size(&chunk)).sum();
    }
    let tuple = returned.cast_exact::<PyTuple>().ok()?;
    tuple.iter().map(|chunk| size(&chunk)).sum()
}

fn not_bytes(chunk: &Bound<'_, PyAny>) -> PyErr {
    let class = chunk.get_type();
    let class = class.name().map_or_else(|_| "another type".to_owned(), |name| name.to_string());
    PyTypeError::new_err(format!("an application returns an iterable of bytes, not of {class}"))
}
