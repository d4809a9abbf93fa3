//! The system's allocator, and a count of what is asked of it.

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
    /// Bytes that were had and not given back; it wraps below zero, where only differences mean
    /// anything.
    held: AtomicU64,
}

impl Counting {
    fn count(&self, allocations: u64, had: usize, given_back: usize) {
        // A thread that has destroyed its variables is ending, and no longer at work.
        if !IS_LEFT_OUT.try_with(Cell::get).unwrap_or(true) {
            self.allocations.fetch_add(allocations, Ordering::SeqCst);
            self.held.fetch_add(had as u64, Ordering::SeqCst);
            self.held.fetch_sub(given_back as u64, Ordering::SeqCst);
        }
    }
}

// SAFETY: everything is the system's allocator's; counting allocates nothing and touches no memory
// of its.
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

/// How often memory was asked for, by all threads that are not left out.
pub(crate) fn allocations() -> u64 {
    ALLOCATOR.allocations.load(Ordering::SeqCst)
}

/// How many bytes more the threads that are not left out hold than when this was `before`.
pub(crate) fn held_since(before: u64) -> u64 {
    ALLOCATOR.held.load(Ordering::SeqCst).wrapping_sub(before)
}

/// Does not count this thread from now on.
pub(crate) fn leave_this_thread_out() {
    IS_LEFT_OUT.set(true);
}
