//! Errors of applications, on standard error with their traceback.

use pyo3::prelude::*;

/// Prints `error` and where it occurred.
pub(crate) fn report(python: Python<'_>, error: &PyErr, place: &str) {
    let line = format!("jissoku serve: error {place}\n");
    let stderr = python.import("sys").and_then(|sys| sys.getattr("stderr"));
    // The error is ignored: stderr may be closed, and the client gets a 500.
    let _written = stderr.and_then(|stderr| stderr.call_method1("write", (line,)));
    error.display(python);
}
