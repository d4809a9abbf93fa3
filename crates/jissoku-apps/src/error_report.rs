//! Reports of errors of the application with the request in which they have occurred.

use jissoku_http::date;
use jissoku_os::clock;
use pyo3::prelude::*;

use crate::interpreter;
use crate::request_name::Escaped;
use crate::response_head::Expectation;

/// Prints an error of the application, in which request it has occurred, and when.
pub(crate) fn report(python: Python<'_>, error: &PyErr, place: &str, request: &Expectation) {
    let now = date::imf_fixdate(clock::wall_ns() / 1_000_000_000);
    let now = str::from_utf8(&now).unwrap_or_default();
    let id = request.request_id.as_ref();
    let id = id.map(|line| format!(" ({})", Escaped(line.trim_ascii()))).unwrap_or_default();
    interpreter::report(python, error, &format!("{place}: {}{id}, {now}", request.name));
}
