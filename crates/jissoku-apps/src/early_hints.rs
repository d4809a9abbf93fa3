//! `wsgi.early_hints`: 103 responses ahead of the response (RFC 8297), under gunicorn's name for
//! it.

use std::fmt;
use std::thread::{self, ThreadId};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use crate::response_head::write_field;
use crate::start_response::{StartResponse, send_early};
use crate::text::to_latin1;

/// Sends a 103 at once.
pub(crate) type SendHint = Box<dyn Fn(&[u8]) + Send + Sync>;

/// The callable in an environ. All environs of a thread share one, which belongs to the response
/// that this thread is producing.
#[pyclass(module = "jissoku")]
#[derive(Default)]
pub(crate) struct EarlyHints {
    current: Option<(ThreadId, Py<StartResponse>)>,
    /// If it is `None`, hints are sent by this thread.
    send: Option<SendHint>,
}

impl fmt::Debug for EarlyHints {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("EarlyHints").field("current", &self.current).finish_non_exhaustive()
    }
}

impl EarlyHints {
    /// Sends all further hints at once, from the threads of an application.
    pub(crate) fn set_send(&mut self, send: SendHint) {
        self.send = Some(send);
    }

    /// This thread is producing `response` from now on; `None` for a response that can have no
    /// hints.
    pub(crate) fn set_current(&mut self, response: Option<Py<StartResponse>>) {
        self.current = response.map(|response| (thread::current().id(), response));
    }
}

#[pymethods]
impl EarlyHints {
    /// Has no effect after the response has started, for a client of HTTP/1.0, and in a thread that
    /// is not producing the response.
    #[pyo3(signature = (headers, /))]
    fn __call__(this: &Bound<'_, Self>, headers: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut lines = b"HTTP/1.1 103 Early Hints\r\n".to_vec();
        for header in headers.try_iter()? {
            let header = header?;
            let pair = header.cast::<PyTuple>()?;
            let (name, value): (Bound<'_, PyString>, Bound<'_, PyString>) = pair.extract()?;
            let invalid = || PyValueError::new_err("a header has a character that is not latin-1");
            let name = to_latin1(&name)?.ok_or_else(invalid)?;
            let value = to_latin1(&value)?.ok_or_else(invalid)?;
            write_field(&name, &value, &mut lines)
                .map_err(|error| PyValueError::new_err(error.to_string()))?;
        }
        lines.extend_from_slice(b"\r\n");
        let hints = this.borrow();
        let Some((thread, response)) = &hints.current else { return Ok(()) };
        let response = response.bind(this.py()).clone();
        if *thread != thread::current().id() || response.borrow().is_sent() {
            return Ok(());
        }
        if let Some(send) = &hints.send {
            send(&lines);
        } else {
            drop(hints);
            response.borrow_mut().add_hint(&lines);
            // In a part of the response, it is sent with the next one.
            send_early(&response, |_, _| ());
        }
        Ok(())
    }
}
