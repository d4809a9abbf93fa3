//! An `io_uring(7)`: requests are queued and submitted with the next wait.

use std::fmt;
use std::io::{self, Write};
use std::iter;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::sync::OnceLock;
use std::time::Duration;

use io_uring::EnterFlags;
use io_uring::IoUring;
use io_uring::opcode;
use io_uring::squeue::{Entry as Sqe, Flags};
use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};

use super::buffers::{BufferLease, Buffers, GROUP};
use super::cqe::{Completion, Kind, Received};
use super::sqe::{LIMIT, SEND, fd, flags, header, reporting_failure, slice, with_limit};

/// Maximum number of retries of a submission.
const TRIES_MAX: usize = 1000;

/// Timeout for cancelling active requests when the ring is closed.
const CANCEL_NS_MAX: u32 = 100_000_000;

/// The timeout of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    NonBlocking,
    For(Duration),
    Forever,
}

/// A send on one socket.
#[derive(Debug)]
pub(crate) struct SendRequest<'a, P> {
    pub(crate) socket: BorrowedFd<'a>,
    pub(crate) bytes: SendData<'a, P>,
    /// Its index in [`Completion::Short`].
    pub(crate) index: u64,
}

/// The data of a send: one slice or several.
#[derive(Debug)]
pub(crate) enum SendData<'a, P> {
    One(&'a [u8]),
    Many(P),
}

impl<'a> SendData<'a, iter::Empty<&'a [u8]>> {
    /// For senders with single slices only.
    pub(crate) const fn whole(bytes: &'a [u8]) -> Self {
        Self::One(bytes)
    }
}

/// Message headers for sends with several slices. The content is only valid during [`Ring::enter`].
#[derive(Default)]
struct MsgScratch {
    /// Socket, index and range of slices of each send.
    requests: Vec<(Fd, u64, Range<usize>)>,
    slices: Vec<libc::iovec>,
    headers: Vec<libc::msghdr>,
}

/// An io_uring with provided buffers. It must stay on the thread that created it.
pub(crate) struct Ring {
    io: IoUring,
    /// `None` only while the ring is being closed.
    buffers: Option<Buffers>,
    /// Requests that did not fit into the queue. None of them holds an address.
    overflow: Vec<Sqe>,
    scratch: MsgScratch,
    /// Whether multishot receives support a limit.
    supports_limit: bool,
    /// The queue may hold dangling addresses, so nothing may be submitted any more.
    is_broken: bool,
}

impl fmt::Debug for Ring {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Ring").finish_non_exhaustive()
    }
}

impl Ring {
    /// Opens a ring and registers its buffers.
    pub(crate) fn new() -> io::Result<Self> {
        static SUPPORTS_LIMIT: OnceLock<bool> = OnceLock::new();
        let mut ring = Self::open()?;
        if let Some(&known) = SUPPORTS_LIMIT.get() {
            ring.supports_limit = known;
        } else {
            let known = Self::open()?.try_limit()?;
            ring.supports_limit = *SUPPORTS_LIMIT.get_or_init(|| known);
        }
        Ok(ring)
    }

    fn open() -> io::Result<Self> {
        let io = super::open()?;
        let buffers = Buffers::register(&io.submitter())?;
        Ok(Self {
            io,
            buffers: Some(buffers),
            overflow: Vec::new(),
            scratch: MsgScratch::default(),
            supports_limit: true,
            is_broken: false,
        })
    }

    /// Probes whether the kernel supports a limit of multishot receives.
    fn try_limit(mut self) -> io::Result<bool> {
        let (near, mut far) = std::os::unix::net::UnixStream::pair()?;
        far.write_all(&[0; LIMIT as usize + 1])?;
        self.receive_some(&near, 0);
        self.enter_idle(Wait::NonBlocking)?;
        let mut completions = Vec::new();
        self.collect(&mut completions);
        Ok(matches!(
            completions.last(),
            Some(Completion::Received { result: Received::Bytes(_), more: false, .. })
        ))
    }

    /// Accepts connections until cancelled; `number` identifies the listener in completions.
    pub(crate) fn accept(&mut self, listener: impl AsFd, number: u64) {
        let accept = opcode::AcceptMulti::new(fd(listener));
        let accept = accept.flags(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK).build();
        self.push(accept.user_data(Kind::Accept.with(number)));
    }

    /// Receives from a socket until cancelled or until [`LIMIT`] bytes, which bounds the memory
    /// that a peer can occupy. Kernels before Linux 6.18 have no such limit and receive once.
    pub(crate) fn receive_some(&mut self, socket: impl AsFd, number: u64) {
        let receive = if self.supports_limit {
            with_limit(opcode::RecvMulti::new(fd(socket), GROUP).build())
        } else {
            // The length is that of the buffer.
            let receive = opcode::Recv::new(fd(socket), std::ptr::null_mut(), 0).buf_group(GROUP);
            receive.build().flags(Flags::BUFFER_SELECT)
        };
        self.push(receive.user_data(Kind::Receive.with(number)));
    }

    /// Receives from a socket until cancelled. A peer may fill all buffers.
    pub(crate) fn receive(&mut self, socket: impl AsFd, number: u64) {
        let receive = opcode::RecvMulti::new(fd(socket), GROUP).build();
        self.push(receive.user_data(Kind::Receive.with(number)));
    }

    /// Reports once when the socket is writable or closed.
    pub(crate) fn poll_writable(&mut self, socket: impl AsFd, number: u64) {
        let poll = opcode::PollAdd::new(fd(socket), flags(libc::POLLOUT)).build();
        self.push(poll.user_data(Kind::Poll.with(number)));
    }

    /// Reports whenever `source` is readable.
    pub(crate) fn watch(&mut self, source: impl AsFd, number: u64) {
        let poll = opcode::PollAdd::new(fd(source), flags(libc::POLLIN)).multi(true).build();
        self.push(poll.user_data(Kind::Poll.with(number)));
    }

    /// Reports once when `source` is readable.
    pub(crate) fn poll_readable(&mut self, source: impl AsFd, number: u64) {
        let poll = opcode::PollAdd::new(fd(source), flags(libc::POLLIN)).build();
        self.push(poll.user_data(Kind::Poll.with(number)));
    }

    /// Cancels [`Ring::accept`]; its last completion has no `more`.
    pub(crate) fn cancel_accept(&mut self, number: u64) {
        self.cancel(Kind::Accept.with(number));
    }

    /// Cancels [`Ring::receive`], which completes as cancelled unless it has ended before.
    pub(crate) fn cancel_receive(&mut self, number: u64) {
        self.cancel(Kind::Receive.with(number));
    }

    /// Ends [`Ring::poll_writable`].
    pub(crate) fn cancel_poll(&mut self, number: u64) {
        self.cancel(Kind::Poll.with(number));
    }

    fn cancel(&mut self, user_data: u64) {
        let cancel = opcode::AsyncCancel::new(user_data).build().flags(Flags::SKIP_SUCCESS);
        self.push(cancel.user_data(Kind::Silent.with(0)));
    }

    /// Closes a socket. Its requests have to be cancelled before, because they keep it open.
    pub(crate) fn close(&mut self, socket: OwnedFd) {
        let close = opcode::Close::new(Fd(socket.into_raw_fd())).build();
        self.push(close.flags(Flags::SKIP_SUCCESS).user_data(Kind::Silent.with(0)));
    }

    /// The bytes of a receive.
    pub(crate) fn bytes(&self, lease: &BufferLease) -> &[u8] {
        self.buffers.as_ref().map_or(&[], |buffers| buffers.bytes(lease))
    }

    /// Returns a buffer to the kernel, with the next [`Ring::enter`].
    pub(crate) fn release(&mut self, lease: BufferLease) {
        if let Some(buffers) = &mut self.buffers {
            buffers.release(lease);
        }
    }

    /// Submits all queued requests and `requests`, and waits for a completion. The kernel does not
    /// access the bytes of the sends after this returns.
    ///
    /// # Errors
    /// The error of `io_uring_enter(2)`. The ring must not be used afterwards.
    pub(crate) fn enter<'a, P: Iterator<Item = &'a [u8]>>(
        &mut self,
        requests: impl Iterator<Item = SendRequest<'a, P>>,
        wait: Wait,
    ) -> io::Result<()> {
        if let Some(buffers) = &self.buffers {
            buffers.publish();
        }
        for request in std::mem::take(&mut self.overflow) {
            self.push_or_submit(&request)?;
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.requests.clear();
        scratch.slices.clear();
        for SendRequest { socket, bytes, index } in requests {
            match bytes {
                SendData::One(bytes) => {
                    let size = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
                    let send = opcode::Send::new(fd(socket), bytes.as_ptr(), size).flags(SEND);
                    self.push_or_submit(&reporting_failure(send.build(), index))?;
                }
                SendData::Many(parts) => {
                    let start = scratch.slices.len();
                    scratch.slices.extend(parts.map(slice));
                    scratch.requests.push((fd(socket), index, start..scratch.slices.len()));
                }
            }
        }
        let MsgScratch { requests, slices, headers } = &mut scratch;
        // Neither list moves from here on.
        headers.clear();
        headers.extend(requests.iter().map(|(.., range)| header(&slices[range.clone()])));
        for ((socket, index, _), header) in requests.iter().zip(headers) {
            let send = opcode::SendMsg::new(*socket, std::ptr::from_ref(header));
            self.push_or_submit(&reporting_failure(
                send.flags(SEND.unsigned_abs()).build(),
                *index,
            ))?;
        }
        let outcome = self.submit(wait);
        self.scratch = scratch;
        outcome
    }

    /// As [`Ring::enter`] without sends.
    pub(crate) fn enter_idle(&mut self, wait: Wait) -> io::Result<()> {
        self.enter(iter::empty::<SendRequest<'_, iter::Empty<&[u8]>>>(), wait)
    }

    /// Appends all completions to `completions`.
    pub(crate) fn collect(&mut self, completions: &mut Vec<Completion>) {
        let Some(buffers) = &mut self.buffers else { return };
        let queue = self.io.completion();
        completions.extend(queue.filter_map(|cqe| Completion::read(&cqe, buffers)));
    }

    /// Queues a request without an address.
    #[expect(unsafe_code, reason = "the queue takes requests of all kinds")]
    fn push(&mut self, request: Sqe) {
        // SAFETY: the request holds no address.
        let pushed = unsafe { self.io.submission().push(&request) };
        if pushed.is_err() {
            self.overflow.push(request);
        }
    }

    /// Queues a request, and submits the queue if it is full.
    #[expect(unsafe_code, reason = "requests hold addresses")]
    fn push_or_submit(&mut self, request: &Sqe) -> io::Result<()> {
        loop {
            // SAFETY: what a request from `enter` points to is borrowed or held until `submit`
            // returns. By then the kernel has seen it and does not keep it (`SEND`), or nothing
            // will ever be submitted.
            if unsafe { self.io.submission().push(request) }.is_ok() {
                return Ok(());
            }
            self.submit(Wait::NonBlocking)?;
        }
    }

    /// Submits the whole queue.
    fn submit(&mut self, wait: Wait) -> io::Result<()> {
        let mut wait = wait;
        let mut outcome = self.call(wait);
        for _ in 0..TRIES_MAX {
            let is_fatal = match &outcome {
                Ok(_) => false,
                Err(error) => !is_transient(error),
            };
            if is_fatal {
                break;
            }
            if self.io.submission().is_empty() {
                return Ok(());
            }
            wait = Wait::NonBlocking;
            outcome = self.call(wait);
        }
        self.is_broken = true;
        Err(outcome.err().unwrap_or_else(|| io::Error::other("the kernel takes no requests")))
    }

    #[expect(unsafe_code, reason = "the crate has no safe call that only runs task work")]
    fn call(&mut self, wait: Wait) -> io::Result<usize> {
        if self.is_broken {
            return Err(io::Error::other("the ring is broken"));
        }
        let submitter = self.io.submitter();
        match wait {
            Wait::Forever => submitter.submit_and_wait(1),
            Wait::For(time) => {
                let time = Timespec::from(time);
                submitter.submit_with_args(1, &SubmitArgs::new().timespec(&time))
            }
            Wait::NonBlocking => {
                let count = u32::try_from(self.io.submission().len()).unwrap_or(u32::MAX);
                let flags = EnterFlags::GETEVENTS.bits();
                // SAFETY: the queue contains this many requests, and there is no argument.
                unsafe { self.io.submitter().enter::<libc::sigset_t>(count, 0, flags, None) }
            }
        }
    }
}

impl Drop for Ring {
    /// Cancels active requests, which would keep sockets open for a while after the ring is closed.
    fn drop(&mut self) {
        // A failure cannot be handled; the kernel cleans up eventually.
        let _submitted = self.enter_idle(Wait::NonBlocking);
        let time = Timespec::new().nsec(CANCEL_NS_MAX);
        let every = CancelBuilder::any();
        let _cancelled = self.io.submitter().register_sync_cancel(Some(time), every);
        // Cancelled requests release their sockets when the ring is entered again.
        let _let_go = self.enter_idle(Wait::NonBlocking);
        // Connections accepted meanwhile are closed with their completions.
        self.collect(&mut Vec::new());
        if let Some(buffers) = self.buffers.take() {
            buffers.unregister(&self.io.submitter());
        }
    }
}

/// Whether an error of `io_uring_enter(2)` is transient.
fn is_transient(error: &io::Error) -> bool {
    let passing = [libc::ETIME, libc::EINTR, libc::EAGAIN, libc::EBUSY];
    error.raw_os_error().is_some_and(|code| passing.contains(&code))
}

/// Opens a ring and probes whether sends behave as required.
///
/// # Errors
/// `Unsupported`, or the error of opening the ring.
pub(super) fn probe() -> io::Result<()> {
    let mut ring = Ring::new()?;
    let (near, far) = std::os::unix::net::UnixStream::pair()?;
    let more_than_fits = vec![0; 4 * 1024 * 1024];
    let request = |bytes, index| SendRequest { socket: near.as_fd(), bytes, index };
    let whole = request(SendData::One(&more_than_fits[..1]), 1);
    let short = request(SendData::Many(iter::once(&more_than_fits[..])), 2);
    ring.enter([whole, short].into_iter(), Wait::NonBlocking)?;
    let mut completions = Vec::new();
    ring.collect(&mut completions);
    drop(far);
    match completions[..] {
        [Completion::Short { index: 2, outcome: Ok(1..) }] => Ok(()),
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}
