//! The ring buffer that the kernel shares with the reader of an event.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::event::Event;

/// Where `struct perf_event_mmap_page` keeps its positions, in bytes.
const HEAD_AT: usize = 1024;
const TAIL_AT: usize = 1032;

/// `struct perf_event_header`: type, misc, size.
const HEADER_SIZE: usize = 8;
const SIZE_AT: usize = 6;

/// A ring buffer of records; unmapped when dropped. The event is closed with it.
///
/// INVARIANT: `base` is a mapping of one page of positions and `size` bytes of data, `size` is a
/// power of two, and the mapping lives as long as `self`.
#[derive(Debug)]
pub struct Ring {
    event: Event,
    base: NonNull<u8>,
    page_size: usize,
    size: usize,
    /// A copy of the record that is being read.
    record: Vec<u8>,
}

impl Ring {
    /// Maps the ring buffer of an event, of at most `size_max` bytes. Where the kernel allows less
    /// memory (`perf_event_mlock_kb`), halves are tried down to `size_min`.
    ///
    /// # Errors
    /// The error of `mmap(2)`: `EPERM` where even the smallest is not allowed.
    pub fn map(event: Event, size_min: usize, size_max: usize) -> io::Result<Self> {
        let page_size = rustix::param::page_size();
        let mut size = size_max.max(page_size).next_power_of_two();
        loop {
            match map_shared(&event, page_size + size) {
                Ok(base) => return Ok(Self { event, base, page_size, size, record: Vec::new() }),
                Err(error)
                    if error.kind() == io::ErrorKind::PermissionDenied
                        && size / 2 >= size_min.max(page_size) =>
                {
                    size /= 2;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The event whose ring buffer this is.
    #[must_use]
    pub fn event(&self) -> &Event {
        &self.event
    }

    /// Hands over all records, oldest first, each with its header, and frees their room.
    pub fn drain(&mut self, mut on_record: impl FnMut(&[u8])) {
        let head = self.position(HEAD_AT).load(Ordering::Acquire);
        let mut tail = self.position(TAIL_AT).load(Ordering::Relaxed);
        let mut record = std::mem::take(&mut self.record);
        while head.wrapping_sub(tail) >= HEADER_SIZE as u64 {
            record.clear();
            self.copy(tail, HEADER_SIZE, &mut record);
            let size = usize::from(u16::from_ne_bytes([record[SIZE_AT], record[SIZE_AT + 1]]));
            // A size that cannot be right would be read for ever: the rest is given up.
            if size < HEADER_SIZE || size as u64 > head.wrapping_sub(tail) {
                tail = head;
                break;
            }
            self.copy(tail + HEADER_SIZE as u64, size - HEADER_SIZE, &mut record);
            on_record(&record);
            tail += size as u64;
            self.position(TAIL_AT).store(tail, Ordering::Release);
        }
        self.position(TAIL_AT).store(tail, Ordering::Release);
        self.record = record;
    }

    /// Appends `count` bytes from a position of the data, which may wrap.
    fn copy(&self, position: u64, count: usize, into: &mut Vec<u8>) {
        let mask = self.size as u64 - 1;
        let start = usize::try_from(position & mask).unwrap_or(0);
        let first = count.min(self.size - start);
        self.copy_slice(start, first, into);
        self.copy_slice(0, count - first, into);
    }

    #[expect(unsafe_code, reason = "the kernel writes to this memory")]
    fn copy_slice(&self, start: usize, count: usize, into: &mut Vec<u8>) {
        debug_assert!(start + count <= self.size, "the data ends at `size`");
        // SAFETY: the data begins one page after `base`, inside the mapping.
        let data = unsafe { self.base.add(self.page_size) };
        // SAFETY: `start <= size`, inside the mapping.
        let from = unsafe { data.add(start) };
        // SAFETY: `start + count <= size`, and the kernel does not write between tail and head,
        // where these bytes are, until the tail moves on, which this method does not do.
        let bytes = unsafe { std::slice::from_raw_parts(from.as_ptr(), count) };
        into.extend_from_slice(bytes);
    }

    #[expect(unsafe_code, reason = "the positions are in memory shared with the kernel")]
    fn position(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at == HEAD_AT || at == TAIL_AT, "only these are positions");
        // SAFETY: both offsets lie in the first page of the mapping.
        let position = unsafe { self.base.add(at) };
        // SAFETY: aligned to eight bytes as the offsets are, and valid as long as `self`; the
        // kernel accesses it atomically.
        unsafe { AtomicU64::from_ptr(position.as_ptr().cast()) }
    }
}

impl Drop for Ring {
    #[expect(unsafe_code, reason = "unmapping invalidates pointers")]
    fn drop(&mut self) {
        // SAFETY: the mapping is this ring's own, and no pointer into it outlives `self`.
        let _unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.page_size + self.size) };
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

#[expect(unsafe_code, reason = "a mapping has no owner the compiler knows of")]
fn map_shared(event: &Event, length: usize) -> io::Result<NonNull<u8>> {
    let flags = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the kernel chooses an address that nothing else uses.
    let base =
        unsafe { mmap(std::ptr::null_mut(), length, flags, MapFlags::SHARED, event.as_fd(), 0) }?;
    NonNull::new(base.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::super::{Clock, EventOptions, Scope, Subject, open};
    use super::*;

    /// `PERF_RECORD_SAMPLE`.
    const SAMPLE: u32 = 9;

    #[test]
    fn a_thread_that_computes_is_sampled() {
        let options = EventOptions {
            clock: Clock::CpuTime,
            period: 1_000_000,
            scope: Scope::UserSpace,
            stack_size: 0,
            wakeup_size: 4096,
            switches: false,
        };
        let core = crate::affinity::allowed().expect("affinity can be read")[0];
        crate::affinity::pin(&[core]).expect("an allowed core can be chosen");
        let event = match open(Subject::Thread(0), core, &options) {
            Ok(event) => event,
            Err(error) => return eprintln!("not allowed to sample here: {error}"),
        };
        let mut ring = Ring::map(event, 1 << 16, 1 << 16).expect("the buffer is mapped");
        ring.event().enable().expect("it is enabled");
        let mut sum = 0_u64;
        for number in 0..200_000_000_u64 {
            sum = black_box(sum.wrapping_add(number));
        }
        let mut samples = 0;
        ring.drain(|record| {
            let kind = u32::from_ne_bytes([record[0], record[1], record[2], record[3]]);
            samples += usize::from(kind == SAMPLE);
        });
        assert!(samples > 0);
        ring.drain(|_| ());
    }
}
