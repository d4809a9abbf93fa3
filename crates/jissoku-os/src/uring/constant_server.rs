//! A stream server with constant responses, as a lower bound for benchmarks.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use io_uring::cqueue::{Entry as Cqe, buffer_select, more};
use io_uring::squeue::{Entry as Sqe, Flags};
use io_uring::types::Fd;
use io_uring::{SubmissionQueue, Submitter, opcode};

use super::buffers::{BufferLease, Buffers, GROUP};
use crate::socket;

/// The kind of a request in its user data; the descriptor is in the lower half.
const KINDS: u64 = 0xffff_ffff << 32;
const HALT: u64 = 1 << 32;
const ACCEPT: u64 = 2 << 32;
const RECEIVE: u64 = 3 << 32;
const SEND: u64 = 4 << 32;

/// Takes connections from `listeners` and answers them, until `halt` becomes readable.
///
/// `respond` is called with the received bytes of a connection, or `None` at its end, and returns
/// how many bytes from the front of `answers` are to be sent. Connections are numbered by
/// descriptor. Responses to a peer that does not read may be reordered.
///
/// # Errors
/// The error of `io_uring_setup(2)`, `io_uring_register(2)` or `io_uring_enter(2)`.
pub fn serve_constant(
    listeners: &[OwnedFd],
    halt: BorrowedFd<'_>,
    answers: Box<[u8]>,
    respond: impl FnMut(usize, Option<&[u8]>) -> usize,
) -> io::Result<()> {
    let mut ring = super::open()?;
    for listener in listeners {
        // Inherited by connections. Unix sockets have no such option.
        let _set = socket::set_nodelay(listener);
    }
    // The kernel may read them until after the ring is closed, so they are never freed.
    let answers: &'static [u8] = Box::leak(answers);
    let buffers = Buffers::register(&ring.submitter())?;
    let (submitter, queue, mut completions) = ring.split();
    let mut server =
        Server { submitter, queue, buffers, answers, respond, connections: Vec::new() };
    let readable = u32::try_from(libc::POLLIN | libc::POLLHUP).unwrap_or(0);
    server.push(&opcode::PollAdd::new(Fd(halt.as_raw_fd()), readable).build().user_data(HALT));
    for listener in listeners {
        server.accept(listener.as_raw_fd());
    }
    loop {
        server.queue.sync();
        match server.submitter.submit_and_wait(1) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            Ok(_) | Err(_) => {}
        }
        completions.sync();
        for completion in &mut completions {
            if completion.user_data() == HALT {
                return Ok(());
            }
            server.complete(&completion);
        }
        server.buffers.publish();
    }
}

struct Server<'ring, R> {
    submitter: Submitter<'ring>,
    queue: SubmissionQueue<'ring>,
    buffers: Buffers,
    answers: &'static [u8],
    respond: R,
    /// By descriptor.
    connections: Vec<Option<OwnedFd>>,
}

impl<R: FnMut(usize, Option<&[u8]>) -> usize> Server<'_, R> {
    fn complete(&mut self, completion: &Cqe) {
        let (kind, number) = (completion.user_data() & KINDS, completion.user_data() & !KINDS);
        let descriptor = RawFd::try_from(number).unwrap_or(-1);
        let continues = more(completion.flags());
        match (kind, completion.result()) {
            (ACCEPT, result) => {
                if result >= 0 {
                    self.begin(result);
                }
                if !continues {
                    self.accept(descriptor);
                }
            }
            (RECEIVE, result) if result > 0 => {
                self.received(descriptor, result, completion.flags());
                if !continues {
                    self.receive(descriptor);
                }
            }
            // All buffers were in use; they are back before the next wait.
            (RECEIVE, result) if result == -libc::ENOBUFS => self.receive(descriptor),
            (RECEIVE, _) => self.end(descriptor),
            // A send that failed is followed by the receive's end.
            _ => {}
        }
    }

    #[expect(unsafe_code, reason = "a descriptor comes back from the kernel as a number")]
    fn begin(&mut self, descriptor: RawFd) {
        // SAFETY: the kernel has just created this descriptor for us, and it has no other owner.
        let socket = unsafe { OwnedFd::from_raw_fd(descriptor) };
        let index = usize::try_from(descriptor).unwrap_or(0);
        if self.connections.len() <= index {
            self.connections.resize_with(index + 1, || None);
        }
        self.connections[index] = Some(socket);
        self.receive(descriptor);
    }

    fn received(&mut self, descriptor: RawFd, size: i32, flags: u32) {
        let Some(id) = buffer_select(flags) else { return };
        let index = usize::try_from(descriptor).unwrap_or(0);
        let lease = BufferLease::new(id, size);
        let wanted = (self.respond)(index, Some(self.buffers.bytes(&lease)));
        self.buffers.release(lease);
        let count = u32::try_from(wanted.min(self.answers.len())).unwrap_or(0);
        if count > 0 {
            let whole = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
            let send = opcode::Send::new(Fd(descriptor), self.answers.as_ptr(), count).flags(whole);
            let user_data = SEND | u64::from(descriptor.unsigned_abs());
            self.push(&send.build().flags(Flags::SKIP_SUCCESS).user_data(user_data));
        }
    }

    fn end(&mut self, descriptor: RawFd) {
        let index = usize::try_from(descriptor).unwrap_or(0);
        (self.respond)(index, None);
        if let Some(place) = self.connections.get_mut(index) {
            *place = None;
        }
    }

    fn accept(&mut self, listener: RawFd) {
        let user_data = ACCEPT | u64::from(listener.unsigned_abs());
        let accept = opcode::AcceptMulti::new(Fd(listener)).flags(libc::SOCK_CLOEXEC);
        self.push(&accept.build().user_data(user_data));
    }

    fn receive(&mut self, descriptor: RawFd) {
        let user_data = RECEIVE | u64::from(descriptor.unsigned_abs());
        self.push(&opcode::RecvMulti::new(Fd(descriptor), GROUP).build().user_data(user_data));
    }

    #[expect(unsafe_code, reason = "the kernel is handed addresses with a request")]
    fn push(&mut self, request: &Sqe) {
        loop {
            // SAFETY: the requests made here hold no address but that of `answers`, which is never
            // freed.
            let pushed = unsafe { self.queue.push(request) };
            if pushed.is_ok() {
                return;
            }
            // The queue is full. A failure to submit now is met again, and told, at the next wait.
            self.queue.sync();
            let _submitted = self.submitter.submit();
            self.queue.sync();
        }
    }
}
