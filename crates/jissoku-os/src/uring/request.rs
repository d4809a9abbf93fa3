//! What is asked of the kernel, where the `io-uring` crate leaves something to be said.

use std::os::fd::{AsFd, AsRawFd};

use io_uring::squeue::{Entry as Request, Flags};
use io_uring::types::Fd;

use super::report::Kind;

/// A send goes as far as it can at once, and is reported only if that is not all the way.
///
/// `MSG_DONTWAIT` makes the kernel fail a request that would have to wait, instead of keeping it;
/// `MSG_WAITALL` makes a short send a failure too, so that it is reported although successes are not.
pub(super) const SEND: i32 = libc::MSG_DONTWAIT | libc::MSG_WAITALL | libc::MSG_NOSIGNAL;

/// What one receive may bring in all before it has to be asked for again. Some thirty requests share what
/// that costs; with 16 KiB a client that does not read could make a server hold 70 KiB, which is too much.
pub(super) const LIMIT: u32 = 8 * 1024;

pub(super) fn fd(source: impl AsFd) -> Fd {
    Fd(source.as_fd().as_raw_fd())
}

pub(super) fn flags(events: i16) -> u32 {
    u32::from(events.unsigned_abs())
}

/// Gives a receive that goes on a limit: the field `optlen` of `struct io_uring_sqe`, for which the crate
/// has no name.
#[expect(unsafe_code, reason = "a field of the kernel's that its crate does not know")]
pub(super) fn limited(receive: Request) -> Request {
    const OPTLEN: usize = 44;
    const { assert!(size_of::<Request>() == 64, "a request is a struct io_uring_sqe") };
    let mut receive = receive;
    // SAFETY: the request is 64 bytes, so the place is inside of it.
    let place = unsafe { std::ptr::from_mut(&mut receive).cast::<u8>().add(OPTLEN) };
    // SAFETY: the place is inside of the request and a multiple of four from its front; any bits are a
    // value of the field.
    unsafe { place.cast::<u32>().write_unaligned(LIMIT) };
    receive
}

/// A send that is reported only if it falls short.
pub(super) fn quiet(send: Request, index: u64) -> Request {
    send.flags(Flags::SKIP_SUCCESS).user_data(Kind::Send.with(index))
}

/// The kernel only reads it.
pub(super) fn slice(bytes: &[u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }
}

/// The header of a message that consists of `slices`.
#[expect(unsafe_code, reason = "a structure of the kernel's with padding")]
pub(super) fn header(slices: &[libc::iovec]) -> libc::msghdr {
    // SAFETY: zero is a value for every field of it.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = slices.as_ptr().cast_mut();
    header.msg_iovlen = slices.len();
    header
}
