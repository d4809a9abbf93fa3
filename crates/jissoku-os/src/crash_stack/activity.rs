//! What the thread of `install` does, in two texts, such as the method and the target of a request.
//!
//! It is noted by the addresses of the texts, which takes a few stores, and read by a handler of
//! signals, which may interrupt the thread between any two of them.

use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering, compiler_fence};

/// Nothing is noted while the size of the first text is 0.
static FIRST: Text = Text::new();
static SECOND: Text = Text::new();

/// A text that is somewhere else.
struct Text {
    start: AtomicPtr<u8>,
    size: AtomicUsize,
}

impl Text {
    const fn new() -> Self {
        Self { start: AtomicPtr::new(ptr::null_mut()), size: AtomicUsize::new(0) }
    }
}

/// What the thread does from [`Activity::begin`] on, until this is dropped.
#[derive(Debug)]
pub struct Activity {
    /// It stays on its thread.
    _thread: PhantomData<*const ()>,
}

impl Activity {
    /// Notes what the thread does, in two texts of which the first is not empty. There is one at a
    /// time: another one takes the place of this, and after the end of either nothing is noted.
    ///
    /// # Safety
    /// The texts stay where they are, unchanged, until the result is dropped. In a process that has
    /// called `install`, this is called on the thread of that call.
    #[inline]
    #[expect(unsafe_code, reason = "a handler of signals reads the texts by their addresses")]
    pub unsafe fn begin([first, second]: [&[u8]; 2]) -> Self {
        note_nothing();
        FIRST.start.store(first.as_ptr().cast_mut(), Ordering::Relaxed);
        SECOND.start.store(second.as_ptr().cast_mut(), Ordering::Relaxed);
        SECOND.size.store(second.len(), Ordering::Relaxed);
        // The fences keep the compiler from moving stores; the thread itself sees its own in order.
        compiler_fence(Ordering::SeqCst);
        FIRST.size.store(first.len(), Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        Self { _thread: PhantomData }
    }
}

impl Drop for Activity {
    #[inline]
    fn drop(&mut self) {
        note_nothing();
    }
}

#[inline]
fn note_nothing() {
    FIRST.size.store(0, Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
}

/// What is noted, if something is.
///
/// # Safety
/// The thread is that of `install`, and the texts are used no longer than their [`Activity`] lives:
/// in a handler of signals, that interrupts it.
#[cfg(any(test, target_env = "gnu"))]
#[expect(unsafe_code, reason = "the texts are read by their addresses")]
pub(super) unsafe fn noted<'a>() -> Option<[&'a [u8]; 2]> {
    let size = FIRST.size.load(Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
    if size == 0 {
        return None;
    }
    let (start, other) =
        (FIRST.start.load(Ordering::Relaxed), SECOND.start.load(Ordering::Relaxed));
    // SAFETY: the address and the size are those of a text that lives as long as its `Activity`.
    let first = unsafe { std::slice::from_raw_parts(start, size) };
    // SAFETY: as above.
    let second = unsafe { std::slice::from_raw_parts(other, SECOND.size.load(Ordering::Relaxed)) };
    Some([first, second])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(unsafe_code, reason = "one test of this process notes something")]
    fn seen() -> Option<[&'static [u8]; 2]> {
        // SAFETY: the texts live for ever, and no other thread notes something.
        unsafe { noted() }
    }

    #[expect(unsafe_code, reason = "as above")]
    fn begin(texts: [&'static [u8]; 2]) -> Activity {
        // SAFETY: as above.
        unsafe { Activity::begin(texts) }
    }

    #[test]
    fn it_is_noted_until_it_ends() {
        assert_eq!(seen(), None);
        let activity = begin([b"GET", b"/a"]);
        assert_eq!(seen(), Some([&b"GET"[..], b"/a"]));
        drop(activity);
        assert_eq!(seen(), None);
        let outer = begin([b"GET", b"/b"]);
        let inner = begin([b"PUT", b""]);
        assert_eq!(seen(), Some([&b"PUT"[..], b""]));
        drop(inner);
        assert_eq!(seen(), None);
        drop(outer);
        assert_eq!(seen(), None);
    }
}
