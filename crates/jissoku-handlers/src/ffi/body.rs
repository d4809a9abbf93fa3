//! The functions of bodies that a handler takes by parts.

use std::ffi::{c_int, c_void};

use super::later::{ResumeFunction, due_ns, resume_by};
use super::{Request, result};
use crate::call::{Pause, Waiting};
use crate::deferred;

pub(super) type PauseBody =
    extern "C" fn(Request<'_>, u32, Option<ResumeFunction>, *mut c_void) -> u64;
pub(super) type ResumeBody = extern "C" fn(u64) -> c_int;

pub(super) extern "C" fn pause_body(
    request: Request<'_>,
    ms: u32,
    function: Option<ResumeFunction>,
    argument: *mut c_void,
) -> u64 {
    let Some(call) = request.filter(|call| call.may_pause()) else { return 0 };
    let token = deferred::new_token();
    let resume = function.map(|function| resume_by(function, argument));
    call.waiting = Some(Waiting::Body(Pause { token, due_ns: due_ns(ms), resume }));
    token
}

/// Other threads call it, so it uses no request.
pub(super) extern "C" fn resume_body(token: u64) -> c_int {
    result(deferred::resume_body(token))
}
