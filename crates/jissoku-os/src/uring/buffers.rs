//! Provided receive buffers.

use std::io;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use io_uring::Submitter;

/// Number and size of buffers, together 1 MiB: more would not stay in the cache.
const COUNT: usize = 256;
const SIZE: usize = 4096;

/// The buffer group.
pub(super) const GROUP: u16 = 0;

/// An entry of the buffer ring (`struct io_uring_buf`). The last field of the first entry is the
/// tail.
#[repr(C)]
#[derive(Debug, Default)]
struct Entry {
    address: AtomicU64,
    size: AtomicU32,
    id: AtomicU16,
    tail: AtomicU16,
}

/// The buffer ring, which must be page-aligned.
#[repr(C, align(4096))]
#[derive(Debug)]
struct Entries([Entry; COUNT]);

/// A filled buffer, owned until it is released. A dropped lease is lost to the ring.
#[derive(Debug)]
#[must_use]
pub(crate) struct BufferLease {
    id: u16,
    size: u32,
}

impl BufferLease {
    /// For a buffer id that the kernel has just reported: there is no other lease of it.
    pub(super) fn new(id: u16, size: i32) -> Self {
        Self { id, size: u32::try_from(size).unwrap_or(0) }
    }
}

/// The buffers of a ring. The kernel may write to them until [`Buffers::unregister`], so dropping
/// leaks them.
#[derive(Debug)]
pub(super) struct Buffers {
    entries: &'static Entries,
    memory: *mut [u8; COUNT * SIZE],
    tail: u16,
}

impl Buffers {
    /// Registers all buffers.
    #[expect(unsafe_code, reason = "the kernel is handed the address of the buffers")]
    pub(super) fn register(submitter: &Submitter<'_>) -> io::Result<Self> {
        let entries: &'static Entries =
            Box::leak(Box::new(Entries(std::array::from_fn(|_| Entry::default()))));
        let memory = vec![0_u8; COUNT * SIZE].into_boxed_slice();
        let memory = Box::into_raw(memory).cast();
        let address = std::ptr::from_ref(entries) as u64;
        let count = u16::try_from(COUNT).unwrap_or(u16::MAX);
        // SAFETY: there are `COUNT` entries, they begin on a page, and live until `unregister`.
        unsafe { submitter.register_buf_ring_with_flags(address, count, GROUP, 0) }?;
        let mut buffers = Self { entries, memory, tail: 0 };
        (0..count).for_each(|id| buffers.provide(id));
        buffers.publish();
        Ok(buffers)
    }

    /// The bytes of a filled buffer.
    #[expect(unsafe_code, reason = "the kernel has written where only a number points to")]
    pub(super) fn bytes(&self, lease: &BufferLease) -> &[u8] {
        let size = lease.size as usize;
        debug_assert!(usize::from(lease.id) < COUNT && size <= SIZE);
        let start = usize::from(lease.id) % COUNT * SIZE;
        // SAFETY: `start` is below the length of the allocation, by the remainder above.
        let first = unsafe { self.memory.cast::<u8>().add(start) };
        // SAFETY: the memory is initialised, lives as long as `self`, and the kernel leaves this
        // buffer alone until it is given back, which takes `lease`; at most one buffer's length is
        // looked at.
        unsafe { std::slice::from_raw_parts(first, size.min(SIZE)) }
    }

    /// Returns a buffer to the ring; visible to the kernel after [`Buffers::publish`].
    #[expect(clippy::needless_pass_by_value, reason = "releasing consumes the lease")]
    pub(super) fn release(&mut self, lease: BufferLease) {
        self.provide(lease.id);
    }

    fn provide(&mut self, id: u16) {
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

    /// Unregisters the buffers and frees their memory.
    ///
    /// Must be called on the thread that enters the ring: with deferred task work no receive is
    /// active then, and none can select a buffer later.
    #[expect(unsafe_code, reason = "memory that the kernel knew goes back to the allocator")]
    pub(super) fn unregister(self, submitter: &Submitter<'_>) {
        if submitter.unregister_buf_ring(GROUP).is_err() {
            return;
        }
        let entries = std::ptr::from_ref(self.entries).cast_mut();
        // SAFETY: it came from a box in `register`, and neither we nor the kernel refer to it any
        // more.
        drop(unsafe { Box::from_raw(entries) });
        // SAFETY: as above; a slice of bytes and an array of as many have the same layout.
        drop(unsafe { Box::from_raw(self.memory) });
    }
}
