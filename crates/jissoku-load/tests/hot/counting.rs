//! The system's allocator, with a count of allocations.

#![expect(unsafe_code, reason = "an allocator is unsafe to write, and nothing else can count")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

#[global_allocator]
static ALLOCATOR: Counting = Counting { allocations: AtomicU64::new(0) };

thread_local! {
    static IS_LEFT_OUT: Cell<bool> = const { Cell::new(false) };
}

struct Counting {
    allocations: AtomicU64,
}

impl Counting {
    fn count(&self) {
        // The thread-local is destroyed when the thread is ending.
        if !IS_LEFT_OUT.try_with(Cell::get).unwrap_or(true) {
            self.allocations.fetch_add(1, Ordering::SeqCst);
        }
    }
}

// SAFETY: everything is the system's allocator's; counting allocates nothing and touches no memory of its.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.count();
        // SAFETY: the caller keeps the contract of this function, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of this function, which is the same.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        self.count();
        // SAFETY: the caller keeps the contract of this function, which is the same.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// The number of allocations of all threads that are counted.
pub(crate) fn allocations() -> u64 {
    ALLOCATOR.allocations.load(Ordering::SeqCst)
}

/// Stops counting the current thread.
pub(crate) fn leave_this_thread_out() {
    IS_LEFT_OUT.set(true);
}
