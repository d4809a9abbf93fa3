//! Handlers of signals that a server shares with an application in its process.
//!
//! The application may have installed a handler before, or install one later, which replaces that of
//! the server. [`share`] installs one that calls both. A forked child that executes no other program
//! inherits it, too: there only that of the application is called, because the sockets that the
//! server's handler writes to are those of the parent.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};

use libc::{c_int, c_void, sighandler_t, siginfo_t};

/// One more than the largest number of a signal.
const SIGNALS: usize = 65;

type WithInfo = unsafe extern "C" fn(c_int, *mut siginfo_t, *mut c_void);
type Plain = unsafe extern "C" fn(c_int);

/// A handler, or one of `SIG_DFL` and `SIG_IGN`.
#[derive(Clone, Copy, Debug)]
struct Action {
    handler: sighandler_t,
    /// Whether it takes three arguments (`SA_SIGINFO`).
    has_info: bool,
}

/// What is called for one signal.
struct Handlers {
    server: OnceLock<Action>,
    /// The application's: read by a handler of signals, so without a lock.
    other: AtomicUsize,
    other_has_info: AtomicBool,
    /// A handler may raise its own signal, as `faulthandler` does to call the one before it.
    is_running: AtomicBool,
}

static HANDLERS: [Handlers; SIGNALS] = [const {
    Handlers {
        server: OnceLock::new(),
        other: AtomicUsize::new(libc::SIG_DFL),
        other_has_info: AtomicBool::new(false),
        is_running: AtomicBool::new(false),
    }
}; SIGNALS];

/// The process whose handlers these are.
static OWNER: AtomicI32 = AtomicI32::new(0);

/// Removes and remembers the handler of the application, before the server registers its own.
pub(super) fn set_aside(signal: i32) -> io::Result<()> {
    OWNER.store(this_process(), Ordering::Relaxed);
    let default = Action { handler: libc::SIG_DFL, has_info: false };
    let before = replace(signal, default)?;
    if !is_ours(before) {
        remember(signal, before);
    }
    Ok(())
}

/// After the server has registered its handler: has both called.
pub(super) fn begin(signal: i32) -> io::Result<()> {
    let registered = replace(signal, Action { handler: ours(), has_info: true })?;
    if !is_ours(registered)
        && let Some(handlers) = handlers_of(signal)
    {
        // A second registration is known to the first.
        let _first = handlers.server.set(registered);
    }
    Ok(())
}

/// Has both handlers called again, if the application has installed one since.
///
/// # Errors
/// The error of `sigaction(2)`.
pub(super) fn share(signal: i32) -> io::Result<()> {
    let now = replace(signal, Action { handler: ours(), has_info: true })?;
    if !is_ours(now) {
        remember(signal, now);
    }
    Ok(())
}

fn remember(signal: i32, action: Action) {
    if let Some(handlers) = handlers_of(signal) {
        handlers.other.store(libc::SIG_DFL, Ordering::Relaxed);
        handlers.other_has_info.store(action.has_info, Ordering::Relaxed);
        handlers.other.store(action.handler, Ordering::Release);
    }
}

fn handlers_of(signal: i32) -> Option<&'static Handlers> {
    HANDLERS.get(usize::try_from(signal).ok()?)
}

fn ours() -> sighandler_t {
    call_both as *const () as sighandler_t
}

fn is_ours(action: Action) -> bool {
    action.handler == ours()
}

fn this_process() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// Installs `action`, without `SA_RESTART`: an interpreter calls the application's function when a
/// system call was interrupted. Returns the action before.
#[expect(unsafe_code, reason = "there is no safe function for a handler in C")]
fn replace(signal: i32, action: Action) -> io::Result<Action> {
    // SAFETY: all bits 0 are a valid `sigaction`, with an empty mask.
    let mut new: libc::sigaction = unsafe { std::mem::zeroed() };
    new.sa_sigaction = action.handler;
    new.sa_flags = if action.has_info { libc::SA_SIGINFO } else { 0 };
    // A handler may raise its own signal to call the one before it.
    new.sa_flags |= libc::SA_ONSTACK | libc::SA_NODEFER;
    // SAFETY: as above.
    let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: both structures live during the call, and the handler calls nothing that a handler must
    // not call.
    if unsafe { libc::sigaction(signal, &raw const new, &raw mut before) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let has_info = before.sa_flags & libc::SA_SIGINFO != 0;
    Ok(Action { handler: before.sa_sigaction, has_info })
}

/// The handler. It calls only what may be called in a handler.
extern "C" fn call_both(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let Some(handlers) = handlers_of(signal) else { return };
    let is_child = OWNER.load(Ordering::Relaxed) != this_process();
    if !is_child && let Some(server) = handlers.server.get() {
        call(*server, signal, (info, context));
    }
    if handlers.is_running.swap(true, Ordering::Acquire) {
        return;
    }
    let handler = handlers.other.load(Ordering::Acquire);
    let has_info = handlers.other_has_info.load(Ordering::Relaxed);
    match handler {
        libc::SIG_DFL if is_child => end_by(signal),
        libc::SIG_DFL | libc::SIG_IGN => {}
        handler => call(Action { handler, has_info }, signal, (info, context)),
    }
    handlers.is_running.store(false, Ordering::Release);
}

#[expect(unsafe_code, reason = "handlers are functions of C")]
fn call(action: Action, signal: c_int, (info, context): (*mut siginfo_t, *mut c_void)) {
    if action.handler == libc::SIG_DFL || action.handler == libc::SIG_IGN {
        return;
    }
    if action.has_info {
        // SAFETY: `sigaction` has returned it as a handler with three arguments (`SA_SIGINFO`).
        let handler = unsafe { std::mem::transmute::<sighandler_t, WithInfo>(action.handler) };
        // SAFETY: the arguments are those of this call of a handler for the same signal.
        unsafe { handler(signal, info, context) };
    } else {
        // SAFETY: `sigaction` has returned it as a handler with one argument.
        let handler = unsafe { std::mem::transmute::<sighandler_t, Plain>(action.handler) };
        // SAFETY: it is called in a handler for the same signal.
        unsafe { handler(signal) };
    }
}

/// The default action, which ends this process.
#[expect(unsafe_code, reason = "there are no safe functions for handlers")]
fn end_by(signal: c_int) {
    // SAFETY: `SIG_DFL` is no function of ours.
    let _ours = unsafe { libc::signal(signal, libc::SIG_DFL) };
    // SAFETY: it has no precondition; the signal is delivered when this handler returns or before.
    let _raised = unsafe { libc::raise(signal) };
}

#[cfg(test)]
#[expect(unsafe_code, reason = "an application installs its handlers by functions of C")]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::signal::Signals;

    static CALLS: AtomicUsize = AtomicUsize::new(0);

    extern "C" fn of_application(_signal: c_int) {
        CALLS.fetch_add(1, Ordering::Relaxed);
    }

    fn install_for_application(signal: i32) {
        // SAFETY: the function only adds to a counter.
        unsafe { libc::signal(signal, of_application as *const () as sighandler_t) };
    }

    fn raise(signal: i32) {
        // SAFETY: it has no precondition, and the signal has a handler.
        assert_eq!(unsafe { libc::raise(signal) }, 0);
    }

    #[test]
    fn handlers_of_an_application_are_called_beside_that_of_the_server() {
        // A signal that nothing else in these tests uses.
        let signal = libc::SIGWINCH;
        install_for_application(signal);
        let mut signals = Signals::register_shared(&[signal]).expect("it can be registered");
        raise(signal);
        assert_eq!((signals.count(), CALLS.swap(0, Ordering::Relaxed)), (1, 1), "before");
        install_for_application(signal);
        raise(signal);
        assert_eq!((signals.count(), CALLS.swap(0, Ordering::Relaxed)), (0, 1), "in its place");
        signals.share().expect("it can be installed");
        raise(signal);
        assert_eq!((signals.count(), CALLS.swap(0, Ordering::Relaxed)), (1, 1), "beside");
        signals.share().expect("it can be installed");
        raise(signal);
        assert_eq!((signals.count(), CALLS.swap(0, Ordering::Relaxed)), (1, 1), "once each");
    }

    #[test]
    fn a_forked_child_has_the_default_action_and_does_not_notify_its_parent() {
        let signal = libc::SIGXFSZ;
        let mut signals = Signals::register_shared(&[signal]).expect("it can be registered");
        // SAFETY: the child calls nothing but what a handler may call.
        let child = unsafe { libc::fork() };
        if child == 0 {
            raise(signal);
            // SAFETY: it has no precondition.
            unsafe { libc::_exit(0) };
        }
        let mut status = 0;
        // SAFETY: the pointer is that of a local variable.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFSIGNALED(status), "it is ended by its signal");
        assert_eq!(libc::WTERMSIG(status), signal);
        assert_eq!(signals.count(), 0);
    }
}
