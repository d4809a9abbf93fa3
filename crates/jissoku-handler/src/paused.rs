//! A body of which nothing more is received for now.

use crate::ffi::Call;
use crate::ffi::body::PausedBody;

/// A body of which nothing more is received until this is dropped, by any thread; see
/// [`Request::pause`](crate::Request::pause).
#[derive(Debug)]
pub struct Paused(PausedBody);

impl Paused {
    /// `None` if the body of `call` cannot be paused.
    pub(crate) fn of(call: Call<'_>, ms: u32) -> Option<Self> {
        call.pause_body(ms).map(Self)
    }

    /// Goes on with the body.
    pub fn resume(self) {
        drop(self);
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        self.0.resume();
    }
}
