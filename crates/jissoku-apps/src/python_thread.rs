//! Threads of Python's `threading`, which Python code can enumerate, and in which coverage, profilers
//! and debuggers find their functions installed (`threading.settrace`).

use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict};

#[expect(clippy::disallowed_types, reason = "a function of Python has to be Sync; called once")]
type Once<T> = std::sync::Mutex<Option<T>>;

/// Starts a `threading.Thread` that calls `run`, and returns it. The process can exit although it has
/// not ended.
///
/// # Errors
/// The exception of `threading`.
pub fn start(
    python: Python<'_>,
    name: &str,
    run: impl FnOnce(Python<'_>) + Send + 'static,
) -> PyResult<Py<PyAny>> {
    let run = Once::new(Some(run));
    let target = PyCFunction::new_closure(python, None, None, move |arguments, _| {
        let run = run.lock().ok().and_then(|mut run| run.take());
        if let Some(run) = run {
            run(arguments.py());
        }
    })?;
    let options = PyDict::new(python);
    options.set_item("target", target)?;
    options.set_item("name", name)?;
    options.set_item("daemon", true)?;
    let thread = python.import("threading")?.getattr("Thread")?.call((), Some(&options))?;
    thread.call_method0("start")?;
    Ok(thread.unbind())
}
