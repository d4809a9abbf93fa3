//! What was sampled, as it is printed: one JSON object.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;

use crate::address_space::Location;
use crate::collector::Collector;
use crate::frame::Frame;
use crate::python::{INTERPRETER_WAIT_NS, PythonReader};
use crate::stacks::Thread;
use crate::symbols::{Symbols, symbolize};

/// Version of the format; readers refuse others.
pub const SCHEMA: &str = "jissoku.sample/1";

/// A thread belongs to an interpreter if it was met there in at least one of this many times.
const READ_SHARE_MIN: u64 = 4;

/// Samples of the CPU time of a process tree.
#[derive(Clone, Debug, Serialize)]
pub struct Profile {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// `cpu-time` or `cycles`.
    pub clock: &'static str,
    /// A sample stands for this many nanoseconds or cycles.
    pub period: u64,
    /// From the first to the last sample at most.
    pub duration_ns: u64,
    /// All samples.
    pub samples: u64,
    /// Samples in the kernel.
    pub kernel_samples: u64,
    /// Whether the kernel was sampled too.
    pub sees_kernel: bool,
    /// Records that did not fit into the buffer.
    pub lost: u64,
    /// How often the kernel took no samples for a while.
    pub throttled: u64,
    /// CPU time in nanoseconds that the same events counted, with what was used by threads and
    /// processes that ended before their first sample; `None` for cycles.
    pub counted_ns: Option<u64>,
    /// Processes that were started meanwhile.
    pub processes_started: u64,
    /// Samples whose stack is not known to its end.
    pub cut_stacks: u64,
    /// Functions; stacks refer to them by index.
    pub frames: Vec<Frame>,
    /// Threads by program and name; stacks refer to them by index.
    pub threads: Vec<ThreadName>,
    /// Stacks with their numbers of samples.
    pub stacks: Vec<Stack>,
    /// Stacks of interpreted functions, read apart; their counts are of other samples.
    pub interpreted: Vec<Interpreted>,
    /// What was not seen, in sentences.
    pub notes: Vec<String>,
}

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ThreadName {
    /// Its process, counted from 0.
    pub process: usize,
    /// Name of the process.
    pub program: String,
    /// Its own name.
    pub name: String,
}

/// A stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stack {
    /// Index of the thread.
    pub thread: u32,
    /// Indices of functions, innermost first.
    pub frames: Vec<u32>,
    /// Number of samples.
    pub count: u64,
}

/// A stack of interpreted functions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Interpreted {
    /// Index of the thread.
    pub thread: u32,
    /// Indices of functions, innermost first.
    pub frames: Vec<u32>,
    /// How often it was met on a core.
    pub count: u64,
}

/// How the samples were taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sampling {
    pub(crate) clock: &'static str,
    pub(crate) period: u64,
    pub(crate) duration_ns: u64,
    pub(crate) counted_ns: Option<u64>,
    pub(crate) sees_kernel: bool,
}

/// Names everything that was collected.
pub(crate) fn build(
    collector: &Collector,
    python: &PythonReader,
    sampling: Sampling,
    notes: Vec<String>,
) -> Profile {
    let locations: BTreeSet<Location> =
        collector.stacks.iter().flat_map(|(_, stack, _)| stack.iter().flatten().copied()).collect();
    let symbols = symbolize(&locations, &collector.files);
    let processes: BTreeMap<i32, usize> =
        collector.programs().keys().enumerate().map(|(index, &pid)| (pid, index)).collect();
    let mut table = Table::default();
    let stacks = table.stacks(collector, &symbols);
    let interpreted = table.interpreted(collector, python, sampling.period);
    let threads = collector.stacks.threads().iter().map(|thread| ThreadName {
        process: processes.get(&thread.pid).copied().unwrap_or(processes.len()),
        // Of threads beyond the bound, their own name is all that is known.
        program: collector.programs().get(&thread.pid).unwrap_or(&thread.name).clone(),
        name: thread.name.clone(),
    });
    let counts = collector.counts;
    Profile {
        schema: SCHEMA,
        clock: sampling.clock,
        period: sampling.period,
        duration_ns: sampling.duration_ns,
        samples: counts.samples,
        kernel_samples: counts.kernel,
        sees_kernel: sampling.sees_kernel,
        lost: counts.lost,
        throttled: counts.throttled,
        counted_ns: sampling.counted_ns,
        processes_started: counts.started,
        cut_stacks: counts.cut + collector.stacks.shortened(),
        threads: threads.collect(),
        frames: table.frames,
        stacks,
        interpreted,
        notes,
    }
}

/// Functions, each once.
#[derive(Debug, Default)]
struct Table {
    ids: HashMap<Frame, u32>,
    frames: Vec<Frame>,
}

impl Table {
    fn id(&mut self, frame: &Frame) -> u32 {
        if let Some(&id) = self.ids.get(frame) {
            return id;
        }
        let id = u32::try_from(self.frames.len()).unwrap_or(u32::MAX);
        self.frames.push(frame.clone());
        self.ids.insert(frame.clone(), id);
        id
    }

    /// Stacks of functions; those that differ in addresses only are one. Sorted, so that the same
    /// samples give the same bytes.
    fn stacks(&mut self, collector: &Collector, symbols: &Symbols) -> Vec<Stack> {
        let unknown = [Frame { library: "[unknown]".to_owned(), ..Frame::default() }];
        let mut merged: BTreeMap<(u32, Vec<&Frame>), u64> = BTreeMap::new();
        for (thread, stack, count) in collector.stacks.iter() {
            let frames = stack.iter().flat_map(|location| {
                let known = location.as_ref().and_then(|location| symbols.get(location));
                known.map_or(&unknown[..], Vec::as_slice)
            });
            *merged.entry((thread, frames.collect())).or_default() += count;
        }
        let mut stacks = Vec::with_capacity(merged.len());
        for ((thread, frames), count) in merged {
            let frames = frames.into_iter().map(|frame| self.id(frame)).collect();
            stacks.push(Stack { thread, frames, count });
        }
        stacks
    }

    /// Stacks of threads that were met in Python about as often as they were on a core. Other threads
    /// run native code that Python only started, as a server written in another language does.
    fn interpreted(
        &mut self,
        collector: &Collector,
        python: &PythonReader,
        period_ns: u64,
    ) -> Vec<Interpreted> {
        let mut by_thread: BTreeMap<Thread, BTreeMap<&Vec<Frame>, u64>> = BTreeMap::new();
        for ((pid, tid), stacks) in &python.stacks {
            let merged = by_thread.entry(collector.thread(*pid, *tid)).or_default();
            for (frames, count) in stacks {
                *merged.entry(frames).or_default() += count;
            }
        }
        let mut found = Vec::new();
        for (thread, stacks) in &by_thread {
            let Some((id, samples)) = collector.stacks.of_thread(thread) else { continue };
            let readings: u64 = stacks.values().sum();
            if readings * INTERPRETER_WAIT_NS * READ_SHARE_MIN < samples * period_ns {
                continue;
            }
            for (frames, &count) in stacks {
                let frames = frames.iter().map(|frame| self.id(frame)).collect();
                found.push(Interpreted { thread: id, frames, count });
            }
        }
        found
    }
}
