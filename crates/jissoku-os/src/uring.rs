//! Completion: a whole stream server over `io_uring(7)`, for those who answer with constant bytes.
//!
//! Multishot accepts and receives, a small ring of receive buffers, sends whose success is not reported,
//! and task work deferred to the one call per loop that submits and waits. Needs Linux 6.1.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use io_uring::cqueue::{Entry as Completion, buffer_select, more};
use io_uring::squeue::{Entry as Request, Flags};
use io_uring::types::Fd;
use io_uring::{IoUring, SubmissionQueue, Submitter, opcode};

use crate::socket;

/// Requests and completions that fit into the queues.
const REQUESTS: u32 = 1024;
const COMPLETIONS: u32 = 8192;

/// Receive buffers, together 1 MiB: more would not stay in the cache.
const BUFFERS: usize = 256;
const BUFFER_SIZE: usize = 4096;

/// The one group of buffers.
const GROUP: u16 = 0;

/// What a completion is about; the descriptor or number it concerns is in the lower half.
const KINDS: u64 = 0xffff_ffff << 32;
const HALT: u64 = 1 << 32;
const ACCEPT: u64 = 2 << 32;
const RECEIVE: u64 = 3 << 32;
const SEND: u64 = 4 << 32;

/// Whether this kernel has what [`answer`] needs, and lets us use it. Deferred task work is the youngest
/// part of it.
#[must_use]
pub fn is_available() -> bool {
    open().is_ok()
}

/// Takes connections from `listeners` and answers them, until `halt` becomes readable.
///
/// `respond` is told of each piece of bytes of a connection, `None` at its end, and says how many bytes
/// from the front of `answers` are to be sent. Connections are numbered by their descriptors. Answers to
/// a peer that does not read may overtake each other.
///
/// # Errors
/// The error of `io_uring_setup(2)`, `io_uring_register(2)` or `io_uring_enter(2)`.
pub fn answer(
    listeners: &[OwnedFd],
    halt: BorrowedFd<'_>,
    answers: Box<[u8]>,
    respond: impl FnMut(usize, Option<&[u8]>) -> usize,
) -> io::Result<()> {
    let mut ring = open()?;
    for listener in listeners {
        // Connections inherit it. On a Unix socket there is no such option, and no need for it.
        let _set = socket::send_at_once(listener);
    }
    // The kernel may read them until after the ring is closed, so they are never given back.
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

fn open() -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    builder.setup_single_issuer().setup_defer_taskrun().setup_cqsize(COMPLETIONS);
    builder.build(REQUESTS)
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
    fn complete(&mut self, completion: &Completion) {
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
        // SAFETY: the kernel has just made this descriptor for us and tells nobody else of it.
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
        let size = usize::try_from(size).unwrap_or(0);
        let wanted = (self.respond)(index, Some(self.buffers.filled(id, size)));
        self.buffers.give_back(id);
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
    fn push(&mut self, request: &Request) {
        loop {
            // SAFETY: the requests made here hold no address but that of `answers`, which is never freed.
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

/// One entry of the ring in which the kernel finds free buffers (`struct io_uring_buf`). The first
/// entry's last field is the ring's tail.
#[repr(C)]
#[derive(Debug, Default)]
struct Entry {
    address: AtomicU64,
    size: AtomicU32,
    id: AtomicU16,
    tail: AtomicU16,
}

/// The ring, which must begin on a page.
#[repr(C, align(4096))]
#[derive(Debug)]
struct Ring {
    entries: [Entry; BUFFERS],
}

/// Receive buffers that the kernel fills and we empty.
#[derive(Debug)]
struct Buffers {
    ring: &'static Ring,
    memory: *mut u8,
    tail: u16,
}

impl Buffers {
    /// Lends all buffers to the kernel. It may write to them until after the ring is closed, so they
    /// are never given back to the allocator.
    #[expect(unsafe_code, reason = "the kernel is handed the address of the buffers")]
    fn register(submitter: &Submitter<'_>) -> io::Result<Self> {
        let entries = std::array::from_fn(|_| Entry::default());
        let ring: &'static Ring = Box::leak(Box::new(Ring { entries }));
        let memory = Box::leak(vec![0_u8; BUFFERS * BUFFER_SIZE].into_boxed_slice()).as_mut_ptr();
        let address = std::ptr::from_ref(ring) as u64;
        let count = u16::try_from(BUFFERS).unwrap_or(u16::MAX);
        // SAFETY: the ring has `BUFFERS` entries, begins on a page, and lives as long as the process.
        unsafe { submitter.register_buf_ring_with_flags(address, count, GROUP, 0) }?;
        let mut buffers = Self { ring, memory, tail: 0 };
        (0..count).for_each(|id| buffers.give_back(id));
        buffers.publish();
        Ok(buffers)
    }

    /// What the kernel has put into a buffer that it handed to us and that was not given back since.
    #[expect(unsafe_code, reason = "the kernel has written where only a number points to")]
    fn filled(&self, id: u16, size: usize) -> &[u8] {
        debug_assert!(usize::from(id) < BUFFERS && size <= BUFFER_SIZE);
        let start = usize::from(id) % BUFFERS * BUFFER_SIZE;
        // SAFETY: `start` is below the length of the allocation, by the remainder above.
        let first = unsafe { self.memory.add(start) };
        // SAFETY: the buffer's memory is initialised, lives for ever, and the kernel leaves it alone
        // until it is given back; at most one buffer's length is looked at.
        unsafe { std::slice::from_raw_parts(first, size.min(BUFFER_SIZE)) }
    }

    /// Puts a buffer back into the ring; the kernel sees it after [`Buffers::publish`].
    fn give_back(&mut self, id: u16) {
        let entry = &self.ring.entries[usize::from(self.tail) % BUFFERS];
        let address = self.memory as u64 + (usize::from(id) * BUFFER_SIZE) as u64;
        entry.address.store(address, Ordering::Relaxed);
        entry.size.store(u32::try_from(BUFFER_SIZE).unwrap_or(0), Ordering::Relaxed);
        entry.id.store(id, Ordering::Relaxed);
        self.tail = self.tail.wrapping_add(1);
    }

    fn publish(&self) {
        self.ring.entries[0].tail.store(self.tail, Ordering::Release);
    }
}
