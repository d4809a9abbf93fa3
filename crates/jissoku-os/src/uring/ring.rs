//! A ring for a driver: what is asked for is gathered, and goes to the kernel with the next wait.

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
use io_uring::squeue::{Entry as Request, Flags};
use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};

use super::buffers::{Buffers, Filled, GROUP};
use super::report::{Kind, Received, Report};
use super::request::{LIMIT, SEND, fd, flags, header, limited, quiet, slice};

/// How often the kernel may say that it has no room for our requests just now.
const TRIES_MAX: usize = 1000;

/// How long requests that are under way may take to end when the ring is closed.
const CANCEL_NS_MAX: u32 = 100_000_000;

/// How long to wait for a first report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    Not,
    For(Duration),
    Long,
}

/// Bytes for one peer.
#[derive(Debug)]
pub(crate) struct Parcel<'a, P> {
    pub(crate) socket: BorrowedFd<'a>,
    pub(crate) bytes: Bytes<'a, P>,
    /// What a [`Report::Short`] calls it.
    pub(crate) index: u64,
}

/// Where they are: in one place, or in several.
#[derive(Debug)]
pub(crate) enum Bytes<'a, P> {
    One(&'a [u8]),
    Many(P),
}

impl<'a> Bytes<'a, iter::Empty<&'a [u8]>> {
    /// For a ring whose parcels are all in one place each.
    pub(crate) const fn whole(bytes: &'a [u8]) -> Self {
        Self::One(bytes)
    }
}

/// Parcels in several places, as the kernel wants to be told of them. What is left here of an earlier
/// [`Ring::enter`] nobody looks at.
#[derive(Default)]
struct Messages {
    /// Of each: its socket, its number, and its slices.
    parcels: Vec<(Fd, u64, Range<usize>)>,
    slices: Vec<libc::iovec>,
    headers: Vec<libc::msghdr>,
}

/// An io_uring, and its receive buffers. It stays on the thread that made it.
pub(crate) struct Ring {
    io: IoUring,
    /// `None` only while the ring is being closed.
    buffers: Option<Buffers>,
    /// Requests that found no place in the queue. None of them holds an address.
    waiting: Vec<Request>,
    messages: Messages,
    /// Whether a receive that goes on can be given a limit.
    knows_limit: bool,
    /// The queue may hold addresses of bytes that are gone, so that nothing must be submitted any more.
    is_broken: bool,
}

impl fmt::Debug for Ring {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Ring").finish_non_exhaustive()
    }
}

impl Ring {
    /// Opens a ring and lends it its buffers.
    pub(crate) fn new() -> io::Result<Self> {
        static KNOWS_LIMIT: OnceLock<bool> = OnceLock::new();
        let mut ring = Self::open()?;
        if let Some(&known) = KNOWS_LIMIT.get() {
            ring.knows_limit = known;
        } else {
            let known = Self::open()?.try_limit()?;
            ring.knows_limit = *KNOWS_LIMIT.get_or_init(|| known);
        }
        Ok(ring)
    }

    fn open() -> io::Result<Self> {
        let io = super::open()?;
        let buffers = Buffers::register(&io.submitter())?;
        Ok(Self {
            io,
            buffers: Some(buffers),
            waiting: Vec::new(),
            messages: Messages::default(),
            knows_limit: true,
            is_broken: false,
        })
    }

    /// Whether the kernel ends a receive at its limit. One that does not know of it refuses.
    fn try_limit(mut self) -> io::Result<bool> {
        let (near, mut far) = std::os::unix::net::UnixStream::pair()?;
        far.write_all(&[0; LIMIT as usize + 1])?;
        self.receive_some(&near, 0);
        self.enter_idle(Wait::Not)?;
        let mut reports = Vec::new();
        self.collect(&mut reports);
        Ok(matches!(
            reports.last(),
            Some(Report::Received { what: Received::Bytes(_), goes_on: false, .. })
        ))
    }

    /// Takes connections from a listener until told to stop; it is called `number` in reports.
    pub(crate) fn accept(&mut self, listener: impl AsFd, number: u64) {
        let accept = opcode::AcceptMulti::new(fd(listener));
        let accept = accept.flags(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK).build();
        self.ask(accept.user_data(Kind::Accept.with(number)));
    }

    /// Receives from a socket until told to stop, or until [`LIMIT`] bytes have come: what a peer can make
    /// us hold before anybody can stop it. A kernel without such a limit (before Linux 6.18) receives once.
    pub(crate) fn receive_some(&mut self, socket: impl AsFd, number: u64) {
        let receive = if self.knows_limit {
            limited(opcode::RecvMulti::new(fd(socket), GROUP).build())
        } else {
            // The length is the buffer's.
            let receive = opcode::Recv::new(fd(socket), std::ptr::null_mut(), 0).buf_group(GROUP);
            receive.build().flags(Flags::BUFFER_SELECT)
        };
        self.ask(receive.user_data(Kind::Receive.with(number)));
    }

    /// Receives from a socket until told to stop. A peer may fill all buffers before anybody can.
    pub(crate) fn receive(&mut self, socket: impl AsFd, number: u64) {
        let receive = opcode::RecvMulti::new(fd(socket), GROUP).build();
        self.ask(receive.user_data(Kind::Receive.with(number)));
    }

    /// Reports once when there is room to send, or nobody to send to.
    pub(crate) fn await_room(&mut self, socket: impl AsFd, number: u64) {
        let poll = opcode::PollAdd::new(fd(socket), flags(libc::POLLOUT)).build();
        self.ask(poll.user_data(Kind::Poll.with(number)));
    }

    /// Reports whenever there is something to read.
    pub(crate) fn watch(&mut self, source: impl AsFd, number: u64) {
        let poll = opcode::PollAdd::new(fd(source), flags(libc::POLLIN)).multi(true).build();
        self.ask(poll.user_data(Kind::Poll.with(number)));
    }

    /// Ends [`Ring::accept`], which will be reported not to go on.
    pub(crate) fn cancel_accept(&mut self, number: u64) {
        self.cancel(Kind::Accept.with(number));
    }

    /// Ends [`Ring::receive`], which will be reported as cancelled if nothing else ends it first.
    pub(crate) fn cancel_receive(&mut self, number: u64) {
        self.cancel(Kind::Receive.with(number));
    }

    /// Ends [`Ring::await_room`].
    pub(crate) fn cancel_room(&mut self, number: u64) {
        self.cancel(Kind::Poll.with(number));
    }

    fn cancel(&mut self, user_data: u64) {
        let cancel = opcode::AsyncCancel::new(user_data).build().flags(Flags::SKIP_SUCCESS);
        self.ask(cancel.user_data(Kind::Silent.with(0)));
    }

    /// Closes a socket. What is under way for it has to be cancelled before, because it holds it open.
    pub(crate) fn close(&mut self, socket: OwnedFd) {
        let close = opcode::Close::new(Fd(socket.into_raw_fd())).build();
        self.ask(close.flags(Flags::SKIP_SUCCESS).user_data(Kind::Silent.with(0)));
    }

    /// What a receive has brought.
    pub(crate) fn bytes(&self, filled: &Filled) -> &[u8] {
        self.buffers.as_ref().map_or(&[], |buffers| buffers.bytes(filled))
    }

    /// Lends a buffer to the kernel again, from the next [`Ring::enter`] on.
    pub(crate) fn give_back(&mut self, filled: Filled) {
        if let Some(buffers) = &mut self.buffers {
            buffers.give_back(filled);
        }
    }

    /// Hands over all that was asked for, sends what can be sent of each parcel, and waits for something to
    /// report. The kernel has no use for the parcels' bytes any more when this returns.
    ///
    /// # Errors
    /// The error of `io_uring_enter(2)`. The ring is of no use after one.
    pub(crate) fn enter<'a, P: Iterator<Item = &'a [u8]>>(
        &mut self,
        parcels: impl Iterator<Item = Parcel<'a, P>>,
        wait: Wait,
    ) -> io::Result<()> {
        if let Some(buffers) = &self.buffers {
            buffers.publish();
        }
        for request in std::mem::take(&mut self.waiting) {
            self.place(&request)?;
        }
        let mut messages = std::mem::take(&mut self.messages);
        messages.parcels.clear();
        messages.slices.clear();
        for Parcel { socket, bytes, index } in parcels {
            match bytes {
                Bytes::One(bytes) => {
                    let size = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
                    let send = opcode::Send::new(fd(socket), bytes.as_ptr(), size).flags(SEND);
                    self.place(&quiet(send.build(), index))?;
                }
                Bytes::Many(parts) => {
                    let start = messages.slices.len();
                    messages.slices.extend(parts.map(slice));
                    messages.parcels.push((fd(socket), index, start..messages.slices.len()));
                }
            }
        }
        let Messages { parcels, slices, headers } = &mut messages;
        // Neither list moves from here on.
        headers.clear();
        headers.extend(parcels.iter().map(|(.., range)| header(&slices[range.clone()])));
        for ((socket, index, _), header) in parcels.iter().zip(headers) {
            let send = opcode::SendMsg::new(*socket, std::ptr::from_ref(header));
            self.place(&quiet(send.flags(SEND.unsigned_abs()).build(), *index))?;
        }
        let outcome = self.submit(wait);
        self.messages = messages;
        outcome
    }

    /// As [`Ring::enter`] without parcels.
    pub(crate) fn enter_idle(&mut self, wait: Wait) -> io::Result<()> {
        self.enter(iter::empty::<Parcel<'_, iter::Empty<&[u8]>>>(), wait)
    }

    /// Moves all reports to the end of `reports`.
    pub(crate) fn collect(&mut self, reports: &mut Vec<Report>) {
        let Some(buffers) = &mut self.buffers else { return };
        let completions = self.io.completion();
        reports.extend(completions.filter_map(|completion| Report::read(&completion, buffers)));
    }

    /// Puts a request without an address into the queue.
    #[expect(unsafe_code, reason = "the queue takes requests of all kinds")]
    fn ask(&mut self, request: Request) {
        // SAFETY: the request holds no address.
        let pushed = unsafe { self.io.submission().push(&request) };
        if pushed.is_err() {
            self.waiting.push(request);
        }
    }

    /// Puts a request into the queue, and makes room for it where there is none.
    #[expect(unsafe_code, reason = "the kernel is handed addresses with a request")]
    fn place(&mut self, request: &Request) -> io::Result<()> {
        loop {
            // SAFETY: what a request from `enter` points to is borrowed or held until `submit` returns. By
            // then the kernel has seen it and does not keep it (`SEND`), or nothing will ever be submitted.
            if unsafe { self.io.submission().push(request) }.is_ok() {
                return Ok(());
            }
            self.submit(Wait::Not)?;
        }
    }

    /// Submits the whole queue.
    fn submit(&mut self, wait: Wait) -> io::Result<()> {
        let mut wait = wait;
        let mut outcome = self.call(wait);
        for _ in 0..TRIES_MAX {
            let is_hopeless = match &outcome {
                Ok(_) => false,
                Err(error) => !is_passing(error),
            };
            if is_hopeless {
                break;
            }
            if self.io.submission().is_empty() {
                return Ok(());
            }
            wait = Wait::Not;
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
            Wait::Long => submitter.submit_and_wait(1),
            Wait::For(time) => {
                let time = Timespec::from(time);
                submitter.submit_with_args(1, &SubmitArgs::new().timespec(&time))
            }
            Wait::Not => {
                let count = u32::try_from(self.io.submission().len()).unwrap_or(u32::MAX);
                let flags = EnterFlags::GETEVENTS.bits();
                // SAFETY: so many requests are in the queue, and there is no argument.
                unsafe { self.io.submitter().enter::<libc::sigset_t>(count, 0, flags, None) }
            }
        }
    }
}

impl Drop for Ring {
    /// Ends what is under way, because that would hold sockets open for a while after the ring is gone.
    fn drop(&mut self) {
        // Nobody could do anything about a failure; the kernel will clean up in its own time.
        let _submitted = self.enter_idle(Wait::Not);
        let time = Timespec::new().nsec(CANCEL_NS_MAX);
        let every = CancelBuilder::any();
        let _cancelled = self.io.submitter().register_sync_cancel(Some(time), every);
        // What was cancelled lets go of its socket when the ring is entered once more.
        let _let_go = self.enter_idle(Wait::Not);
        // A connection that was taken meanwhile is closed with its report.
        self.collect(&mut Vec::new());
        if let Some(buffers) = self.buffers.take() {
            buffers.retire(&self.io.submitter());
        }
    }
}

/// Whether waiting or trying again is all that an error of `io_uring_enter(2)` asks for.
fn is_passing(error: &io::Error) -> bool {
    let passing = [libc::ETIME, libc::EINTR, libc::EAGAIN, libc::EBUSY];
    error.raw_os_error().is_some_and(|code| passing.contains(&code))
}

/// Opens a ring and finds out whether the kernel keeps its promises about sends.
///
/// # Errors
/// Whatever is missing.
pub(super) fn try_out() -> io::Result<()> {
    let mut ring = Ring::new()?;
    let (near, far) = std::os::unix::net::UnixStream::pair()?;
    let more_than_fits = vec![0; 4 * 1024 * 1024];
    let parcel = |bytes, index| Parcel { socket: near.as_fd(), bytes, index };
    let whole = parcel(Bytes::One(&more_than_fits[..1]), 1);
    let short = parcel(Bytes::Many(iter::once(&more_than_fits[..])), 2);
    ring.enter([whole, short].into_iter(), Wait::Not)?;
    let mut reports = Vec::new();
    ring.collect(&mut reports);
    drop(far);
    match reports[..] {
        [Report::Short { index: 2, outcome: Ok(1..) }] => Ok(()),
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}
