//! Reads the messages that an application sends.

use pyo3::create_exception;
use pyo3::exceptions::{PyKeyError, PyOSError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

use crate::constant_headers::ConstantHeaders;
use crate::response_head::{HeadError, ResponseHead};
use crate::text::class_name;

create_exception!(jissoku, ClientDisconnected, PyOSError, "The client has disconnected.");

/// A message: a dictionary of the application.
pub(super) struct Message<'a, 'py>(&'a Bound<'py, PyDict>);

impl<'a, 'py> Message<'a, 'py> {
    pub(super) fn new(message: &'a Bound<'py, PyAny>) -> PyResult<Self> {
        let message = message.cast::<PyDict>().map_err(|_| {
            PyTypeError::new_err(format!("a message is a dict, not {}", class_name(message)))
        })?;
        Ok(Self(message))
    }

    /// Its `type`.
    pub(super) fn kind(&self) -> PyResult<Bound<'py, PyString>> {
        let kind = self.0.get_item(pyo3::intern!(self.0.py(), "type"))?;
        let kind = kind.ok_or_else(|| PyKeyError::new_err("a message has a type"))?;
        Ok(kind.cast_into::<PyString>()?)
    }

    /// A member, unless it is absent or `None`.
    pub(super) fn get(&self, name: &Bound<'py, PyString>) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.0.get_item(name)?.filter(|value| !value.is_none()))
    }

    /// A member that is a truth value; `False` if it is absent.
    pub(super) fn flag(&self, name: &Bound<'py, PyString>) -> PyResult<bool> {
        self.get(name)?.map_or(Ok(false), |value| value.is_truthy())
    }

    /// A member that is a byte string; also `bytearray` and `memoryview`, which other servers
    /// accept.
    pub(super) fn bytes(
        &self,
        name: &Bound<'py, PyString>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        self.get(name)?.map(|value| to_bytes(&value, &name.to_string_lossy())).transpose()
    }

    /// Passes each pair of a member that lists header fields to `add`.
    pub(super) fn fields(
        &self,
        name: &Bound<'py, PyString>,
        mut add: impl FnMut(&[u8], &[u8]) -> Result<(), HeadError>,
    ) -> PyResult<()> {
        let Some(fields) = self.get(name)? else { return Ok(()) };
        for field in fields.try_iter()? {
            let field = field?;
            if field.len()? != 2 {
                return Err(PyTypeError::new_err("a header is a name and a value"));
            }
            let name = to_bytes(&field.get_item(0)?, "the name of a header")?;
            let value = to_bytes(&field.get_item(1)?, "the value of a header")?;
            add(name.as_bytes(), value.as_bytes()).map_err(|error| refused(&error))?;
        }
        Ok(())
    }

    /// The head that a message with `headers` begins; `status_line` is the status with its reason.
    pub(super) fn head(&self, status_line: &str) -> PyResult<ResponseHead> {
        let mut head =
            ResponseHead::new(status_line.as_bytes()).map_err(|error| refused(&error))?;
        self.fields(pyo3::intern!(self.0.py(), "headers"), |name, value| head.add(name, value))?;
        Ok(head)
    }

    /// The member `headers`.
    pub(super) fn headers(&self) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.get(pyo3::intern!(self.0.py(), "headers"))
    }

    /// The member `status`.
    pub(super) fn status(&self) -> PyResult<Option<u16>> {
        let status = self.get(pyo3::intern!(self.0.py(), "status"))?;
        let status = status.map(|status| status.extract::<i64>()).transpose()?;
        let valid = |status| u16::try_from(status).ok().filter(|code| (200..600).contains(code));
        let refusal =
            |status| PyValueError::new_err(format!("invalid status {status}: from 200 to 599"));
        status.map(|status| valid(status).ok_or_else(|| refusal(status))).transpose()
    }
}

/// Reads the head that `headers` are a part of, if they have the exact built-in types, which runs no
/// Python code. `None` for other types and for invalid values.
pub(super) fn read_exact_types(
    status_line: &str,
    headers: Option<&Bound<'_, PyAny>>,
    head: &mut ResponseHead,
    constants: &mut ConstantHeaders,
) -> Option<()> {
    head.restart(status_line.as_bytes()).ok()?;
    let Some(headers) = headers else { return Some(()) };
    for pair in headers.cast_exact::<PyList>().ok()?.iter() {
        let pair = pair.cast_into_exact::<PyTuple>().ok()?;
        if let Some(line) = constants.line(&pair) {
            head.add_lines(line);
            continue;
        }
        if pair.len() != 2 {
            return None;
        }
        let (name, value) = (pair.get_borrowed_item(0).ok()?, pair.get_borrowed_item(1).ok()?);
        let (name, value) = (name.cast_exact::<PyBytes>(), value.cast_exact::<PyBytes>());
        let (Ok(name), Ok(value)) = (name, value) else { return None };
        let size = head.size();
        head.add(name.as_bytes(), value.as_bytes()).ok()?;
        constants.insert_if_constant(&pair, head.lines_since(size));
    }
    Some(())
}

/// The bytes of a value.
fn to_bytes<'py>(value: &Bound<'py, PyAny>, what: &str) -> PyResult<Bound<'py, PyBytes>> {
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(bytes.clone());
    }
    let class = class_name(value);
    if matches!(class.as_str(), "bytearray" | "memoryview") {
        let bytes = value.py().get_type::<PyBytes>().call1((value,))?;
        return Ok(bytes.cast_into::<PyBytes>()?);
    }
    Err(PyTypeError::new_err(format!("{what} has to be bytes, not {class}")))
}

pub(super) fn refused(error: &HeadError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// The error of a message that the state of the connection does not allow.
pub(super) fn unexpected(kind: &Bound<'_, PyString>, state: &str) -> PyErr {
    PyRuntimeError::new_err(format!("unexpected message {:?} {state}", kind.to_string_lossy()))
}
