//! The extension module through which Python runs the native commands. The only crate that knows Python.

use pyo3::prelude::*;

/// Runs `jissoku serve|load|floor …` and returns its exit code; Python's lock is free meanwhile.
#[pyfunction]
fn run(python: Python<'_>, arguments: Vec<String>) -> u8 {
    python.detach(|| jissoku_cli::run(arguments))
}

/// The native half of jissoku.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("__build__", env!("JISSOKU_BUILD"))?;
    module.add_function(wrap_pyfunction!(run, module)?)
}
