//! Python functions of processes that run them: the interpreter's frames of the thread that has a
//! core, read at random times while that thread is stopped.
//!
//! A function of Python may last less than it takes to read a stack, so a stack that is read while its
//! thread continues describes no moment at all. Threads that wait are neither counted nor disturbed.

pub(crate) mod interpreter;
mod layout;

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use jissoku_os::tracee::Tracee;
use jissoku_os::{clock, poll};

use crate::frame::Frame;
use crate::lookout::Had;
use crate::record::ThreadId;
use crate::stacks::{THREADS_MAX, Thread};
use interpreter::{Interpreter, Reading};

/// Mean time between readings of interpreted frames of a server that is always busy. One that often
/// waits is looked at up to twice as often, so that it is read no more often than that, and its shares
/// have half of the variance.
const READING_WAIT_NS: u64 = 5_000_000;
const LOOK_WAIT_MIN_NS: u64 = READING_WAIT_NS / 2;

/// Looks after which it is known how busy a server is.
const LOOKS_MIN: u64 = 100;

/// The library of functions of Python, and of what stands for them.
pub(crate) const LIBRARY: &str = "[python]";

/// The name of what a thread does outside of Python.
pub(crate) const OUTSIDE: &str = "(no Python function)";

/// Before the reason why functions are not known.
pub(crate) const UNREAD: &str = "(not read: ";

/// A thread on a core stops within microseconds, one in a system call when that ends.
const SPIN_NS: u64 = 200_000;
const STOP_MAX_NS: u64 = 100_000_000;

/// Frames kept of all Python stacks, of up to some hundred bytes each; once they are used up, only the
/// innermost frame of a new stack is kept.
const FRAMES_MAX: usize = 50_000;

/// Processes that are known to run Python or not to.
const PROCESSES_MAX: usize = 1_000;

/// Python stacks of one thread, innermost first, and how often each was met on a core.
pub(crate) type PythonStacks = HashMap<Vec<Frame>, u64>;

/// A process: its program when it was examined, and its interpreter.
#[derive(Debug)]
struct Process {
    program: Option<PathBuf>,
    interpreter: Option<Interpreter>,
}

/// Reads the frames of some processes.
#[derive(Debug, Default)]
pub(crate) struct PythonReader {
    processes: HashMap<i32, Process>,
    pub(crate) stacks: HashMap<Thread, PythonStacks>,
    frames: usize,
    /// How often it was looked which threads have a core.
    pub(crate) looks: u64,
    /// How often one of them was read, or should have been.
    readings: u64,
    /// Threads that were asked to stop and had not done so in time.
    late: Vec<Tracee>,
    /// Why processes that run Python cannot be read.
    pub(crate) failures: Vec<String>,
}

impl PythonReader {
    /// Finds the interpreters among `pids`.
    pub(crate) fn find(pids: &[i32]) -> Self {
        let mut found = Self::default();
        for &pid in pids {
            found.runs_python(pid);
        }
        found
    }

    /// Whether there is anything to read.
    pub(crate) fn is_empty(&self) -> bool {
        self.processes.values().all(|process| process.interpreter.is_none())
    }

    /// Forgets what was read so far.
    pub(crate) fn reset(&mut self) {
        self.stacks.clear();
        self.frames = 0;
        self.looks = 0;
        self.readings = 0;
    }

    /// The mean time until the next look. It depends on the past only, so that the moment that is chosen
    /// says nothing of what the server does then.
    pub(crate) fn mean_wait_ns(&self) -> u64 {
        if self.looks < LOOKS_MIN {
            return READING_WAIT_NS;
        }
        (READING_WAIT_NS * self.readings / self.looks).clamp(LOOK_WAIT_MIN_NS, READING_WAIT_NS)
    }

    /// Keeps what was read only, not what further readings would need.
    pub(crate) fn release_processes(&mut self) {
        self.processes = HashMap::new();
        self.wait_for_late();
    }

    /// Whether a process has an interpreter that can be read. One that has begun meanwhile, or runs
    /// another program now, is examined.
    pub(crate) fn runs_python(&mut self, pid: i32) -> bool {
        let program = std::fs::read_link(format!("/proc/{pid}/exe")).ok();
        if let Some(known) = self.processes.get(&pid).filter(|known| known.program == program) {
            return known.interpreter.is_some();
        }
        let interpreter = match Interpreter::find(pid) {
            Some(Err(reason)) => {
                let failure = format!("Python functions are not named: {reason}.");
                if !self.failures.contains(&failure) {
                    self.failures.push(failure);
                }
                None
            }
            Some(Ok(found)) => Some(found),
            None => None,
        };
        let is_python = interpreter.is_some();
        if self.processes.len() >= PROCESSES_MAX {
            self.processes.clear();
        }
        self.processes.insert(pid, Process { program, interpreter });
        is_python
    }

    /// Reads no more, and says why.
    pub(crate) fn give_up(&mut self, error: &io::Error) {
        self.processes.clear();
        self.wait_for_late();
        self.failures.push(format!("Python functions are no longer read: {error}."));
    }

    /// Continues threads that stopped too late. Called often, because they may be the only ones that run.
    pub(crate) fn release_late(&mut self) {
        self.late.retain_mut(|late| late.is_stopped().is_ok_and(|is_stopped| !is_stopped));
    }

    /// As [`Self::release_late`], where that will not be called for a while.
    pub(crate) fn wait_for_late(&mut self) {
        self.late.retain_mut(|late| wait_for(late).is_ok_and(|is_stopped| !is_stopped));
    }

    /// Asks a thread that had a core to stop, if its process has an interpreter.
    pub(crate) fn ask(&mut self, had: Had) -> Option<Asked> {
        let (id, tracee) = match had {
            Had::Unknown => return None,
            Had::Thread(id) => (id, Some(id.1)),
            Had::Late(id) => (id, None),
        };
        self.processes.get(&id.0)?.interpreter.as_ref()?;
        Some(Asked { id, tracee: tracee.map(Tracee::interrupt) })
    }

    /// Waits until a thread has stopped, reads what it is in, and counts that.
    pub(crate) fn read(&mut self, asked: Asked, thread: Thread) {
        let (pid, tid) = asked.id;
        let is_same = self.runs_python(pid);
        let tracee = match asked.tracee {
            Some(Ok(mut tracee)) => match wait_for(&mut tracee) {
                Ok(true) => Some(Ok(Some(tracee))),
                Ok(false) => {
                    self.late.push(tracee);
                    Some(Ok(None))
                }
                Err(error) => Some(Err(error)),
            },
            Some(Err(error)) => Some(Err(error)),
            None => None,
        };
        let process = self.processes.get_mut(&pid).filter(|_| is_same);
        let Some(interpreter) = process.and_then(|process| process.interpreter.as_mut()) else {
            return;
        };
        let reading = match tracee {
            None => Reading::Unread("the sampler did not get the core in time"),
            Some(Ok(Some(tracee))) => {
                let reading = interpreter.read(tid);
                drop(tracee);
                reading
            }
            Some(Ok(None)) => Reading::Unread("the thread did not stop within 100 ms"),
            Some(Err(error)) if error.kind() == io::ErrorKind::PermissionDenied => {
                Reading::Unread("it is not permitted to stop the thread")
            }
            // It has ended.
            Some(Err(_)) => return,
        };
        let special = |function: String| {
            vec![Frame { function, library: LIBRARY.to_owned(), ..Frame::default() }]
        };
        let stack = match reading {
            Reading::Frames(frames) => frames,
            Reading::Outside => special(OUTSIDE.to_owned()),
            Reading::Unread(reason) => special(format!("{UNREAD}{reason})")),
        };
        self.count(thread, stack);
    }

    fn count(&mut self, mut thread: Thread, stack: Vec<Frame>) {
        self.readings += 1;
        if self.stacks.len() >= THREADS_MAX && !self.stacks.contains_key(&thread) {
            thread.name.clear();
        }
        let stacks = self.stacks.entry(thread).or_default();
        self.frames += count(stacks, stack, self.frames);
    }
}

/// A thread that was asked to stop; it was not if it could not be known where it was.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) id: ThreadId,
    tracee: Option<io::Result<Tracee>>,
}

/// Whether a thread that was asked to stop does so in time.
fn wait_for(tracee: &mut Tracee) -> io::Result<bool> {
    let start_ns = clock::monotonic_ns();
    while !tracee.is_stopped()? {
        let waited_ns = clock::monotonic_ns() - start_ns;
        if waited_ns > STOP_MAX_NS {
            return Ok(false);
        }
        if waited_ns > SPIN_NS {
            let _woken = poll::wait_readable(&[], Some(Duration::from_micros(100)));
        }
    }
    Ok(true)
}

/// Counts a stack, where `kept` frames are kept so far; returns how many more that makes.
fn count(stacks: &mut PythonStacks, mut stack: Vec<Frame>, kept: usize) -> usize {
    if kept + stack.len() > FRAMES_MAX && !stacks.contains_key(&stack) {
        stack.truncate(1);
    }
    let depth = stack.len();
    let mut added = 0;
    *stacks.entry(stack).or_insert_with(|| {
        added = depth;
        0
    }) += 1;
    added
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_the_bound_only_the_innermost_frame_is_kept() {
        let stack = |line| {
            let frame = |line| Frame { function: "f".to_owned(), line, ..Frame::default() };
            vec![frame(0), frame(line)]
        };
        let mut stacks = PythonStacks::new();
        assert_eq!(count(&mut stacks, stack(1), 0), 2);
        assert_eq!(count(&mut stacks, stack(1), FRAMES_MAX), 0, "a known stack stays whole");
        assert_eq!(count(&mut stacks, stack(2), FRAMES_MAX), 1);
        assert_eq!(count(&mut stacks, stack(3), FRAMES_MAX), 0);
        assert_eq!(stacks[&stack(1)], 2);
        assert_eq!(stacks[&stack(2)[..1]], 2);
    }

    #[test]
    fn a_server_that_waits_is_looked_at_more_often_and_read_no_more_often() {
        let wait_ns = |looks, readings| {
            let reader = PythonReader { looks, readings, ..PythonReader::default() };
            reader.mean_wait_ns()
        };
        assert_eq!(wait_ns(LOOKS_MIN - 1, 0), READING_WAIT_NS, "nothing is known");
        assert_eq!(wait_ns(1_000, 1_000), READING_WAIT_NS);
        assert_eq!(wait_ns(1_000, 800), READING_WAIT_NS * 4 / 5);
        assert_eq!(wait_ns(1_000, 100), LOOK_WAIT_MIN_NS);
        for readings in [0, 100, 500, 800, 1_000] {
            // 200 a second at most.
            let per_second = 1_000_000_000 / wait_ns(1_000, readings) * readings / 1_000;
            assert!(per_second <= 200, "{readings}: {per_second}");
        }
    }

    #[test]
    fn a_process_without_an_interpreter_is_not_read() {
        let own = i32::try_from(std::process::id()).expect("a process number");
        let mut reader = PythonReader::find(&[own, i32::MAX]);
        assert!(reader.is_empty() && reader.failures.is_empty());
        assert!(!reader.runs_python(own));
    }
}
