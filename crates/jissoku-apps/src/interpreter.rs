//! Operations that pyo3 has no safe function for: releasing the interpreter's lock while a worker
//! waits for events, counting references, the version of a dictionary, and decoding latin-1.

use std::ptr;
use std::sync::OnceLock;

use jissoku_os::signal;
use pyo3::exceptions::{PyKeyboardInterrupt, PySystemExit};
use pyo3::ffi::{self, PyThreadState};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

/// Calls `wait`, which does not use the interpreter, while other threads may. Signals end the wait;
/// the application's functions for them are called afterwards.
pub(crate) fn release_while(wait: &mut dyn FnMut()) {
    Python::attach(|python| {
        let released = Released::new(python);
        wait();
        drop(released);
        call_signal_handlers(python);
    });
}

/// Calls the application's functions for signals that have arrived, if this is the main thread.
pub fn check_signals() {
    Python::attach(call_signal_handlers);
}

/// What such a function raises is raised by no request, so it is reported. With `sys.exit` it ends
/// the server, as SIGTERM does.
pub(crate) fn call_signal_handlers(python: Python<'_>) {
    let Err(error) = python.check_signals() else { return };
    report(python, &error, "in a signal handler of the application");
    let ends = error.is_instance_of::<PySystemExit>(python)
        || error.is_instance_of::<PyKeyboardInterrupt>(python);
    if ends {
        signal::stop_this_process();
    }
}

/// Reacquires the lock when dropped, also after a panic.
struct Released(*mut PyThreadState);

impl Released {
    #[expect(unsafe_code, reason = "`Python::detach` takes no closure with events of epoll in it")]
    fn new(_attached: Python<'_>) -> Self {
        // SAFETY: the thread is attached, as the token proves, and is attached again by `drop`
        // before the token can be used.
        Self(unsafe { ffi::PyEval_SaveThread() })
    }
}

impl Drop for Released {
    #[expect(unsafe_code, reason = "see `Released::new`")]
    fn drop(&mut self) {
        // SAFETY: the state is that of this thread, released by `new`, and restored once.
        unsafe { ffi::PyEval_RestoreThread(self.0) };
    }
}

/// The number of references to `object`, with that of the caller.
#[expect(unsafe_code, reason = "the safe method is deprecated in favour of this function")]
pub(crate) fn references(object: &Bound<'_, PyAny>) -> isize {
    // SAFETY: the thread is attached and the object is alive, as `Bound` proves.
    unsafe { ffi::Py_REFCNT(object.as_ptr()) }
}

/// The version of a dictionary, which is another one after every change (PEP 509). `None` from
/// Python 3.14 on.
#[cfg(not(Py_3_14))]
#[cfg_attr(Py_3_12, expect(deprecated, reason = "it is there until Python 3.14"))]
#[expect(clippy::unnecessary_wraps, reason = "later versions have none")]
#[expect(unsafe_code, reason = "no function returns it")]
pub(crate) fn version(dict: &Bound<'_, PyDict>) -> Option<u64> {
    // SAFETY: the object is alive, and a dictionary, as `Bound` proves.
    Some(unsafe { (*dict.as_ptr().cast::<ffi::PyDictObject>()).ma_version_tag })
}

#[cfg(Py_3_14)]
pub(crate) const fn version(_dict: &Bound<'_, PyDict>) -> Option<u64> {
    None
}

/// The string whose code points are `bytes`.
#[expect(unsafe_code, reason = "pyo3 decodes UTF-8 only, which takes two more passes")]
pub(crate) fn decode_latin1<'py>(python: Python<'py>, bytes: &[u8]) -> Bound<'py, PyString> {
    let size = ffi::Py_ssize_t::try_from(bytes.len()).unwrap_or(ffi::Py_ssize_t::MAX);
    // SAFETY: the pointer and the size are those of a slice, whose size is at most `isize::MAX`.
    let decoded = unsafe { ffi::PyUnicode_DecodeLatin1(bytes.as_ptr().cast(), size, ptr::null()) };
    // SAFETY: the function returns a new reference, or null if memory is exhausted.
    let decoded = unsafe { Bound::from_owned_ptr_or_opt(python, decoded) };
    let decoded = decoded.and_then(|decoded| decoded.cast_into_exact().ok());
    decoded.unwrap_or_else(|| {
        let _exhausted = PyErr::take(python);
        PyString::new(python, "")
    })
}

/// The verb of the process, as it was typed.
static VERB: OnceLock<&'static str> = OnceLock::new();

/// Has every line to standard error begin with this verb after the program's name.
pub fn name_verb(verb: &'static str) {
    VERB.get_or_init(|| verb);
}

pub(crate) fn verb() -> &'static str {
    VERB.get().copied().unwrap_or("serve")
}

/// Prints `error` and where it occurred.
pub(crate) fn report(python: Python<'_>, error: &PyErr, place: &str) {
    let line = format!("jissoku {}: error {place}\n", verb());
    let stderr = python.import("sys").and_then(|sys| sys.getattr("stderr"));
    // The error is ignored: stderr may be closed, and the client gets a 500.
    let _written = stderr.and_then(|stderr| stderr.call_method1("write", (line,)));
    error.display(python);
}
