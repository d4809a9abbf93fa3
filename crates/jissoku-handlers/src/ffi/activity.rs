//! What a worker does while it calls a handler, which the lines of a crash or a hang name.

use jissoku_os::crash_stack::Activity;

use crate::call::Call;

/// Calls `work`, which calls functions of a handler for this request and leaves its head as it is.
#[inline]
pub(crate) fn in_request<T>(call: &mut Call, work: impl FnOnce(&mut Call) -> T) -> T {
    // SAFETY: the head of a request is set when it begins, and stays where it is, on the heap, until
    // another one begins, which `work` does not do. A process has one thread that calls handlers, which
    // has installed the handlers of signals.
    let _noted = unsafe { Activity::begin([call.method(), call.target()]) };
    work(call)
}

/// Calls `work`, which calls a function of a handler outside of requests. Both have names.
pub(super) fn in_function<T>(function: &str, handler: &str, work: impl FnOnce() -> T) -> T {
    let of_handler = [function.as_bytes(), b" of ", handler.as_bytes()].concat();
    // SAFETY: the texts live until `work` has returned; the thread is as above.
    let _noted = unsafe { Activity::begin([&of_handler, b""]) };
    work()
}
