//! The functions of bodies that a handler takes by parts, and what it keeps with a request.

use std::any::Any;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr::{self, NonNull};

use super::{Call, DONE, RawRequest, Release, ResumeFunction, Server, guard};

pub(super) type SetData =
    unsafe extern "C" fn(*mut RawRequest, *mut c_void, Option<Release>) -> c_int;
pub(super) type GetData = unsafe extern "C" fn(*mut RawRequest) -> *mut c_void;
pub(super) type PauseBody =
    unsafe extern "C" fn(*mut RawRequest, u32, Option<ResumeFunction>, *mut c_void) -> u64;
pub(super) type ResumeBody = unsafe extern "C" fn(u64) -> c_int;

/// What is kept with a request; `None` while it is used.
type Kept = Cell<Option<Box<dyn Any>>>;

unsafe extern "C" fn release_kept(kept: *mut c_void) {
    // SAFETY: `Call::kept_or_new` has made it of a box of this type, and the server passes it once.
    let kept = unsafe { Box::from_raw(kept.cast::<Kept>()) };
    guard(|| {
        drop(kept);
        DONE
    });
}

impl<'r> Call<'r> {
    /// What is kept with the request, if that has begun.
    fn kept(self) -> Option<&'r Kept> {
        let data = function!(self.server, data)?;
        // SAFETY: the request is there, and this is the thread of its worker.
        let kept = unsafe { data(self.request.as_ptr()) };
        // SAFETY: nothing else of this object keeps a pointer with a request, and it stays until the
        // request ends.
        NonNull::new(kept.cast::<Kept>()).map(|kept| unsafe { kept.as_ref() })
    }

    fn kept_or_new(self) -> Option<&'r Kept> {
        if let Some(kept) = self.kept() {
            return Some(kept);
        }
        let set_data = function!(self.server, set_data)?;
        let kept: Box<Kept> = Box::new(Cell::new(None));
        let (request, kept) = (self.request.as_ptr(), Box::into_raw(kept).cast());
        // SAFETY: the request is there, and `release_kept` is called once with the pointer.
        let _kept = unsafe { set_data(request, kept, Some(release_kept)) };
        self.kept()
    }

    /// Calls `function` with the value of this type that is kept with the request; with a new one if
    /// there is none. `None`: the server is older than what it keeps.
    pub(crate) fn with_kept<T: Default + 'static, R>(
        self,
        function: impl FnOnce(&mut T) -> R,
    ) -> Option<R> {
        let kept = self.kept_or_new()?;
        let found = kept.take().and_then(|value| value.downcast::<T>().ok());
        let mut value = found.unwrap_or_default();
        let result = function(&mut value);
        kept.set(Some(value));
        Some(result)
    }

    /// Takes the value that is kept with the request, if it is of this type.
    pub(crate) fn take_kept<T: 'static>(self) -> Option<T> {
        let kept = self.kept()?;
        match kept.take()?.downcast::<T>() {
            Ok(value) => Some(*value),
            Err(other) => {
                kept.set(Some(other));
                None
            }
        }
    }

    /// Has nothing more of the body received for up to `ms` milliseconds.
    pub(crate) fn pause_body(self, ms: u32) -> Option<PausedBody> {
        let pause = function!(self.server, pause_body)?;
        // SAFETY: the request is there, and there is no function that is called later.
        let token = unsafe { pause(self.request.as_ptr(), ms, None, ptr::null_mut()) };
        (token != 0).then_some(PausedBody { server: self.server, token })
    }
}

/// The way to go on with a body from any thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PausedBody {
    server: Server,
    token: u64,
}

impl PausedBody {
    pub(crate) fn resume(self) {
        if let Some(resume) = function!(self.server, resume_body) {
            // SAFETY: any thread may call it.
            let _done = unsafe { resume(self.token) };
        }
    }
}
