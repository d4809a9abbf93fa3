//! What was sampled, as it is printed: one JSON object.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::collector::Collector;
use crate::frame::Frame;
use crate::python::{LIBRARY, OUTSIDE, PythonReader, PythonStacks, UNREAD};
use crate::stacks::Thread;
use crate::symbols::{Functions, Symbols, symbolize};

/// Version of the format; readers refuse others.
pub const SCHEMA: &str = "jissoku.sample/1";

/// A thread belongs to an interpreter if it was met there in at least one of this many times.
const READ_SHARE_MIN: u64 = 4;

/// With fewer readings than this expected, chance alone can halve them.
const MISSED_MIN: u128 = 50;

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
    mut collector: Collector,
    python: PythonReader,
    sampling: Sampling,
    mut notes: Vec<String>,
) -> Profile {
    let mut functions = Functions::default();
    let locations = collector.stacks.locations();
    let symbols = symbolize(&locations, &collector.files, &mut functions);
    drop(locations);
    let processes: BTreeMap<i32, usize> =
        collector.programs().keys().enumerate().map(|(index, &pid)| (pid, index)).collect();
    let interpreted = interpreted(&collector, python, sampling, &mut functions, &mut notes);
    let stacks = stacks(&mut collector, &symbols);
    let (frames, stacks, interpreted) = ordered(functions.into_all(), stacks, interpreted);
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
        frames,
        stacks,
        interpreted,
        notes,
    }
}

/// Stacks of functions, freed as locations as they are named.
fn stacks(collector: &mut Collector, symbols: &Symbols) -> Vec<Stack> {
    let named = collector.stacks.take().map(|(thread, stack, count)| {
        let depth = stack.iter().map(|location| symbols.of(*location).len()).sum();
        let mut frames = Vec::with_capacity(depth);
        frames.extend(stack.iter().flat_map(|location| symbols.of(*location)));
        Stack { thread, frames, count }
    });
    named.collect()
}

/// Sorts everything, so that the same samples give the same bytes: stacks by their functions, and
/// functions as stacks have them. Stacks that differ in addresses only become one.
fn ordered(
    mut all: Vec<Frame>,
    mut stacks: Vec<Stack>,
    mut interpreted: Vec<Interpreted>,
) -> (Vec<Frame>, Vec<Stack>, Vec<Interpreted>) {
    let mut by_name: Vec<u32> = (0..).take(all.len()).collect();
    by_name.sort_unstable_by(|one, other| all[*one as usize].cmp(&all[*other as usize]));
    let mut ranks = vec![0_u32; all.len()];
    for (rank, &id) in (0..).zip(&by_name) {
        ranks[id as usize] = rank;
    }
    for frame in stacks.iter_mut().flat_map(|stack| &mut stack.frames) {
        *frame = ranks[*frame as usize];
    }
    stacks.sort_unstable_by(|one, other| {
        (one.thread, &one.frames).cmp(&(other.thread, &other.frames))
    });
    stacks.dedup_by(|later, kept| {
        let is_same = (later.thread, &later.frames) == (kept.thread, &kept.frames);
        kept.count += if is_same { later.count } else { 0 };
        is_same
    });
    let mut numbers: Vec<Option<u32>> = vec![None; all.len()];
    let mut frames = Vec::new();
    let mut number = |frame: &mut u32, id: u32| {
        *frame = *numbers[id as usize].get_or_insert_with(|| {
            frames.push(std::mem::take(&mut all[id as usize]));
            u32::try_from(frames.len() - 1).unwrap_or(u32::MAX)
        });
    };
    for frame in stacks.iter_mut().flat_map(|stack| &mut stack.frames) {
        number(frame, by_name[*frame as usize]);
    }
    for frame in interpreted.iter_mut().flat_map(|stack| &mut stack.frames) {
        number(frame, *frame);
    }
    (frames, stacks, interpreted)
}

/// Stacks of threads that were met in functions of Python often enough. Others run native code that
/// Python only started, as a server written in another language does.
fn interpreted(
    collector: &Collector,
    python: PythonReader,
    sampling: Sampling,
    functions: &mut Functions,
    notes: &mut Vec<String>,
) -> Vec<Interpreted> {
    let mut found = Vec::new();
    let looks = python.looks;
    for (thread, stacks) in python.stacks.into_iter().collect::<BTreeMap<_, _>>() {
        let Some((id, samples)) = collector.stacks.of_thread(&thread) else { continue };
        let of = |start: &str| {
            let is_it = |stack: &Vec<Frame>| is_special(stack, start);
            stacks.iter().filter(|(stack, _)| is_it(stack)).map(|(_, count)| count).sum::<u64>()
        };
        let (outside, unread) = (of(OUTSIDE), of(UNREAD));
        let readings: u64 = stacks.values().sum();
        let named = readings - outside - unread;
        if named * READ_SHARE_MIN < readings {
            if named + unread > 0 {
                notes.push(native_only(&thread, [named, unread, readings], &stacks));
            }
            continue;
        }
        notes.extend(missed(&thread, readings, looks, samples, sampling));
        for (frames, count) in stacks.into_iter().collect::<BTreeMap<_, _>>() {
            let frames = frames.into_iter().map(|frame| functions.id(frame)).collect();
            found.push(Interpreted { thread: id, frames, count });
        }
    }
    found
}

/// Whether a stack stands for something else than functions.
fn is_special(stack: &[Frame], start: &str) -> bool {
    matches!(stack, [one] if one.library == LIBRARY && one.function.starts_with(start))
}

/// Why the functions of a thread that runs Python are native ones.
fn native_only(
    thread: &Thread,
    [named, unread, readings]: [u64; 3],
    stacks: &PythonStacks,
) -> String {
    let reason = stacks.keys().find(|stack| is_special(stack, UNREAD));
    let reason = reason.and_then(|stack| stack.first()).filter(|_| unread > named);
    let reason = reason
        .map_or_else(String::new, |frame| format!(" {}", frame.function.replacen(UNREAD, "(", 1)));
    format!(
        "Functions of thread {} are native ones: in {} of {readings} readings it ran functions of \
         Python whose names are known{reason}.",
        thread.name, named
    )
}

/// A doubt, if a thread was met on a core much less often than it was there by its samples.
fn missed(
    thread: &Thread,
    readings: u64,
    looks: u64,
    samples: u64,
    sampling: Sampling,
) -> Option<String> {
    let used_ns = u128::from(samples) * u128::from(sampling.period);
    let expected = u128::from(looks) * used_ns / u128::from(sampling.duration_ns.max(1));
    let is_doubtful = expected > MISSED_MIN && u128::from(readings) * 3 < expected * 2;
    (is_doubtful && sampling.clock == "cpu-time").then(|| {
        format!(
            "Functions of Python were read {readings} times in thread {}, where its CPU time makes \
             {expected} likely: their shares may be wrong.",
            thread.name
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str) -> Frame {
        Frame { function: name.to_owned(), ..Frame::default() }
    }

    #[test]
    fn stacks_are_sorted_by_name_and_those_that_are_the_same_are_one() {
        let all = ["write", "accept", "never", "main", "view"].map(function).to_vec();
        let stack =
            |thread, frames: &[u32], count| Stack { thread, frames: frames.to_vec(), count };
        let stacks = vec![
            stack(0, &[0, 3], 1),
            stack(1, &[1, 3], 2),
            stack(0, &[1, 3], 4),
            stack(0, &[0, 3], 8),
        ];
        let interpreted = vec![Interpreted { thread: 0, frames: vec![4, 3], count: 3 }];
        let (frames, stacks, interpreted) = ordered(all, stacks, interpreted);
        assert_eq!(frames, ["accept", "main", "write", "view"].map(function));
        assert_eq!(stacks, [stack(0, &[0, 1], 4), stack(0, &[2, 1], 9), stack(1, &[0, 1], 2)]);
        assert_eq!(interpreted, [Interpreted { thread: 0, frames: vec![3, 1], count: 3 }]);
    }
}
