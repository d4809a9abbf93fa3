//! Receive buffers that the kernel chooses from, fills, and hands over.

use std::io;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use io_uring::Submitter;

/// Receive buffers, together 1 MiB: more would not stay in the cache.
const COUNT: usize = 256;
const SIZE: usize = 4096;

/// The one group of buffers.
pub(super) const GROUP: u16 = 0;

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
struct Entries([Entry; COUNT]);

/// A buffer that the kernel has filled and that is ours until it is given back. Dropped, it is lost to
/// the ring.
#[derive(Debug)]
#[must_use]
pub(crate) struct Filled {
    id: u16,
    size: u32,
}

impl Filled {
    /// For a buffer whose number the kernel has just reported: there is no second one of that number.
    pub(super) fn new(id: u16, size: i32) -> Self {
        Self { id, size: u32::try_from(size).unwrap_or(0) }
    }
}

/// All buffers of one ring. The kernel may write to them until [`Buffers::retire`], so merely dropped
/// they are never given back to the allocator.
#[derive(Debug)]
pub(super) struct Buffers {
    entries: &'static Entries,
    memory: *mut [u8; COUNT * SIZE],
    tail: u16,
}

impl Buffers {
    /// Lends all buffers to the kernel.
    #[expect(unsafe_code, reason = "the kernel is handed the address of the buffers")]
    pub(super) fn register(submitter: &Submitter<'_>) -> io::Result<Self> {
        let entries: &'static Entries =
            Box::leak(Box::new(Entries(std::array::from_fn(|_| Entry::default()))));
        let memory = vec![0_u8; COUNT * SIZE].into_boxed_slice();
        let memory = Box::into_raw(memory).cast();
        let address = std::ptr::from_ref(entries) as u64;
        let count = u16::try_from(COUNT).unwrap_or(u16::MAX);
        // SAFETY: there are `COUNT` entries, they begin on a page, and live until `retire`.
        unsafe { submitter.register_buf_ring_with_flags(address, count, GROUP, 0) }?;
        let mut buffers = Self { entries, memory, tail: 0 };
        (0..count).for_each(|id| buffers.lend(id));
        buffers.publish();
        Ok(buffers)
    }

    /// What the kernel has put into a buffer.
    #[expect(unsafe_code, reason = "the kernel has written where only a number points to")]
    pub(super) fn bytes(&self, filled: &Filled) -> &[u8] {
        let size = filled.size as usize;
        debug_assert!(usize::from(filled.id) < COUNT && size <= SIZE);
        let start = usize::from(filled.id) % COUNT * SIZE;
        // SAFETY: `start` is below the length of the allocation, by the remainder above.
        let first = unsafe { self.memory.cast::<u8>().add(start) };
        // SAFETY: the memory is initialised, lives as long as `self`, and the kernel leaves this buffer
        // alone until it is given back, which takes `filled`; at most one buffer's length is looked at.
        unsafe { std::slice::from_raw_parts(first, size.min(SIZE)) }
    }

    /// Puts a buffer back into the ring; the kernel sees it after [`Buffers::publish`].
    #[expect(clippy::needless_pass_by_value, reason = "who gives back has it no longer")]
    pub(super) fn give_back(&mut self, filled: Filled) {
        self.lend(filled.id);
    }

    fn lend(&mut self, id: u16) {
        let entry = &self.entries.0[usize::from(self.tail) % COUNT];
        let address = self.memory as u64 + (usize::from(id) * SIZE) as u64;
        entry.address.store(address, Ordering::Relaxed);
        entry.size.store(u32::try_from(SIZE).unwrap_or(0), Ordering::Relaxed);
        entry.id.store(id, Ordering::Relaxed);
        self.tail = self.tail.wrapping_add(1);
    }

    pub(super) fn publish(&self) {
        self.entries.0[0].tail.store(self.tail, Ordering::Release);
    }

    /// Takes the buffers from the kernel and gives their memory back.
    ///
    /// On the thread that enters the ring, because with deferred task work no receive is under way
    /// then, and without the registration none can find a buffer later.
    #[expect(unsafe_code, reason = "memory that the kernel knew goes back to the allocator")]
    pub(super) fn retire(self, submitter: &Submitter<'_>) {
        if submitter.unregister_buf_ring(GROUP).is_err() {
            return;
        }
        let entries = std::ptr::from_ref(self.entries).cast_mut();
        // SAFETY: it came from a box in `register`, and neither we nor the kernel refer to it any more.
        drop(unsafe { Box::from_raw(entries) });
        // SAFETY: as above; a slice of bytes and an array of as many have the same layout.
        drop(unsafe { Box::from_raw(self.memory) });
    }
}
