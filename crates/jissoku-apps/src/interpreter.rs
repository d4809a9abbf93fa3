//! Releases the interpreter's lock while a worker waits for events.

use pyo3::Python;
use pyo3::ffi::{self, PyThreadState};

/// Calls `wait`, which does not use the interpreter, while other threads may.
pub(crate) fn release_while(wait: &mut dyn FnMut()) {
    Python::attach(|python| {
        let _released = Released::new(python);
        wait();
    });
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
