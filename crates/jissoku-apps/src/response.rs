//! The response of an application: its iterable becomes framed bytes, a part at a time.

use std::ops::Range;
use std::sync::Arc;

use jissoku_http::Version;
use jissoku_os::clock;
use jissoku_os::driver::SendBuffer;
use jissoku_os::file::File;
use pyo3::exceptions::{PyAssertionError, PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyIterator, PyList, PyTuple};

use crate::file_wrapper::FileWrapper;
use crate::head::{BodySize, Expectation, Framing, ResponseHead};
use crate::start_response::{StartResponse, Starter};
use crate::text::class_name;

/// The body of a 500 after an error of the application.
const ERROR_TEXT: &[u8] = b"Internal Server Error\n";

/// How long an application may yield only empty parts.
const EMPTY_NS_MAX: u64 = 60 * 1_000_000_000;

/// The same while its client has shut down its side, which most do only when they leave.
const EMPTY_UNREAD_NS_MAX: u64 = 1_000_000_000;

/// The state of a response after a part of it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteOutcome {
    /// The response is complete.
    Done { persists: bool },
    /// More follows, and the part is sent before it is asked for.
    More,
    /// The response is incomplete: the output is sent, and then the connection is closed, so that
    /// the client detects it.
    Truncated,
}

/// A response that is being sent. Dropping it calls the iterable's `close`.
#[derive(Debug)]
pub(crate) struct Response {
    start: Option<Starter>,
    /// The return value of the application, until its `close` was called.
    iterable: Option<Py<PyAny>>,
    iterator: Option<Py<PyIterator>>,
    request: Expectation,
    /// The framing, once the head is sent.
    framing: Option<Framing>,
    persists: bool,
    /// Since when all parts were empty, if the last one was.
    empty_since_ns: Option<u64>,
    /// Since when the client is known to have shut down its side.
    client_shut_ns: Option<u64>,
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
            empty_since_ns: None,
            client_shut_ns: None,
            status: 0,
            body_size: 0,
        }
    }

    /// Sets the object that collects the head, and returns its method for the application.
    pub(crate) fn set_start<'py>(
        &mut self,
        python: Python<'py>,
        start: Starter,
    ) -> Bound<'py, PyAny> {
        self.start.insert(start).callable.bind(python).clone()
    }

    /// The object that collects the head, if interim responses may still precede it.
    pub(crate) fn hinted(&self, python: Python<'_>) -> Option<Py<StartResponse>> {
        let is_possible = self.request.version == Version::Http11 && self.framing.is_none();
        let start = self.start.as_ref().filter(|_| is_possible)?;
        Some(start.response.clone_ref(python))
    }

    /// Takes the object that has collected the head of a complete response.
    pub(crate) fn take_start(&mut self) -> Option<Starter> {
        self.start.take()
    }

    /// Ends a response after an error of the application: with a 500 if nothing was sent.
    pub(crate) fn fail(
        &mut self,
        python: Python<'_>,
        date: &[u8],
        output: &mut SendBuffer,
    ) -> WriteOutcome {
        self.close(python);
        if self.framing.is_some() {
            return WriteOutcome::Truncated;
        }
        let size = BodySize::Known(ERROR_TEXT.len() as u64);
        self.write_given_head(&ResponseHead::server_error(), size, date, output);
        self.write(ERROR_TEXT, output);
        self.finish(output)
    }

    /// Starts the response from the return value of the application.
    ///
    /// # Errors
    /// The error of the application.
    pub(crate) fn begin(
        &mut self,
        returned: Bound<'_, PyAny>,
        date: &[u8],
        output: &mut SendBuffer,
    ) -> PyResult<WriteOutcome> {
        let python = returned.py();
        let written = self.take_written(python);
        if written.is_empty() {
            // Neither a list nor a tuple has a `close`.
            if let Some(chunks) = Chunks::of(&returned) {
                self.write_head(python, BodySize::Known(chunks.size()), date, output)?;
                chunks.for_each(|chunk| self.write(chunk, output));
                return Ok(self.finish(output));
            }
            if let Ok(wrapper) = returned.cast_exact::<FileWrapper>()
                && let Some((file, range)) = wrapper.get().rest(python)
            {
                self.iterable = Some(returned.unbind());
                let size = BodySize::Known(range.end - range.start);
                self.write_head(python, size, date, output)?;
                self.write_file(file, range, output);
                // The range has a duplicate descriptor, so the application's can be closed before
                // it is sent.
                self.close(python);
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
    ) -> PyResult<WriteOutcome> {
        let iterator = self.iterator.as_ref().map(|iterator| iterator.bind(python).clone());
        if let Some(chunk) = iterator.and_then(|mut iterator| iterator.next()) {
            let chunk = chunk?;
            let chunk = chunk.cast::<PyBytes>().map_err(|_| not_bytes(&chunk))?;
            let written = self.take_written(python);
            if written.is_empty() && chunk.as_bytes().is_empty() {
                self.write_hints(python, output);
                return self.allow_empty(python);
            }
            self.empty_since_ns = None;
            if self.framing.is_none() {
                self.write_head(python, BodySize::Unknown, date, output)?;
            }
            self.write(&written, output);
            self.write(chunk.as_bytes(), output);
            if self.framing == Some(Framing::None) {
                // No further part would be sent, however many there are.
                return self.end(python, date, output);
            }
            // The part is sent before the next one is requested (PEP 3333, "Buffering and
            // Streaming").
            return Ok(WriteOutcome::More);
        }
        self.end(python, date, output)
    }

    /// The client has shut down its side. It may still read.
    pub(crate) fn set_client_shut(&mut self) {
        self.client_shut_ns.get_or_insert_with(clock::monotonic_ns);
    }

    /// Whether the last part was empty.
    pub(crate) const fn is_last_empty(&self) -> bool {
        self.empty_since_ns.is_some()
    }

    /// An empty part is allowed (PEP 3333, "Buffering and Streaming"), but nothing that is sent would
    /// show that its client has gone.
    fn allow_empty(&mut self, python: Python<'_>) -> PyResult<WriteOutcome> {
        let now_ns = clock::monotonic_ns();
        let since_ns = *self.empty_since_ns.get_or_insert(now_ns);
        let is_over = |since_ns: u64, ns_max| now_ns.saturating_sub(since_ns) >= ns_max;
        if self.client_shut_ns.is_some_and(|it| is_over(it.max(since_ns), EMPTY_UNREAD_NS_MAX)) {
            self.close(python);
            return Ok(WriteOutcome::Truncated);
        }
        if is_over(since_ns, EMPTY_NS_MAX) {
            let text = "the application has yielded only empty parts for a minute";
            return Err(PyRuntimeError::new_err(text));
        }
        Ok(WriteOutcome::More)
    }

    fn end(
        &mut self,
        python: Python<'_>,
        date: &[u8],
        output: &mut SendBuffer,
    ) -> PyResult<WriteOutcome> {
        let written = self.take_written(python);
        if self.framing.is_none() {
            self.write_head(python, BodySize::Known(written.len() as u64), date, output)?;
        }
        self.write(&written, output);
        self.close(python);
        Ok(self.finish(output))
    }

    fn take_written(&self, python: Python<'_>) -> Vec<u8> {
        let start = self.start.as_ref().map(|start| start.response.bind(python).borrow_mut());
        start.map(|mut start| start.take_written()).unwrap_or_default()
    }

    /// Writes interim responses, which are added before the head only.
    fn write_hints(&self, python: Python<'_>, output: &mut SendBuffer) {
        if let Some(start) = &self.start {
            output.append(&start.response.bind(python).borrow_mut().take_hints());
        }
    }

    fn write_head(
        &mut self,
        python: Python<'_>,
        size: BodySize,
        date: &[u8],
        output: &mut SendBuffer,
    ) -> PyResult<()> {
        self.write_hints(python, output);
        let refusal = || PyAssertionError::new_err("the application did not call start_response");
        let Some(start) = self.start.take() else { return Err(refusal()) };
        let written = match start.response.bind(python).borrow_mut().send_head() {
            Some(head) => {
                self.write_given_head(head, size, date, output);
                Ok(())
            }
            None => Err(refusal()),
        };
        self.start = Some(start);
        written
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
                // Bytes beyond Content-Length would be parsed as another response.
                size = usize::try_from(*left).map_or(size, |left| left.min(size));
                *left -= size as u64;
                output.append(&bytes[..size]);
            }
        }
        self.body_size += size as u64;
    }

    /// Appends a range of a file, whose size is that of the body in the head.
    fn write_file(&mut self, file: Arc<File>, range: Range<u64>, output: &mut SendBuffer) {
        let Some(Framing::Length(left)) = &mut self.framing else { return };
        let size = (*left).min(range.end - range.start);
        *left -= size;
        self.body_size += size;
        if size > 0 {
            output.file(file, range.start..range.start + size);
        }
    }

    fn finish(&self, output: &mut SendBuffer) -> WriteOutcome {
        match self.framing {
            // The client waits for the rest until the connection closes.
            Some(Framing::Length(1..)) => return WriteOutcome::Truncated,
            Some(Framing::Chunked) => output.append(b"0\r\n\r\n"),
            _ => {}
        }
        WriteOutcome::Done { persists: self.persists }
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

/// A body that is complete: a list or a tuple of bytes.
enum Chunks<'a, 'py> {
    One(Bound<'py, PyBytes>),
    List(&'a Bound<'py, PyList>),
    Tuple(&'a Bound<'py, PyTuple>),
}

impl<'a, 'py> Chunks<'a, 'py> {
    fn of(returned: &'a Bound<'py, PyAny>) -> Option<Self> {
        if let Ok(list) = returned.cast_exact::<PyList>() {
            if list.len() == 1 {
                return list.get_item(0).ok()?.cast_into_exact().ok().map(Self::One);
            }
            let is_bytes = list.iter().all(|chunk| chunk.is_exact_instance_of::<PyBytes>());
            return is_bytes.then_some(Self::List(list));
        }
        let tuple = returned.cast_exact::<PyTuple>().ok()?;
        let is_bytes = tuple.iter().all(|chunk| chunk.is_exact_instance_of::<PyBytes>());
        is_bytes.then_some(Self::Tuple(tuple))
    }

    fn size(&self) -> u64 {
        let mut size = 0;
        self.for_each(|chunk| size += chunk.len() as u64);
        size
    }

    fn for_each(&self, mut use_chunk: impl FnMut(&[u8])) {
        let mut use_any = |chunk: Bound<'_, PyAny>| {
            if let Ok(chunk) = chunk.cast_exact::<PyBytes>() {
                use_chunk(chunk.as_bytes());
            }
        };
        match self {
            Self::One(chunk) => use_chunk(chunk.as_bytes()),
            Self::List(list) => list.iter().for_each(&mut use_any),
            Self::Tuple(tuple) => tuple.iter().for_each(&mut use_any),
        }
    }
}

fn not_bytes(chunk: &Bound<'_, PyAny>) -> PyErr {
    let class = class_name(chunk);
    PyTypeError::new_err(format!("an application returns an iterable of bytes, not of {class}"))
}
