//! The functions of responses in parts.

use std::ffi::{c_int, c_void};

use super::later::{Field, ResumeFunction, reply_with, resume_by};
use super::{DONE, REFUSED, Request, bytes, result};
use crate::call::Waiting;
use crate::deferred;
use crate::parts::Parts;

pub(super) type Begin = extern "C" fn(Request<'_>, c_int, u64) -> c_int;
pub(super) type Write = extern "C" fn(Request<'_>, *const c_void, usize) -> c_int;
pub(super) type WhenSent = extern "C" fn(Request<'_>, Option<ResumeFunction>, *mut c_void) -> c_int;
pub(super) type End = extern "C" fn(Request<'_>) -> c_int;
pub(super) type BeginLater = extern "C" fn(u64, c_int, *const Field, usize, u64) -> c_int;
pub(super) type WriteLater = extern "C" fn(u64, *const c_void, usize) -> c_int;
pub(super) type EndLater = extern "C" fn(u64) -> c_int;

/// `JSK_UNKNOWN`.
const UNKNOWN: u64 = u64::MAX;

fn known(size: u64) -> Option<u64> {
    Some(size).filter(|&size| size != UNKNOWN)
}

pub(super) extern "C" fn begin(request: Request<'_>, status: c_int, size: u64) -> c_int {
    // A response by the token could follow otherwise.
    let waiting_for_nothing = request.filter(|call| call.waiting.is_none());
    result(waiting_for_nothing.is_some_and(|call| call.response.begin(status, known(size))))
}

pub(super) extern "C" fn write(request: Request<'_>, part: *const c_void, size: usize) -> c_int {
    let (Some(call), Some(part)) = (request, bytes(part, size)) else { return REFUSED };
    result(call.response.parts().is_some_and(|parts| parts.write(part)))
}

pub(super) extern "C" fn when_sent(
    request: Request<'_>,
    function: Option<ResumeFunction>,
    argument: *mut c_void,
) -> c_int {
    let (Some(call), Some(function)) = (request, function) else { return REFUSED };
    if !call.may_wait() || call.response.parts().is_none() {
        return REFUSED;
    }
    call.waiting = Some(Waiting::Sent(resume_by(function, argument)));
    DONE
}

pub(super) extern "C" fn end(request: Request<'_>) -> c_int {
    let parts = request.and_then(|call| call.response.parts());
    result(parts.is_some_and(Parts::end))
}

/// Other threads call it and those below, so they use no request.
pub(super) extern "C" fn begin_later(
    token: u64,
    status: c_int,
    fields: *const Field,
    count: usize,
    size: u64,
) -> c_int {
    let Some(mut reply) = reply_with(fields, count) else { return REFUSED };
    result(reply.begin(status, known(size)) && deferred::begin(token, reply, known(size)))
}

pub(super) extern "C" fn write_later(token: u64, part: *const c_void, size: usize) -> c_int {
    result(bytes(part, size).is_some_and(|part| deferred::write(token, part)))
}

pub(super) extern "C" fn end_later(token: u64) -> c_int {
    result(deferred::end(token))
}
