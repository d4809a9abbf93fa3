//! What the kernel says about requests that were made of it.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use io_uring::cqueue::{Entry as Completion, buffer_select, more};

use super::buffers::{Buffers, Filled};

/// What a request was for, in the upper bits of its number; the rest is the asker's.
const KINDS: u64 = 7 << Kind::SHIFT;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nobody needs to know how it ended.
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

/// What has happened. `goes_on`: the same request will report again.
#[derive(Debug)]
pub(crate) enum Report {
    /// A connection was taken, or could not be.
    Accepted { listener: u64, outcome: io::Result<OwnedFd>, goes_on: bool },
    /// A receive has brought something.
    Received { number: u64, what: Received, goes_on: bool },
    /// A send has failed, or has sent less than it should have. Others are not reported.
    Short { index: u64, outcome: io::Result<usize> },
    /// Something that was watched is ready.
    Ready { number: u64, goes_on: bool },
}

/// What a receive has brought.
#[derive(Debug)]
pub(crate) enum Received {
    Bytes(Filled),
    /// The peer will send no more.
    End,
    /// No buffer was free.
    Starved,
    /// It was cancelled.
    Cancelled,
    Failed,
}

impl Report {
    /// Understands a completion, or returns `None` for one that means nothing.
    pub(super) fn read(completion: &Completion, buffers: &mut Buffers) -> Option<Self> {
        let number = completion.user_data() & !KINDS;
        let goes_on = more(completion.flags());
        let is = |kind: Kind| completion.user_data() & KINDS == kind.with(0);
        Some(if is(Kind::Receive) {
            Self::Received { number, what: received(completion, buffers), goes_on }
        } else if is(Kind::Send) {
            Self::Short { index: number, outcome: sent(completion.result()) }
        } else if is(Kind::Accept) {
            Self::Accepted { listener: number, outcome: accepted(completion), goes_on }
        } else if is(Kind::Poll) {
            Self::Ready { number, goes_on }
        } else {
            return None;
        })
    }
}

fn received(completion: &Completion, buffers: &mut Buffers) -> Received {
    let filled = buffer_select(completion.flags()).map(|id| Filled::new(id, completion.result()));
    match (completion.result(), filled) {
        (1.., Some(filled)) => return Received::Bytes(filled),
        // The kernel keeps a buffer that it has no use for; should it ever not, it is not lost.
        (_, Some(filled)) => buffers.give_back(filled),
        (_, None) => {}
    }
    match -completion.result() {
        0 => Received::End,
        libc::ENOBUFS => Received::Starved,
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

#[expect(unsafe_code, reason = "a descriptor comes back from the kernel as a number")]
fn accepted(completion: &Completion) -> io::Result<OwnedFd> {
    if completion.result() < 0 {
        return Err(io::Error::from_raw_os_error(-completion.result()));
    }
    // SAFETY: the kernel has just made this descriptor for us, tells nobody else of it, and a completion
    // is taken from its queue, and read, once.
    Ok(unsafe { OwnedFd::from_raw_fd(completion.result()) })
}
