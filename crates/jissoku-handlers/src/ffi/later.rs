//! The functions of responses that are given later.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use jissoku_os::clock;

use super::{
    API, Api, DONE, Lent, REFUSED, Release, Request, Str, adopted, array, bytes, result, text,
    up_to,
};
use crate::call::{Call, Deferral, Resume, Waiting};
use crate::deferred;
use crate::reply::Reply;

pub(super) type ResumeFunction = unsafe extern "C" fn(*const Api, *mut Call, *mut c_void) -> c_int;

pub(super) type After =
    extern "C" fn(Request<'_>, u32, Option<ResumeFunction>, *mut c_void) -> c_int;
pub(super) type Defer = extern "C" fn(Request<'_>, u32, Option<Release>, *mut c_void) -> u64;
pub(super) type Finish = extern "C" fn(u64, c_int, *const c_void, usize) -> c_int;
pub(super) type FinishWith =
    extern "C" fn(u64, c_int, *const Field, usize, *const c_void, usize) -> c_int;
pub(super) type FinishOwned =
    extern "C" fn(u64, c_int, *const Field, usize, Str, Option<Release>, *mut c_void) -> c_int;
pub(super) type FinishFile =
    extern "C" fn(u64, c_int, *const Field, usize, c_int, u64, u64) -> c_int;

/// `jsk_field`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    pub(super) name: *const c_char,
    pub(super) value: *const c_char,
}

pub(super) extern "C" fn after(
    request: Request<'_>,
    ms: u32,
    function: Option<ResumeFunction>,
    argument: *mut c_void,
) -> c_int {
    let (Some(call), Some(function)) = (request, function) else { return REFUSED };
    if !call.may_wait() {
        return REFUSED;
    }
    call.waiting = Some(Waiting::Until(due_ns(ms), resume_by(function, argument)));
    DONE
}

/// Continues a request by a function of the handler.
pub(super) fn resume_by(function: ResumeFunction, argument: *mut c_void) -> Resume {
    Box::new(move |call| {
        let call = call.map_or(ptr::null_mut(), ptr::from_mut);
        // SAFETY: by the interface, it is a function of this type; the others are as for `handle`.
        unsafe { function(&raw const API, call, argument) }
    })
}

pub(super) extern "C" fn defer(
    request: Request<'_>,
    ms: u32,
    gone: Option<Release>,
    argument: *mut c_void,
) -> u64 {
    let is_open = |call: &&mut Call| call.may_wait() && !call.response.is_set();
    let Some(call) = request.filter(is_open) else { return 0 };
    let token = deferred::new_token();
    let on_gone = gone.map(|gone| -> Box<dyn FnOnce()> {
        // SAFETY: by the interface, it is a function of this type, called once with its argument.
        Box::new(move || unsafe { gone(argument) })
    });
    call.waiting = Some(Waiting::Deferred(Deferral {
        token,
        due_ns: due_ns(ms),
        patience_ns: ns(ms),
        on_gone,
        parts: None,
        is_full: false,
    }));
    token
}

/// The time on the monotonic clock in `ms` milliseconds.
pub(super) fn due_ns(ms: u32) -> u64 {
    clock::monotonic_ns().saturating_add(ns(ms))
}

fn ns(ms: u32) -> u64 {
    u64::from(ms) * 1_000_000
}

/// Other threads call it, so it uses no request.
pub(super) extern "C" fn finish(
    token: u64,
    status: c_int,
    body: *const c_void,
    size: usize,
) -> c_int {
    finish_with(token, status, ptr::null(), 0, body, size)
}

pub(super) extern "C" fn finish_with(
    token: u64,
    status: c_int,
    fields: *const Field,
    count: usize,
    body: *const c_void,
    size: usize,
) -> c_int {
    let (Some(mut reply), Some(body)) = (reply_with(fields, count), bytes(body, size)) else {
        return REFUSED;
    };
    result(reply.set_copied(status, body) && deferred::finish(token, reply))
}

/// A response with these fields, if all are valid.
pub(super) fn reply_with(fields: *const Field, count: usize) -> Option<Reply> {
    let mut reply = Reply::default();
    let are_valid = array(fields, count)?.iter().all(|&Field { name, value }| {
        let field = text(name).zip(text(value));
        field.is_some_and(|(name, value)| reply.add_field(name, value))
    });
    are_valid.then_some(reply)
}

pub(super) extern "C" fn finish_owned(
    token: u64,
    status: c_int,
    fields: *const Field,
    count: usize,
    body: Str,
    release: Option<Release>,
    argument: *mut c_void,
) -> c_int {
    // Dropped unless the worker gets it, and by the worker.
    let lent = Lent { start: body.ptr.cast(), size: body.len, release, argument };
    let is_valid = bytes(lent.start, lent.size).is_some();
    let Some(mut reply) = reply_with(fields, count).filter(|_| is_valid) else { return REFUSED };
    result(reply.set_lent(status, Box::new(lent)) && deferred::finish(token, reply))
}

pub(super) extern "C" fn finish_file(
    token: u64,
    status: c_int,
    fields: *const Field,
    count: usize,
    descriptor: c_int,
    start: u64,
    size: u64,
) -> c_int {
    let file = adopted(descriptor);
    let (Some(mut reply), Some(file)) = (reply_with(fields, count), file) else { return REFUSED };
    result(reply.set_file(status, file, (start, up_to(size))) && deferred::finish(token, reply))
}
