//! The response of an application: its iterable becomes framed bytes, a part at a time.

use jissoku_http::{Version, date};
use jissoku_os::clock;
use jissoku_os::driver::SendBuffer;
use pyo3::exceptions::{PyAssertionError, PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyIterator, PyList, PyTuple};

use crate::body_writer::{BodyWriter, WriteOutcome};
use crate::empty_parts::{AfterEmpty, EmptyParts};
use crate::file_wrapper::FileWrapper;
use crate::response_head::{BodySize, Expectation, Framing, ResponseHead};
use crate::sink::{LiveResponse, Sink};
use crate::start_response::{StartResponse, Starter};
use crate::text::class_name;

/// The body of a 500 after an error of the application.
const ERROR_TEXT: &[u8] = b"Internal Server Error\n";

/// A response that is being sent. Dropping it calls the iterable's `close`.
#[derive(Debug)]
pub(crate) struct Response {
    start: Option<Starter>,
    /// The return value of the application, until its `close` was called.
    iterable: Option<Py<PyAny>>,
    iterator: Option<Py<PyIterator>>,
    pub(crate) body: BodyWriter,
    /// The client has disconnected while the application was being called.
    is_disconnected: bool,
    empty: EmptyParts,
}

impl Response {
    pub(crate) fn new(request: Expectation) -> Self {
        Self {
            start: None,
            iterable: None,
            iterator: None,
            body: BodyWriter::new(request),
            is_disconnected: false,
            empty: EmptyParts::default(),
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

    /// From now on `write` sends to `sink`, until [`Response::take_sink`].
    pub(crate) fn set_sink(&self, python: Python<'_>, sink: Sink, date: &[u8; date::SIZE]) {
        if let Some(start) = &self.start {
            let live =
                LiveResponse { sink, body: self.body.clone(), date: *date, is_disconnected: false };
            start.response.bind(python).borrow_mut().set_live(live);
        }
    }

    /// The call of the application has ended.
    pub(crate) fn take_sink(&mut self, python: Python<'_>) -> Option<Sink> {
        let start = self.start.as_ref()?.response.bind(python);
        let live = start.borrow_mut().take_live()?;
        (self.body, self.is_disconnected) = (live.body, live.is_disconnected);
        Some(live.sink)
    }

    /// The object that collects the head, if interim responses may still precede it.
    pub(crate) fn hinted(&self, python: Python<'_>) -> Option<Py<StartResponse>> {
        let is_possible =
            self.body.request.version == Version::Http11 && self.body.framing.is_none();
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
        date: &[u8; date::SIZE],
        output: &mut SendBuffer,
    ) -> WriteOutcome {
        self.close(python);
        if self.body.framing.is_some() {
            return WriteOutcome::Truncated;
        }
        let size = BodySize::Known(ERROR_TEXT.len() as u64);
        self.body.write_head(&ResponseHead::server_error(), size, date, output);
        self.body.write(ERROR_TEXT, output);
        self.body.finish(output)
    }

    /// Starts the response from the return value of the application.
    ///
    /// # Errors
    /// The error of the application.
    pub(crate) fn begin(
        &mut self,
        returned: Bound<'_, PyAny>,
        date: &[u8; date::SIZE],
        output: &mut SendBuffer,
    ) -> PyResult<WriteOutcome> {
        let python = returned.py();
        if self.is_disconnected {
            self.iterable = Some(returned.unbind());
            self.close(python);
            return Ok(WriteOutcome::Truncated);
        }
        let written = self.take_written(python);
        if written.is_empty() && self.body.framing.is_none() {
            // Neither a list nor a tuple has a `close`.
            if let Some(chunks) = Chunks::of(&returned) {
                self.write_head(python, BodySize::Known(chunks.size()), date, output)?;
                chunks.for_each(|chunk| self.body.write(chunk, output));
                return Ok(self.body.finish(output));
            }
            if let Ok(wrapper) = returned.cast_exact::<FileWrapper>()
                && let Some((file, range)) = wrapper.get().rest(python)
            {
                self.iterable = Some(returned.unbind());
                let size = BodySize::Known(range.end - range.start);
                self.write_head(python, size, date, output)?;
                self.body.write_file(file, range, output);
                // The range has a duplicate descriptor, so the application's can be closed before
                // it is sent.
                self.close(python);
                return Ok(self.body.finish(output));
            }
        } else {
            if self.body.framing.is_none() {
                self.write_head(python, BodySize::Unknown, date, output)?;
            }
            self.body.write(&written, output);
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
        date: &[u8; date::SIZE],
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
            self.empty.end();
            if self.body.framing.is_none() {
                self.write_head(python, BodySize::Unknown, date, output)?;
            }
            self.body.write(&written, output);
            self.body.write(chunk.as_bytes(), output);
            if self.body.framing == Some(Framing::None) {
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
        self.empty.set_client_shut(clock::monotonic_ns());
    }

    /// Whether the last part was empty.
    pub(crate) const fn is_last_empty(&self) -> bool {
        self.empty.is_last_empty()
    }

    fn allow_empty(&mut self, python: Python<'_>) -> PyResult<WriteOutcome> {
        match self.empty.add(clock::monotonic_ns()) {
            AfterEmpty::Continue => Ok(WriteOutcome::More),
            AfterEmpty::ClientGone => {
                self.close(python);
                Ok(WriteOutcome::Truncated)
            }
            AfterEmpty::TooLong => {
                let text = "the application has yielded only empty parts for a minute";
                Err(PyRuntimeError::new_err(text))
            }
        }
    }

    fn end(
        &mut self,
        python: Python<'_>,
        date: &[u8; date::SIZE],
        output: &mut SendBuffer,
    ) -> PyResult<WriteOutcome> {
        let written = self.take_written(python);
        if self.body.framing.is_none() {
            self.write_head(python, BodySize::Known(written.len() as u64), date, output)?;
        }
        self.body.write(&written, output);
        self.close(python);
        Ok(self.body.finish(output))
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
        date: &[u8; date::SIZE],
        output: &mut SendBuffer,
    ) -> PyResult<()> {
        self.write_hints(python, output);
        let refusal = || PyAssertionError::new_err("the application did not call start_response");
        let Some(start) = self.start.take() else { return Err(refusal()) };
        let written = match start.response.bind(python).borrow_mut().send_head() {
            Some(head) => {
                self.body.write_head(head, size, date, output);
                Ok(())
            }
            None => Err(refusal()),
        };
        self.start = Some(start);
        written
    }

    /// Calls the iterable's `close`, which the application relies on, also after an error.
    fn close(&mut self, python: Python<'_>) {
        self.iterator = None;
        let Some(iterable) = self.iterable.take() else { return };
        let close = iterable.bind(python).getattr_opt(pyo3::intern!(python, "close"));
        if let Err(error) = close.and_then(|close| close.map(|close| close.call0()).transpose()) {
            self.body.request.report(python, &error, "in close()");
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
