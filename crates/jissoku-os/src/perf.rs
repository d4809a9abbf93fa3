//! Sampling of running threads with `perf_event_open(2)`: events, each of one thread or of everything
//! that runs, on one core, and the ring buffers that the kernel writes their records to. What the
//! records say is read elsewhere, from bytes alone.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// `PERF_TYPE_HARDWARE` and `PERF_TYPE_SOFTWARE` of `linux/perf_event.h`.
const TYPE_HARDWARE: u32 = 0;
const TYPE_SOFTWARE: u32 = 1;
const HARDWARE_CYCLES: u64 = 0;
const SOFTWARE_CPU_CLOCK: u64 = 0;

/// `PERF_SAMPLE_*`: the order of the fields in a record follows from these.
const SAMPLE_IP: u64 = 1;
const SAMPLE_TID: u64 = 1 << 1;
const SAMPLE_TIME: u64 = 1 << 2;
const SAMPLE_CALLCHAIN: u64 = 1 << 5;
const SAMPLE_REGS_USER: u64 = 1 << 12;
const SAMPLE_STACK_USER: u64 = 1 << 13;

/// Bits of the flag word.
const DISABLED: u64 = 1;
const INHERIT: u64 = 1 << 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HV: u64 = 1 << 6;
const EXCLUDE_IDLE: u64 = 1 << 7;
const MMAP: u64 = 1 << 8;
const COMM: u64 = 1 << 9;
const TASK: u64 = 1 << 13;
const WATERMARK: u64 = 1 << 14;
const SAMPLE_ID_ALL: u64 = 1 << 18;
const MMAP2: u64 = 1 << 23;
const COMM_EXEC: u64 = 1 << 24;
const USE_CLOCK_ID: u64 = 1 << 25;
const CONTEXT_SWITCH: u64 = 1 << 26;

const FLAG_FD_CLOEXEC: u64 = 1 << 3;

/// `PERF_EVENT_IOC_*`.
const IOC_ENABLE: libc::Ioctl = 0x2400;
const IOC_DISABLE: libc::Ioctl = 0x2401;
const IOC_SET_OUTPUT: libc::Ioctl = 0x2405;

/// All general registers and the instruction pointer, as `asm/perf_regs.h` numbers them: assembler
/// functions keep the address of their frame in any of them.
#[cfg(target_arch = "x86_64")]
const REGISTERS: u64 = 0x1ff | 0xff << 16;
/// Frame pointer, link register, stack pointer and program counter.
#[cfg(target_arch = "aarch64")]
const REGISTERS: u64 = 1 << 29 | 1 << 30 | 1 << 31 | 1 << 32;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const REGISTERS: u64 = 0;

/// `struct perf_event_attr` as of Linux 4.1 (`PERF_ATTR_SIZE_VER5`, 112 bytes).
#[repr(C)]
#[derive(Debug, Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_watermark: u32,
    breakpoint_type: u32,
    breakpoint_address: u64,
    breakpoint_length: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clock: i32,
    sample_regs_intr: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved: u16,
}

const ATTRIBUTES_SIZE: u32 = 112;
const _: () = assert!(size_of::<Attributes>() == ATTRIBUTES_SIZE as usize);

/// The quantity whose growth triggers samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// CPU time of the thread, in nanoseconds, by a timer of the kernel.
    CpuTime,
    /// Cycles of the core, by a counter of the hardware.
    Cycles,
}

/// Which part of a thread is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// User space and the kernel, which `perf_event_paranoid` may not allow.
    Everything,
    /// User space only.
    UserSpace,
}

/// How samples are taken.
#[derive(Clone, Copy, Debug)]
pub struct EventOptions {
    /// The quantity that is counted between samples.
    pub clock: Clock,
    /// A sample is taken after this many nanoseconds or cycles.
    pub period: u64,
    /// Which part is sampled.
    pub scope: Scope,
    /// Bytes of the user stack copied with each sample, for unwinding; a multiple of eight below
    /// 65,536.
    pub stack_size: u32,
    /// The reader is woken when a ring buffer holds this many bytes.
    pub wakeup_size: u32,
    /// Whether there is a record whenever a thread is put on the core or taken off it. Times are then
    /// those of [`crate::clock::monotonic_ns`].
    pub switches: bool,
}

/// An event; closed when dropped.
#[derive(Debug)]
pub struct Event {
    descriptor: OwnedFd,
}

/// The threads that an event on a core observes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A thread, and threads and processes it starts later. A timer is set and cancelled at each of
    /// their context switches.
    Thread(i32),
    /// Everything that runs there but the idle task, which needs `CAP_PERFMON` or a
    /// `perf_event_paranoid` of 0. A timer runs all the time.
    Core,
}

/// Opens an event on one core; disabled at first. Records hold, in this order: instruction pointer,
/// process and thread, time, call chain, registers, stack.
///
/// # Errors
/// The error of `perf_event_open(2)`: `EACCES` or `EPERM` without permission, `ESRCH` for a thread
/// that has ended, `ENOENT` for a counter that the hardware lacks.
pub fn open(subject: Subject, core: usize, options: &EventOptions) -> io::Result<Event> {
    let (kind, config) = match options.clock {
        Clock::CpuTime => (TYPE_SOFTWARE, SOFTWARE_CPU_CLOCK),
        Clock::Cycles => (TYPE_HARDWARE, HARDWARE_CYCLES),
    };
    let scope = match options.scope {
        Scope::Everything => EXCLUDE_HV,
        Scope::UserSpace => EXCLUDE_HV | EXCLUDE_KERNEL,
    };
    let unwinding = if REGISTERS == 0 || options.stack_size == 0 {
        0
    } else {
        SAMPLE_REGS_USER | SAMPLE_STACK_USER
    };
    let (thread, extent) = match subject {
        Subject::Thread(thread) => (thread, INHERIT),
        Subject::Core => (-1, EXCLUDE_IDLE),
    };
    let switches = if options.switches { CONTEXT_SWITCH | USE_CLOCK_ID } else { 0 };
    let notices = MMAP | MMAP2 | COMM | COMM_EXEC | TASK | SAMPLE_ID_ALL | switches;
    let attributes = Attributes {
        kind,
        size: ATTRIBUTES_SIZE,
        config,
        sample_period: options.period,
        sample_type: SAMPLE_IP | SAMPLE_TID | SAMPLE_TIME | SAMPLE_CALLCHAIN | unwinding,
        flags: DISABLED | WATERMARK | extent | notices | scope,
        wakeup_watermark: options.wakeup_size,
        sample_regs_user: if unwinding == 0 { 0 } else { REGISTERS },
        sample_stack_user: if unwinding == 0 { 0 } else { options.stack_size },
        clock: libc::CLOCK_MONOTONIC,
        ..Attributes::default()
    };
    let core = i32::try_from(core).map_err(|_| io::ErrorKind::InvalidInput)?;
    Ok(Event { descriptor: perf_event_open(&attributes, thread, core)? })
}

impl Event {
    /// Begins to count.
    ///
    /// # Errors
    /// The error of `ioctl(2)`.
    pub fn enable(&self) -> io::Result<()> {
        self.control(IOC_ENABLE, 0)
    }

    /// Counts no further until enabled again; what was counted is kept.
    ///
    /// # Errors
    /// The error of `ioctl(2)`.
    pub fn disable(&self) -> io::Result<()> {
        self.control(IOC_DISABLE, 0)
    }

    /// What an event of a thread has counted so far, with all threads and processes that inherited
    /// it: for [`Clock::CpuTime`] their CPU time in nanoseconds, also of those that ended before a
    /// sample.
    ///
    /// # Errors
    /// The error of `read(2)`.
    pub fn count(&self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        let read = rustix::io::read(&self.descriptor, &mut bytes)?;
        if read == bytes.len() {
            Ok(u64::from_ne_bytes(bytes))
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }

    /// Sends the records of this event to the ring buffer of another on the same core.
    ///
    /// # Errors
    /// The error of `ioctl(2)`.
    pub fn redirect(&self, to: &Self) -> io::Result<()> {
        self.control(IOC_SET_OUTPUT, to.descriptor.as_raw_fd())
    }

    #[expect(unsafe_code, reason = "there is no safe wrapper")]
    fn control(&self, request: libc::Ioctl, argument: i32) -> io::Result<()> {
        let descriptor = self.descriptor.as_raw_fd();
        // SAFETY: the descriptor is open as long as `self`, and both requests take an integer.
        let status = unsafe { libc::ioctl(descriptor, request, argument) };
        if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

#[expect(unsafe_code, reason = "there is no safe wrapper")]
fn perf_event_open(attributes: &Attributes, thread: i32, core: i32) -> io::Result<OwnedFd> {
    let no_group = -1;
    // SAFETY: the kernel reads `size` bytes of the attributes, which is what they have.
    let opened = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            std::ptr::from_ref(attributes),
            thread,
            core,
            no_group,
            FLAG_FD_CLOEXEC,
        )
    };
    let descriptor = i32::try_from(opened).ok().filter(|&descriptor| descriptor >= 0);
    let descriptor = descriptor.ok_or_else(io::Error::last_os_error)?;
    // SAFETY: the call has just returned this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

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
