//! The system's allocator with counters.

#![expect(unsafe_code, reason = "an allocator is unsafe to write, and nothing else can count")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

#[global_allocator]
static ALLOCATOR: Counting = Counting { allocations: AtomicU64::new(0), held: AtomicU64::new(0) };

thread_local! {
    static IS_LEFT_OUT: Cell<bool> = const { Cell::new(false) };
}

struct Counting {
    allocations: AtomicU64,
    /// Bytes that were allocated and not freed; it wraps below zero, because only differences mean
    /// anything.
    held: AtomicU64,
}

impl Counting {
    fn count(&self, allocations: u64, had: usize, given_back: usize) {
        // A thread that has destroyed its variables is ending.
        if !IS_LEFT_OUT.try_with(Cell::get).unwrap_or(true) {
            self.allocations.fetch_add(allocations, Ordering::SeqCst);
            self.held.fetch_add(had as u64, Ordering::SeqCst);
            self.held.fetch_sub(given_back as u64, Ordering::SeqCst);
        }
    }
}

// SAFETY: all calls are forwarded to the system's allocator; counting allocates nothing and
// accesses none of its memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.count(1, layout.size(), 0);
        // SAFETY: the caller keeps the contract of this function, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        self.count(0, 0, layout.size());
        // SAFETY: the caller keeps the contract of this function, which is the same.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        self.count(1, size, layout.size());
        // SAFETY: the caller keeps the contract of this function, which is the same.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// Number of allocations by all threads that are not excluded.
pub(crate) fn allocations() -> u64 {
    ALLOCATOR.allocations.load(Ordering::SeqCst)
}

/// Bytes that threads that are not excluded hold in addition to `before`.
pub(crate) fn held_since(before: u64) -> u64 {
    ALLOCATOR.held.load(Ordering::SeqCst).wrapping_sub(before)
}

/// Excludes this thread from now on.
pub(crate) fn exclude_this_thread() {
    IS_LEFT_OUT.set(true);
}
