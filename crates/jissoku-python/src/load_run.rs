//! A measurement of the load generator in a thread of Python.

use std::io::Write as _;
use std::os::unix::net::UnixStream;

use pyo3::prelude::*;

/// One measurement, which another thread can end early. It leaves signals alone and prints nothing.
#[pyclass(frozen)]
#[derive(Debug)]
pub(crate) struct LoadRun {
    interrupt: UnixStream,
    /// A byte in it is the interruption.
    sender: UnixStream,
}

#[pymethods]
impl LoadRun {
    #[new]
    fn new() -> PyResult<Self> {
        let (sender, interrupt) = UnixStream::pair()?;
        Ok(Self { interrupt, sender })
    }

    /// Runs `jissoku load` with these arguments; Python's lock is free meanwhile. Returns the exit
    /// code, why it is not 0, and the report as JSON, which is empty if nothing was measured.
    #[expect(clippy::needless_pass_by_value, reason = "Python's list is converted to a vector")]
    fn run(&self, python: Python<'_>, arguments: Vec<String>) -> (u8, String, String) {
        let report = python.detach(|| jissoku_cli::load_report(&arguments, &self.interrupt));
        (report.exit_code, report.message, report.json)
    }

    /// Ends the measurement, or the next one.
    fn stop(&self) -> PyResult<()> {
        Ok((&self.sender).write_all(&[0])?)
    }
}
