//! Records of a perf ring buffer: a pure function from bytes (`perf_event_open(2)`, "MMAP layout").
//!
//! The events sample instruction pointer, process and thread, time, call chain, and, where stacks
//! are copied, registers and stack; every other record ends with process, thread and time.

/// `PERF_RECORD_*` of `linux/perf_event.h`.
const LOST: u32 = 2;
const COMM: u32 = 3;
const EXIT: u32 = 4;
const THROTTLE: u32 = 5;
const FORK: u32 = 7;
const SAMPLE: u32 = 9;
const MMAP2: u32 = 10;
const SWITCH: u32 = 14;
const SWITCH_CPU_WIDE: u32 = 15;

/// `PERF_RECORD_MISC_COMM_EXEC`.
const MISC_COMM_EXEC: u16 = 1 << 13;
/// `PERF_RECORD_MISC_SWITCH_OUT`.
const MISC_SWITCH_OUT: u16 = 1 << 13;
/// `PERF_RECORD_MISC_SWITCH_OUT_PREEMPT`.
const MISC_SWITCH_OUT_PREEMPT: u16 = 1 << 14;
const PROTECTION_EXECUTE: u32 = 4;

/// `PERF_CONTEXT_*`: values above this are no addresses, but say what follows.
const CONTEXT_MIN: u64 = u64::MAX - 4094;
const CONTEXT_KERNEL: u64 = 0_u64.wrapping_sub(128);
const CONTEXT_USER: u64 = 0_u64.wrapping_sub(512);

/// Registers in a sample, as `jissoku_os::perf` asks for them.
#[cfg(target_arch = "x86_64")]
pub const REGISTERS: usize = 17;
/// Registers in a sample, as `jissoku_os::perf` asks for them.
#[cfg(not(target_arch = "x86_64"))]
pub const REGISTERS: usize = 4;

/// Whether samples hold registers and stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Call chain only.
    CallChain,
    /// Call chain, registers and a copy of the stack.
    WithStack,
}

/// An event that the kernel recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// A sample of the CPU time of a thread.
    Sample(Sample<'a>),
    /// A process mapped a file.
    Mmap(Mmap<'a>),
    /// A thread has a name now.
    Comm {
        /// The process.
        pid: i32,
        /// The thread.
        tid: i32,
        /// Its name, of up to fifteen bytes.
        name: &'a [u8],
        /// It runs another program now, so that all mappings are gone.
        is_exec: bool,
    },
    /// A thread or a process began.
    Fork {
        /// The process.
        pid: i32,
        /// The process that started it; the same for a thread.
        parent: i32,
        /// The thread.
        tid: i32,
        /// The thread that started it.
        parent_tid: i32,
        /// When, by the clock of the kernel's samples, in nanoseconds.
        time_ns: u64,
    },
    /// A thread has ended.
    Exit {
        /// The process; it has ended with its first thread, whose number is the same.
        pid: i32,
        /// The thread.
        tid: i32,
        /// When, by the clock of the kernel's samples, in nanoseconds.
        time_ns: u64,
    },
    /// This many records did not fit into the buffer.
    Lost(u64),
    /// The kernel took no samples for a while.
    Throttle,
    /// Nothing that matters here.
    Other,
}

/// A sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample<'a> {
    /// Instruction pointer.
    pub ip: u64,
    /// The process.
    pub pid: i32,
    /// The thread.
    pub tid: i32,
    /// Addresses in the kernel, innermost first; empty for a sample in user space.
    pub kernel: Addresses<'a>,
    /// Addresses in user space, innermost first, by frame pointers.
    pub user: Addresses<'a>,
    /// Registers of user space, in the order of `asm/perf_regs.h`.
    pub registers: Option<[u64; REGISTERS]>,
    /// The stack of user space from the stack pointer on.
    pub stack: &'a [u8],
    /// Whether more stack was to be had than was copied.
    pub stack_is_cut: bool,
}

/// A mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mmap<'a> {
    /// The process.
    pub pid: i32,
    /// First address.
    pub start: u64,
    /// Bytes.
    pub length: u64,
    /// Offset in the file.
    pub offset: u64,
    /// Whether it holds code.
    pub is_executable: bool,
    /// The file's path, or a name such as `//anon` or `[vdso]`.
    pub path: &'a [u8],
}

/// Addresses as they are in a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Addresses<'a> {
    bytes: &'a [u8],
}

impl Addresses<'_> {
    /// All of them, innermost first.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        let words = self.bytes.as_chunks().0.iter();
        words.map(|word| u64::from_ne_bytes(*word)).filter(|&address| address < CONTEXT_MIN)
    }
}

/// Reads a record; `None` if its bytes end too soon.
pub fn parse(record: &[u8], layout: Layout) -> Option<Record<'_>> {
    let mut fields = Fields { bytes: record };
    let kind = fields.u32()?;
    let (misc, _size) = (fields.u16()?, fields.u16()?);
    Some(match kind {
        SAMPLE => Record::Sample(sample(fields, layout)?),
        MMAP2 => Record::Mmap(mmap(fields)?),
        COMM => Record::Comm {
            pid: fields.i32()?,
            tid: fields.i32()?,
            name: fields.text(),
            is_exec: misc & MISC_COMM_EXEC != 0,
        },
        FORK => {
            let (pid, parent) = (fields.i32()?, fields.i32()?);
            let (tid, parent_tid) = (fields.i32()?, fields.i32()?);
            Record::Fork { pid, parent, tid, parent_tid, time_ns: fields.u64()? }
        }
        EXIT => {
            let (pid, _parent) = (fields.i32()?, fields.i32()?);
            let (tid, _parent_tid) = (fields.i32()?, fields.i32()?);
            Record::Exit { pid, tid, time_ns: fields.u64()? }
        }
        LOST => {
            let _id = fields.u64()?;
            Record::Lost(fields.u64()?)
        }
        THROTTLE => Record::Throttle,
        _ => Record::Other,
    })
}

/// A process and one of its threads.
pub type ThreadId = (i32, i32);

/// What a record says of the thread that has the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The thread.
    pub id: ThreadId,
    /// When that was, by the clock of the kernel's samples.
    pub time_ns: u64,
    /// It is taken off the core, or else has it.
    pub is_end: bool,
    /// It is taken off the core while it could have continued: it does not wait for anything.
    pub is_preempted: bool,
}

/// What a record says of the thread that has the core; `None` for most records.
pub fn turn(record: &[u8]) -> Option<Turn> {
    let mut fields = Fields { bytes: record };
    let kind = fields.u32()?;
    let (misc, _size) = (fields.u16()?, fields.u16()?);
    match kind {
        SWITCH => {}
        // An address, or the other thread of the switch.
        SAMPLE | SWITCH_CPU_WIDE => {
            let _other = fields.u64()?;
        }
        _ => return None,
    }
    let id = (fields.i32()?, fields.i32()?);
    let is_end = kind != SAMPLE && misc & MISC_SWITCH_OUT != 0;
    let is_preempted = is_end && misc & MISC_SWITCH_OUT_PREEMPT != 0;
    Some(Turn { id, time_ns: fields.u64()?, is_end, is_preempted })
}

fn sample(mut fields: Fields<'_>, layout: Layout) -> Option<Sample<'_>> {
    let ip = fields.u64()?;
    let (pid, tid) = (fields.i32()?, fields.i32()?);
    let _time = fields.u64()?;
    let count = usize::try_from(fields.u64()?).ok()?;
    let chain = fields.take(count.checked_mul(8)?)?;
    let (kernel, user) = split(chain);
    let mut sample =
        Sample { ip, pid, tid, kernel, user, registers: None, stack: &[], stack_is_cut: false };
    if layout == Layout::CallChain {
        return Some(sample);
    }
    let abi = fields.u64()?;
    if abi != 0 {
        let mut registers = [0; REGISTERS];
        for register in &mut registers {
            *register = fields.u64()?;
        }
        sample.registers = Some(registers);
    }
    let size = usize::try_from(fields.u64()?).ok()?;
    if size > 0 {
        let copied = fields.take(size)?;
        let used = usize::try_from(fields.u64()?).ok()?.min(size);
        sample.stack = &copied[..used];
        sample.stack_is_cut = used == size;
    }
    Some(sample)
}

/// Parts of a call chain, between the markers of the kernel.
fn split(chain: &[u8]) -> (Addresses<'_>, Addresses<'_>) {
    let (mut kernel, mut user) = (Addresses::default(), Addresses::default());
    let words = chain.as_chunks::<8>().0;
    let markers = words.iter().enumerate().filter_map(|(index, word)| {
        let value = u64::from_ne_bytes(*word);
        (value >= CONTEXT_MIN).then_some((index, value))
    });
    let markers: Vec<(usize, u64)> = markers.collect();
    for (number, &(index, marker)) in markers.iter().enumerate() {
        let end = markers.get(number + 1).map_or(words.len(), |next| next.0);
        let bytes = &chain[(index + 1) * 8..end * 8];
        match marker {
            CONTEXT_KERNEL => kernel = Addresses { bytes },
            CONTEXT_USER => user = Addresses { bytes },
            _ => {}
        }
    }
    (kernel, user)
}

fn mmap(mut fields: Fields<'_>) -> Option<Mmap<'_>> {
    let (pid, _tid) = (fields.i32()?, fields.i32()?);
    let (start, length, offset) = (fields.u64()?, fields.u64()?, fields.u64()?);
    // Device, inode and generation, or a build identifier.
    let _file = fields.take(24)?;
    let (protection, _flags) = (fields.u32()?, fields.u32()?);
    let is_executable = protection & PROTECTION_EXECUTE != 0;
    Some(Mmap { pid, start, length, offset, is_executable, path: fields.text() })
}

/// The rest of a record.
struct Fields<'a> {
    bytes: &'a [u8],
}

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_ne_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_ne_bytes)
    }

    fn i32(&mut self) -> Option<i32> {
        self.array().map(i32::from_ne_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_ne_bytes)
    }

    /// Bytes up to the first zero.
    fn text(&mut self) -> &'a [u8] {
        self.bytes.split(|&byte| byte == 0).next().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
