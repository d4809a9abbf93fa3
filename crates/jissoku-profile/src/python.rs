//! Python functions of processes that run them: the interpreter's frames, read with py-spy while
//! the process goes on.
//!
//! CPython from 3.12 can name its functions to the kernel's sampler (`python -X perf`); where it
//! does, its frames are in the stacks already and nothing is read here.

use std::collections::HashMap;

use py_spy::config::LockingStrategy;
use py_spy::{Config, PythonSpy};

use crate::frame::{Frame, base_name, tidy_name};
use crate::perf_map::PerfMap;
use crate::stacks::THREADS_MAX;

/// Mean time between readings of interpreted frames; each waits between a half and one and a half
/// of it, so that no rhythm of the server can hide from them.
pub(crate) const INTERPRETER_WAIT_NS: u64 = 5_000_000;

/// Tries to find the interpreter of a process that has just begun.
const TRIES: u64 = 3;

/// Attempts of one reading. The process runs on while it is read, so half of them fail.
const ATTEMPTS: u32 = 3;

/// After this many failed readings in a row a process is given up, if it has ended.
const FAILURES_MAX: u32 = 50;

/// Frames kept of all Python stacks, of up to some hundred bytes each; once they are used up, only the
/// innermost frame of a new stack is kept.
const FRAMES_MAX: usize = 50_000;

/// Python stacks of one thread, innermost first, and how often each was met on a core.
pub(crate) type PythonStacks = HashMap<Vec<Frame>, u64>;

/// Reads the frames of some processes.
pub(crate) struct PythonReader {
    processes: Vec<(i32, PythonSpy, u32)>,
    /// By process and thread.
    pub(crate) stacks: HashMap<(i32, i32), PythonStacks>,
    frames: usize,
    /// Processes that run Python and whose frames could not be read, with the reason.
    pub(crate) failures: Vec<String>,
}

impl std::fmt::Debug for PythonReader {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("PythonReader").finish_non_exhaustive()
    }
}

impl PythonReader {
    /// Finds the interpreters among `pids`.
    pub(crate) fn find(pids: &[i32]) -> Self {
        // The holder of the interpreter's lock is known when its frames are read. Whether a thread was
        // on a core is known only some time before: with 64 threads most were waiting by then.
        let config =
            Config { blocking: LockingStrategy::NonBlocking, gil_only: true, ..Config::default() };
        let (mut processes, mut failures) = (Vec::new(), Vec::new());
        for &pid in pids.iter().filter(|&&pid| runs_python(pid) && !PerfMap::path(pid).exists()) {
            match PythonSpy::retry_new(pid, &config, TRIES) {
                Ok(spy) => processes.push((pid, spy, 0)),
                Err(error) => failures.push(format!("Python functions are not named: {error}")),
            }
        }
        failures.dedup();
        Self { processes, stacks: HashMap::new(), frames: 0, failures }
    }

    /// Whether there is anything to read.
    pub(crate) fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    /// Forgets what was read so far.
    pub(crate) fn reset(&mut self) {
        self.stacks.clear();
        self.frames = 0;
    }

    /// Keeps what was read only, not what further readings would need.
    pub(crate) fn release_processes(&mut self) {
        self.processes = Vec::new();
    }

    /// Reads the frames of threads that are on a core.
    pub(crate) fn read(&mut self) {
        for (pid, spy, failures) in &mut self.processes {
            let Some(traces) = (0..ATTEMPTS).find_map(|_| spy.get_stack_traces().ok()) else {
                *failures += 1;
                continue;
            };
            *failures = 0;
            for trace in traces.iter().filter(|trace| trace.active && !trace.frames.is_empty()) {
                let tid = trace.os_thread_id.and_then(|tid| i32::try_from(tid).ok());
                let mut thread = (*pid, tid.unwrap_or(*pid));
                if self.stacks.len() >= THREADS_MAX && !self.stacks.contains_key(&thread) {
                    // A thread for each request: further ones count as the first of the process.
                    thread = (*pid, *pid);
                }
                let stacks = self.stacks.entry(thread).or_default();
                self.frames += count(stacks, trace.frames.iter().map(frame).collect(), self.frames);
            }
        }
        // A busy process with many threads can fail so often, too.
        self.processes.retain_mut(|(pid, _, failures)| {
            let is_kept = *failures < FAILURES_MAX || exists(*pid);
            *failures %= FAILURES_MAX;
            is_kept
        });
    }
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

fn exists(pid: i32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}

/// Whether a process runs CPython, by its program and its libraries.
fn runs_python(pid: i32) -> bool {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    maps.lines().any(|line| {
        let name = line.rsplit('/').next().unwrap_or_default();
        line.contains('/') && (name.starts_with("libpython3") || name.starts_with("python3"))
    })
}

fn frame(frame: &py_spy::Frame) -> Frame {
    Frame {
        function: tidy_name(&frame.name),
        library: "[python]".to_owned(),
        file: base_name(&frame.filename),
        line: u32::try_from(frame.line).unwrap_or(0),
    }
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
}
