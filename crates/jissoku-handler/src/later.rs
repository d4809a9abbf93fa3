//! Responses that another thread gives later.

#![expect(clippy::disallowed_types, reason = "any thread responds, and the worker's ends requests")]

use std::collections::BTreeSet;
use std::ffi::c_void;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::ffi::{Call, Finish};
use crate::response::{InMemory, Response};

/// The numbers of the requests that wait for a response. The server calls `gone` for some of those that
/// end, and for those that are responded to it does not: a number needs no release.
static WAITING: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

/// The way to respond to a request later, from any thread; see [`Request::defer`].
///
/// If it is dropped without a response, as by a thread that panics, the client gets 500.
///
/// [`Request::defer`]: crate::Request::defer
#[derive(Debug)]
pub struct Later {
    finish: Finish,
    id: usize,
    is_answered: bool,
}

impl Later {
    /// Has the request of `call` wait for a response within `ms` milliseconds; `None` if it waits or is
    /// responded to already.
    pub(crate) fn of(call: Call<'_>, ms: u32) -> Option<Self> {
        static LAST: AtomicUsize = AtomicUsize::new(0);
        let id = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        waiting().insert(id);
        let finish = call.defer(ms, gone, id);
        if finish.is_none() {
            waiting().remove(&id);
        }
        finish.map(|finish| Self { finish, id, is_answered: false })
    }

    /// Responds with a copy of `body`. Returns whether the server takes the status, from 200 to 599;
    /// if it does not, the client gets 500.
    pub fn respond(mut self, status: u16, body: impl AsRef<[u8]>) -> bool {
        self.is_answered = self.finish.respond(status, body.as_ref());
        self.is_answered
    }

    /// Responds with a response whose body is in memory. Returns whether the server takes it; if it does
    /// not, the client gets 500.
    pub fn respond_with(mut self, response: &Response<'_>) -> bool {
        if let Some(InMemory { status, fields, body }) = response.in_memory() {
            self.is_answered = self.finish.respond_with(status, &fields, body);
        }
        self.is_answered
    }

    /// Responds with a response whose body is in memory, and is not copied if it is large and owned, or
    /// is a file. Returns as [`Later::respond_with`].
    pub fn send(mut self, response: Response<'_>) -> bool {
        self.is_answered = response.finish(self.finish);
        self.is_answered
    }

    /// Begins a response in parts, with the status and the fields of `response`, and `size` bytes if
    /// that is known. The limit of time is then that of each part. `None` if the server does not take
    /// it: the client gets 500.
    #[must_use]
    pub fn begin(mut self, response: &Response<'_>, size: Option<u64>) -> Option<Parts> {
        let InMemory { status, fields, .. } = response.in_memory()?;
        self.is_answered = self.finish.begin(status, &fields, size);
        self.is_answered.then_some(Parts { finish: self.finish })
    }

    /// Whether the client waits for the response: it has not left, and the time is not over.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        waiting().contains(&self.id)
    }
}

impl Drop for Later {
    fn drop(&mut self) {
        waiting().remove(&self.id);
        if !self.is_answered {
            let _done = self.finish.respond(500, b"Internal Server Error\n");
        }
    }
}

/// A response that a thread writes in parts. Without [`Parts::end`] it is incomplete, and the client sees
/// that.
#[derive(Debug)]
pub struct Parts {
    finish: Finish,
}

impl Parts {
    /// Ends the response.
    ///
    /// # Errors
    /// It is shorter than it says, or the client has left.
    pub fn end(self) -> io::Result<()> {
        if self.finish.end() { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    }
}

/// Each write is a part that is sent at once. It waits for a client that does not read.
impl io::Write for Parts {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        if self.finish.write(part) { Ok(part.len()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The request of this number has ended without its response.
extern "C" fn gone(id: *mut c_void) {
    waiting().remove(&id.addr());
}

fn waiting() -> MutexGuard<'static, BTreeSet<usize>> {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}
