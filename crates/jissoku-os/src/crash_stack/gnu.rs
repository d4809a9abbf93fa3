//! With the GNU C library, whose `backtrace(3)` a handler of signals may call once it was called
//! before.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use libc::{c_int, c_void};

use super::activity::noted;
use super::line::Line;
use crate::poll;

/// Signals of crashes.
const SIGNALS: [c_int; 5] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT];

/// The most frames that are written.
const FRAMES_MAX: usize = 64;

/// The stack of the handler: that of the thread may be what has ended.
const STACK_SIZE: usize = 128 * 1024;

/// How long a thread may take to write its stack.
const PATIENCE: Duration = Duration::from_secs(1);

/// The thread that has installed the handlers; 0 is none.
static THREAD: AtomicI32 = AtomicI32::new(0);

/// Has the stack of any thread written when it crashes, and remembers this one for [`abort_here`].
///
/// # Errors
/// The error of `sigaltstack(2)` or `sigaction(2)`.
pub fn install() -> io::Result<()> {
    // The first call loads what the others need.
    let mut frame = [ptr::null_mut(); 1];
    let _count = walk(&mut frame);
    use_other_stack()?;
    THREAD.store(this_thread(), Ordering::Relaxed);
    SIGNALS.into_iter().try_for_each(handle)
}

/// Ends the process with the stack of the thread that has called [`install`].
pub fn abort_here() -> ! {
    let thread = THREAD.load(Ordering::Relaxed);
    if thread != 0 && interrupt(thread) {
        // The signal ends the process.
        let _waited = poll::wait_readable(&[], Some(PATIENCE));
    }
    std::process::abort()
}

#[expect(unsafe_code, reason = "there is no safe wrapper")]
fn this_thread() -> libc::pid_t {
    // SAFETY: it needs nothing.
    unsafe { libc::gettid() }
}

/// Whether a thread of this process gets the signal: false for one that has ended, to which
/// `pthread_kill` may not be applied.
#[expect(unsafe_code, reason = "there is no safe wrapper")]
fn interrupt(thread: libc::pid_t) -> bool {
    let process = std::process::id().cast_signed();
    // SAFETY: it takes numbers only.
    unsafe { libc::tgkill(process, thread, libc::SIGABRT) == 0 }
}

/// The handler runs on memory of its own, which lives as long as the process.
#[expect(unsafe_code, reason = "there is no safe wrapper")]
fn use_other_stack() -> io::Result<()> {
    let memory: &'static mut [u8] = Box::leak(vec![0; STACK_SIZE].into_boxed_slice());
    let stack =
        libc::stack_t { ss_sp: memory.as_mut_ptr().cast(), ss_flags: 0, ss_size: memory.len() };
    // SAFETY: the memory is used by nothing else, and never freed.
    let result = unsafe { libc::sigaltstack(&raw const stack, ptr::null_mut()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[expect(unsafe_code, reason = "there is no safe wrapper")]
fn handle(signal: c_int) -> io::Result<()> {
    // SAFETY: all fields may be zero.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = on_signal as *const () as usize;
    // The default action follows when the handler has returned.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESETHAND | libc::SA_NODEFER;
    // SAFETY: the handler calls only what a handler may call.
    let result = unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Writes the stack. A signal that has interrupted an instruction is raised by it again; others are
/// raised here. One of another process interrupts whichever thread: it is passed on to the worker's.
#[expect(unsafe_code, reason = "there is no safe wrapper")]
extern "C" fn on_signal(signal: c_int, info: *const libc::siginfo_t, _: *const c_void) {
    // SAFETY: the kernel passes it with SA_SIGINFO.
    let is_of_process = unsafe { (*info).si_code } == libc::SI_USER;
    let thread = THREAD.load(Ordering::Relaxed);
    // The action was reset to the default one. `sigaction` may be called here, and `tgkill` is a system
    // call.
    if is_of_process && thread != this_thread() && handle(signal).is_ok() && interrupt(thread) {
        return;
    }
    let mut frames = [ptr::null_mut(); FRAMES_MAX];
    let count = walk(&mut frames);
    say_where(thread == this_thread());
    // SAFETY: this many frames are set; the function needs no memory.
    unsafe { libc::backtrace_symbols_fd(frames.as_ptr(), count, libc::STDERR_FILENO) };
    // SAFETY: the action is the default one now, which ends the process.
    unsafe { libc::raise(signal) };
}

/// Writes what precedes a stack, in one call, because the lines of several processes may mix.
fn say_where(is_worker: bool) {
    let mut line = Line::new();
    line.add(b"jissoku serve: the stack of a worker at its end, ");
    match is_worker.then(activity_of_this_thread).flatten() {
        Some(texts) => {
            line.add(b"in ");
            line.add_description(texts);
        }
        None if is_worker => line.add(b"outside of a request"),
        None => line.add(b"on another thread than that of its requests"),
    }
    line.add(b":\n");
    say(line.as_bytes());
}

/// What the thread of [`install`] does, of which this is a handler of signals.
#[expect(unsafe_code, reason = "the texts are read by their addresses")]
fn activity_of_this_thread<'a>() -> Option<[&'a [u8]; 2]> {
    // SAFETY: the caller is on that thread, in a handler of signals, and uses the texts there.
    unsafe { noted() }
}

#[expect(unsafe_code, reason = "there is no safe wrapper")]
fn walk(frames: &mut [*mut c_void]) -> c_int {
    let size = c_int::try_from(frames.len()).unwrap_or(0);
    // SAFETY: there is room for this many frames.
    unsafe { libc::backtrace(frames.as_mut_ptr(), size) }
}

#[expect(unsafe_code, reason = "`std` may lock what a crashed thread has locked")]
fn say(text: &[u8]) {
    // SAFETY: the pointer and the size are those of a slice.
    let _written = unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
}
