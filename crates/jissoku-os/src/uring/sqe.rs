//! Submission entries, as far as the `io-uring` crate does not cover them.

use std::os::fd::{AsFd, AsRawFd};

use io_uring::squeue::{Entry as Sqe, Flags};
use io_uring::types::Fd;

use super::cqe::Kind;

/// Flags of a send that does not wait and completes visibly only if it fails or is short.
///
/// `MSG_DONTWAIT` makes the kernel fail a request that would have to wait, instead of keeping it;
/// `MSG_WAITALL` makes a short send a failure too, so that it is reported although successes are
/// not.
pub(super) const SEND: i32 = libc::MSG_DONTWAIT | libc::MSG_WAITALL | libc::MSG_NOSIGNAL;

/// Limit of a multishot receive in bytes. About thirty requests share its cost; with 16 KiB a
/// client that does not read could occupy 70 KiB.
pub(super) const LIMIT: u32 = 8 * 1024;

pub(super) fn fd(source: impl AsFd) -> Fd {
    Fd(source.as_fd().as_raw_fd())
}

pub(super) fn flags(events: i16) -> u32 {
    u32::from(events.unsigned_abs())
}

/// The layout of `struct io_uring_sqe`, whose fields are private in [`Sqe`].
#[repr(C)]
struct SqeLayout {
    opcode: u8,
    flags: u8,
    ioprio: u16,
    fd: i32,
    offset: u64,
    address: u64,
    size: u32,
    operation_flags: u32,
    user_data: u64,
    buffer: u16,
    personality: u16,
    /// In a union with `splice_fd_in` and `file_index`.
    optlen: u32,
    rest: [u64; 2],
}

const _: () = assert!(std::mem::offset_of!(SqeLayout, optlen) == 44, "as in linux/io_uring.h");
const _: () =
    assert!(size_of::<SqeLayout>() == size_of::<Sqe>(), "a request is a struct io_uring_sqe");
const _: () = assert!(align_of::<SqeLayout>() == align_of::<Sqe>(), "and aligned like one");

/// Limits a multishot receive: the field `optlen` of `struct io_uring_sqe`, which the crate does
/// not expose.
#[expect(unsafe_code, reason = "a field that the io-uring crate does not expose")]
pub(super) fn with_limit(mut receive: Sqe) -> Sqe {
    let sqe = std::ptr::from_mut(&mut receive).cast::<SqeLayout>();
    // SAFETY: a request has the size and alignment of a `SqeLayout`, all of whose fields are
    // integers: any bytes are valid ones, and the borrow of `receive` is exclusive. The test below
    // checks the place of the field.
    unsafe { (*sqe).optlen = LIMIT };
    receive
}

/// A send without a completion for success.
pub(super) fn reporting_failure(send: Sqe, index: u64) -> Sqe {
    send.flags(Flags::SKIP_SUCCESS).user_data(Kind::Send.with(index))
}

/// A slice as `iovec`, which the kernel only reads.
pub(super) fn slice(bytes: &[u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }
}

/// A message header for `slices`.
#[expect(unsafe_code, reason = "a kernel structure with padding")]
pub(super) fn header(slices: &[libc::iovec]) -> libc::msghdr {
    // SAFETY: zero is a value for every field of it.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = slices.as_ptr().cast_mut();
    #[cfg(not(target_env = "musl"))]
    let count = slices.len();
    // An int, in front of padding that completes it to the kernel's number; the kernel rejects more
    // than 1,024 slices.
    #[cfg(target_env = "musl")]
    let count = i32::try_from(slices.len()).unwrap_or(i32::MAX);
    header.msg_iovlen = count;
    header
}

#[cfg(test)]
mod tests {
    use io_uring::opcode;

    use super::*;

    #[expect(unsafe_code, reason = "a field that the io-uring crate does not expose")]
    fn optlen(request: &Sqe) -> u32 {
        // SAFETY: as in `with_limit`; it is only read.
        unsafe { (*std::ptr::from_ref(request).cast::<SqeLayout>()).optlen }
    }

    #[test]
    fn the_limit_is_where_the_kernel_looks_for_it() {
        // `optlen` shares its place with `splice_fd_in`, which the crate does name.
        let splice = opcode::Splice::new(Fd(0), 0, Fd(1), 0, 1);
        assert_eq!(optlen(&splice.build()), 0);
        let splice = opcode::Splice::new(Fd(LIMIT.cast_signed()), 0, Fd(1), 0, 1);
        assert_eq!(optlen(&splice.build()), LIMIT);
        let receive = with_limit(opcode::RecvMulti::new(Fd(1), 0).build());
        assert_eq!(optlen(&receive), LIMIT);
    }
}
