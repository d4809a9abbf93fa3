//! Errors of applications, on standard error with their traceback.

use pyo3::prelude::*;

/// Prints `error` and where it occurred.
pub(crate) fn report(python: Python<'_>, error: &PyErr, place: &str) {
    let line = format!("jissoku serve: error {place}\n");
    let stderr = python.import("sys").and_then(|sys| sys.getattr("stderr"));
    // Without a standard error the client still gets a 500.
    let _told = stderr.and_then(|stderr| stderr.call_method1("write", (line,)));
    error.display(python);
}
