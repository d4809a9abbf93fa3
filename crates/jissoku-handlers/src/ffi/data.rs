//! What a handler keeps with a request.

use std::ffi::{c_int, c_void};
use std::ptr;

use super::{DONE, REFUSED, Release, Request};
use crate::call::Data;

pub(super) type SetData = extern "C" fn(Request<'_>, *mut c_void, Option<Release>) -> c_int;
pub(super) type GetData = extern "C" fn(Request<'_>) -> *mut c_void;

pub(super) extern "C" fn set_data(
    request: Request<'_>,
    data: *mut c_void,
    release: Option<Release>,
) -> c_int {
    let release = release.map(|release| -> Box<dyn FnOnce()> {
        // SAFETY: by the interface, it is a function of this type, called once with what is kept.
        Box::new(move || unsafe { release(data) })
    });
    // Without a request it is released at once.
    let data = Data::new(data, release);
    let Some(call) = request else { return REFUSED };
    call.data = Some(data);
    DONE
}

pub(super) extern "C" fn data(request: Request<'_>) -> *mut c_void {
    request.and_then(|call| call.data.as_ref()).map_or(ptr::null_mut(), Data::pointer)
}
