//! Completions of the ring.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use io_uring::cqueue::{self, Entry as Cqe, buffer_select};

use super::buffers::{BufferLease, Buffers};

/// The kind of a request, in the upper bits of its user data; the rest is the number of the caller.
const KINDS: u64 = 7 << Kind::SHIFT;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Its completion is ignored.
    Silent = 0,
    Accept = 1,
    Receive = 2,
    Send = 3,
    Poll = 4,
}

impl Kind {
    const SHIFT: u32 = 61;

    pub(super) const fn with(self, number: u64) -> u64 {
        debug_assert!(number & KINDS == 0);
        (self as u64) << Self::SHIFT | number & !KINDS
    }
}

/// A completion. `more`: the request is multishot and still active.
#[derive(Debug)]
pub(crate) enum Completion {
    /// The result of an accept.
    Accepted { listener: u64, outcome: io::Result<OwnedFd>, more: bool },
    /// The result of a receive.
    Received { number: u64, result: Received, more: bool },
    /// A send has failed or was short. Successful sends are not reported.
    Short { index: u64, outcome: io::Result<usize> },
    /// A polled descriptor is ready.
    Ready { number: u64, more: bool },
}

/// The result of a receive.
#[derive(Debug)]
pub(crate) enum Received {
    Bytes(BufferLease),
    /// End of file.
    End,
    /// No buffer was free.
    NoBuffers,
    /// It was cancelled.
    Cancelled,
    Failed,
}

impl Completion {
    /// Decodes a completion; `None` for one that is ignored.
    pub(super) fn read(completion: &Cqe, buffers: &mut Buffers) -> Option<Self> {
        let number = completion.user_data() & !KINDS;
        let more = cqueue::more(completion.flags());
        let is = |kind: Kind| completion.user_data() & KINDS == kind.with(0);
        Some(if is(Kind::Receive) {
            Self::Received { number, result: received(completion, buffers), more }
        } else if is(Kind::Send) {
            Self::Short { index: number, outcome: sent(completion.result()) }
        } else if is(Kind::Accept) {
            Self::Accepted { listener: number, outcome: accepted(completion), more }
        } else if is(Kind::Poll) {
            Self::Ready { number, more }
        } else {
            return None;
        })
    }
}

fn received(completion: &Cqe, buffers: &mut Buffers) -> Received {
    let lease =
        buffer_select(completion.flags()).map(|id| BufferLease::new(id, completion.result()));
    match (completion.result(), lease) {
        (1.., Some(lease)) => return Received::Bytes(lease),
        // The kernel should not assign a buffer in this case; release it anyway.
        (_, Some(lease)) => buffers.release(lease),
        (_, None) => {}
    }
    match -completion.result() {
        0 => Received::End,
        libc::ENOBUFS => Received::NoBuffers,
        libc::ECANCELED => Received::Cancelled,
        _ => Received::Failed,
    }
}

fn sent(result: i32) -> io::Result<usize> {
    match usize::try_from(result) {
        Ok(size) => Ok(size),
        Err(_) if result == -libc::EAGAIN || result == -libc::EINTR => Ok(0),
        Err(_) => Err(io::Error::from_raw_os_error(-result)),
    }
}

#[expect(unsafe_code, reason = "the kernel returns a descriptor as a number")]
fn accepted(completion: &Cqe) -> io::Result<OwnedFd> {
    if completion.result() < 0 {
        return Err(io::Error::from_raw_os_error(-completion.result()));
    }
    // SAFETY: the kernel has created this descriptor for this request, and each completion is read
    // once.
    Ok(unsafe { OwnedFd::from_raw_fd(completion.result()) })
}
