//! One event of one thread, or of everything that runs, on one core.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

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
const IOC_ENABLE: u64 = 0x2400;
const IOC_DISABLE: u64 = 0x2401;
const IOC_SET_OUTPUT: u64 = 0x2405;

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

/// What a sample is taken after.
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
    /// What is counted between samples.
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

/// What an event on a core is taken of.
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
    fn control(&self, request: u64, argument: i32) -> io::Result<()> {
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
