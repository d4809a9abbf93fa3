//! The return values of `receive` and `send`. They behave as coroutines, so that
//! `asyncio.create_task` accepts them, but are created without a frame.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use pyo3::types::PyIterator;

/// A `send` that is done.
#[pyclass(module = "jissoku", frozen)]
#[derive(Debug)]
pub(super) struct Done;

#[pymethods]
impl Done {
    fn __await__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    #[expect(clippy::unused_self, reason = "an iterator has this method")]
    const fn __next__(&self) -> Option<()> {
        None
    }

    #[expect(clippy::unused_self, reason = "a coroutine has this method")]
    fn send(&self, _value: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(PyStopIteration::new_err(()))
    }

    #[expect(clippy::unused_self, reason = "a coroutine has this method")]
    #[pyo3(signature = (kind, value=None, _traceback=None))]
    fn throw(
        &self,
        kind: &Bound<'_, PyAny>,
        value: Option<&Bound<'_, PyAny>>,
        _traceback: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        Err(thrown(kind, value))
    }

    #[expect(clippy::unused_self, reason = "a coroutine has this method")]
    const fn close(&self) {}
}

/// A source of results that may not be available yet.
pub(super) trait Source: Send + Sync {
    /// The result, or a future that is to be awaited before the next call.
    fn poll(&self, python: Python<'_>) -> PyResult<Poll>;

    /// `future` is not awaited any more: its task was cancelled, or has ended.
    fn forget(&self, python: Python<'_>, future: &Py<PyAny>);
}

/// The state of a [`Source`].
#[derive(Debug)]
pub(super) enum Poll {
    Ready(Py<PyAny>),
    Pending(Py<PyAny>),
    /// Other tasks run before the next call.
    Yield,
}

/// A result that is there once other tasks have run.
#[derive(Debug, Default)]
pub(super) struct Pause(AtomicBool);

impl Source for Pause {
    fn poll(&self, python: Python<'_>) -> PyResult<Poll> {
        let is_over = self.0.swap(true, Ordering::Relaxed);
        Ok(if is_over { Poll::Ready(python.None()) } else { Poll::Yield })
    }

    fn forget(&self, _python: Python<'_>, _future: &Py<PyAny>) {}
}

/// A `receive`, or a `send` that waits until the client has read enough.
#[pyclass(module = "jissoku")]
pub(super) struct Waiting {
    source: Box<dyn Source>,
    /// The future that is awaited, and its iterator.
    awaited: Option<(Py<PyAny>, Py<PyIterator>)>,
}

impl Waiting {
    pub(super) fn new(source: impl Source + 'static) -> Self {
        Self { source: Box::new(source), awaited: None }
    }

    fn next(&mut self, python: Python<'_>) -> PyResult<Py<PyAny>> {
        loop {
            if let Some((_, iterator)) = &self.awaited {
                if let Some(yielded) = iterator.bind(python).clone().next() {
                    return yielded.map(Bound::unbind);
                }
                self.awaited = None;
            }
            match self.source.poll(python)? {
                Poll::Ready(result) => return Err(PyStopIteration::new_err((result,))),
                Poll::Yield => return Ok(python.None()),
                Poll::Pending(future) => {
                    let iterator =
                        future.call_method0(python, pyo3::intern!(python, "__await__"))?;
                    let iterator = iterator.bind(python).cast::<PyIterator>()?.clone().unbind();
                    self.awaited = Some((future, iterator));
                }
            }
        }
    }

    /// An application may give up as often as it likes: `await request.is_disconnected()` does.
    fn abandon(&mut self, python: Python<'_>) {
        if let Some((future, _)) = self.awaited.take() {
            self.source.forget(python, &future);
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.awaited.is_some() {
            Python::attach(|python| self.abandon(python));
        }
    }
}

#[pymethods]
impl Waiting {
    fn __await__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&mut self, python: Python<'_>) -> PyResult<Py<PyAny>> {
        self.next(python)
    }

    fn send(&mut self, python: Python<'_>, _value: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.next(python)
    }

    #[pyo3(signature = (kind, value=None, _traceback=None))]
    fn throw(
        &mut self,
        kind: &Bound<'_, PyAny>,
        value: Option<&Bound<'_, PyAny>>,
        _traceback: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        self.abandon(kind.py());
        Err(thrown(kind, value))
    }

    fn close(&mut self, python: Python<'_>) {
        self.abandon(python);
    }
}

/// The exception that the arguments of `throw` denote.
fn thrown(kind: &Bound<'_, PyAny>, value: Option<&Bound<'_, PyAny>>) -> PyErr {
    match value {
        Some(value) if !value.is_none() => PyErr::from_value(value.clone()),
        // A class is instantiated.
        _ => PyErr::from_value(kind.clone()),
    }
}
