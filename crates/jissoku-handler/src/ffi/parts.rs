//! The functions of files, of responses in parts, and of those that a thread gives with fields.

use std::ffi::{CString, c_char, c_int, c_void};
use std::fs::File;
use std::os::fd::IntoRawFd;

use super::{
    Call, DONE, Finish, RawRequest, Release, Resume, ResumeFunction, StableBytes, Str, release,
    resume_once,
};

/// `jsk_field`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    name: *const c_char,
    value: *const c_char,
}

pub(super) type SendFile = unsafe extern "C" fn(*mut RawRequest, c_int, c_int, u64, u64) -> c_int;
pub(super) type FinishWith =
    unsafe extern "C" fn(u64, c_int, *const Field, usize, *const c_void, usize) -> c_int;
pub(super) type FinishOwned = unsafe extern "C" fn(
    u64,
    c_int,
    *const Field,
    usize,
    Str,
    Option<Release>,
    *mut c_void,
) -> c_int;
pub(super) type FinishFile =
    unsafe extern "C" fn(u64, c_int, *const Field, usize, c_int, u64, u64) -> c_int;
pub(super) type Begin = unsafe extern "C" fn(*mut RawRequest, c_int, u64) -> c_int;
pub(super) type Write = unsafe extern "C" fn(*mut RawRequest, *const c_void, usize) -> c_int;
pub(super) type WhenSent =
    unsafe extern "C" fn(*mut RawRequest, ResumeFunction, *mut c_void) -> c_int;
pub(super) type End = unsafe extern "C" fn(*mut RawRequest) -> c_int;
pub(super) type BeginLater = unsafe extern "C" fn(u64, c_int, *const Field, usize, u64) -> c_int;
pub(super) type WriteLater = unsafe extern "C" fn(u64, *const c_void, usize) -> c_int;
pub(super) type EndLater = unsafe extern "C" fn(u64) -> c_int;

/// `JSK_REST` and `JSK_UNKNOWN`.
const ALL: u64 = u64::MAX;

impl Call<'_> {
    /// Responds with `size` bytes of a file from `start` on; `None` is all up to its end.
    pub(crate) fn send_file(self, status: u16, file: File, start: u64, size: Option<u64>) -> bool {
        let Some(send) = function!(self.server, send_file) else { return false };
        let (request, descriptor) = (self.request.as_ptr(), file.into_raw_fd());
        // SAFETY: the request is there, and the descriptor is the server's from here on.
        let result =
            unsafe { send(request, status.into(), descriptor, start, size.unwrap_or(ALL)) };
        result == DONE
    }

    /// Begins a response in parts.
    pub(crate) fn begin(self, status: u16, size: Option<u64>) -> bool {
        let Some(begin) = function!(self.server, begin) else { return false };
        let request = self.request.as_ptr();
        // SAFETY: the request is there, and this is the thread of its worker.
        let result = unsafe { begin(request, status.into(), size.unwrap_or(ALL)) };
        result == DONE
    }

    /// Writes a copy of the next part.
    pub(crate) fn write(self, part: &[u8]) -> bool {
        let Some(write) = function!(self.server, write) else { return false };
        // SAFETY: the request is there, and the bytes outlive the call.
        let result = unsafe { write(self.request.as_ptr(), part.as_ptr().cast(), part.len()) };
        result == DONE
    }

    /// Has `resume` called when everything that was written is sent, as by [`Call::after`].
    pub(crate) fn when_sent(self, resume: Resume) -> bool {
        let Some(when_sent) = function!(self.server, when_sent) else { return false };
        let argument = Box::into_raw(Box::new(resume));
        // SAFETY: the request is there, and `resume_once` is called once with the argument, unless the
        // request does not wait.
        let result = unsafe { when_sent(self.request.as_ptr(), resume_once, argument.cast()) };
        if result != DONE {
            // SAFETY: it is the box of above, which the server does not use.
            drop(unsafe { Box::from_raw(argument) });
        }
        result == DONE
    }

    /// Ends a response in parts. Returns whether it is complete.
    pub(crate) fn end(self) -> bool {
        let Some(end) = function!(self.server, end) else { return false };
        // SAFETY: the request is there, and this is the thread of its worker.
        let result = unsafe { end(self.request.as_ptr()) };
        result == DONE
    }
}

/// Names and values as C has them; `None` if there is a zero in one.
fn c_fields(fields: &[(&str, &str)]) -> Option<Vec<(CString, CString)>> {
    let pairs = fields
        .iter()
        .map(|(name, value)| Some((CString::new(*name).ok()?, CString::new(*value).ok()?)));
    pairs.collect()
}

fn pointers(fields: &[(CString, CString)]) -> Vec<Field> {
    let pairs = fields.iter().map(|(name, value)| (name.as_ptr(), value.as_ptr()));
    pairs.map(|(name, value)| Field { name, value }).collect()
}

impl Finish {
    /// As [`Finish::respond`], with header fields.
    pub(crate) fn respond_with(self, status: u16, fields: &[(&str, &str)], body: &[u8]) -> bool {
        if fields.is_empty() {
            return self.respond(status, body);
        }
        let Some(finish) = function!(self.server, finish_with) else { return false };
        let Some(texts) = c_fields(fields) else { return false };
        let (list, start) = (pointers(&texts), body.as_ptr().cast());
        // SAFETY: any thread may call it; the texts end with a zero, and all outlive the call.
        let result = unsafe {
            finish(self.token, status.into(), list.as_ptr(), list.len(), start, body.len())
        };
        result == DONE
    }

    /// Begins a response in parts.
    pub(crate) fn begin(self, status: u16, fields: &[(&str, &str)], size: Option<u64>) -> bool {
        let Some(begin) = function!(self.server, begin_later) else { return false };
        let Some(texts) = c_fields(fields) else { return false };
        let (list, size) = (pointers(&texts), size.unwrap_or(ALL));
        // SAFETY: any thread may call it; the texts end with a zero, and outlive the call.
        let result = unsafe { begin(self.token, status.into(), list.as_ptr(), list.len(), size) };
        result == DONE
    }

    /// Writes a copy of the next part, and waits for a client that does not read.
    pub(crate) fn write(self, part: &[u8]) -> bool {
        let Some(write) = function!(self.server, write_later) else { return false };
        // SAFETY: one thread has the token, and the bytes outlive the call.
        let result = unsafe { write(self.token, part.as_ptr().cast(), part.len()) };
        result == DONE
    }

    /// Ends a response in parts. Returns whether it is complete.
    pub(crate) fn end(self) -> bool {
        let Some(end) = function!(self.server, end_later) else { return false };
        // SAFETY: one thread has the token.
        let result = unsafe { end(self.token) };
        result == DONE
    }
}

impl Finish {
    /// As [`Finish::respond_with`], with `body` without a copy.
    pub(crate) fn respond_owned<B: StableBytes>(
        self,
        status: u16,
        fields: &[(&str, &str)],
        body: B,
    ) -> bool {
        let Some(finish) = function!(self.server, finish_owned) else {
            return self.respond_with(status, fields, body.bytes());
        };
        let Some(texts) = c_fields(fields) else { return false };
        let (list, bytes) = (pointers(&texts), Str::of(body.bytes()));
        let owner = Box::into_raw(Box::new(body)).cast();
        let (token, status, release) = (self.token, status.into(), Some(release::<B> as Release));
        // SAFETY: any thread may call it; the texts end with a zero, and outlive the call. The bytes stay
        // where they are until `release` drops their owner, which the server calls once, whatever it
        // returns.
        let result =
            unsafe { finish(token, status, list.as_ptr(), list.len(), bytes, release, owner) };
        result == DONE
    }

    /// As [`Finish::respond_with`], with `size` bytes of a file from `start` on; `None` is all up to its
    /// end.
    pub(crate) fn send_file(
        self,
        status: u16,
        fields: &[(&str, &str)],
        file: File,
        (start, size): (u64, Option<u64>),
    ) -> bool {
        let Some(finish) = function!(self.server, finish_file) else { return false };
        let Some(texts) = c_fields(fields) else { return false };
        let (list, size) = (pointers(&texts), size.unwrap_or(ALL));
        let (token, status, descriptor) = (self.token, status.into(), file.into_raw_fd());
        // SAFETY: any thread may call it; the texts end with a zero, and outlive the call. The descriptor
        // is the server's from here on.
        let result =
            unsafe { finish(token, status, list.as_ptr(), list.len(), descriptor, start, size) };
        result == DONE
    }
}
