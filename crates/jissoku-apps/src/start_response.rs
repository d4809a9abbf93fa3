//! `start_response` and `write` (PEP 3333, "The `start_response()` Callable").

use pyo3::exceptions::{PyAssertionError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple, PyType};

use crate::head::{HeadError, ResponseHead};
use crate::text::to_latin1;

/// The response that an application has announced. The application calls it with the status and
/// the headers.
#[pyclass(module = "jissoku")]
#[derive(Debug, Default)]
pub(crate) struct StartResponse {
    head: Option<ResponseHead>,
    /// Whether the head was sent, or something that follows it.
    is_sent: bool,
    /// What was passed to `write` and is not sent yet.
    written: Vec<u8>,
}

impl StartResponse {
    /// Takes the head to send it. From now on it cannot be replaced.
    pub(crate) fn send_head(&mut self) -> Option<ResponseHead> {
        self.is_sent |= self.head.is_some();
        self.head.take()
    }

    pub(crate) fn take_written(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.written)
    }

    const fn is_started(&self) -> bool {
        self.is_sent || self.head.is_some()
    }
}

#[pymethods]
impl StartResponse {
    #[pyo3(signature = (status, headers, exc_info=None))]
    fn __call__<'py>(
        this: &Bound<'py, Self>,
        status: &Bound<'py, PyAny>,
        headers: &Bound<'py, PyAny>,
        exc_info: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match exc_info {
            Some(fault) if this.borrow().is_sent => return Err(reraised(fault)?),
            None if this.borrow().is_started() => {
                return Err(PyAssertionError::new_err("start_response was called already"));
            }
            _ => {}
        }
        let head = read(status, headers)?;
        this.borrow_mut().head = Some(head);
        this.getattr(pyo3::intern!(this.py(), "write"))
    }

    /// Sends `data` after the head.
    #[pyo3(signature = (data, /))]
    fn write(&mut self, data: &Bound<'_, PyBytes>) {
        // The head goes before it, and cannot be replaced any more.
        self.is_sent = true;
        self.written.extend_from_slice(data.as_bytes());
    }
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
        let class = value
            .get_type()
            .name()
            .map_or_else(|_| "another type".to_owned(), |name| name.to_string());
        PyTypeError::new_err(format!("{what} has to be a str, not {class}"))
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
