//! Samples, counted by thread and stack.

use std::collections::{HashMap, HashSet};

use crate::address_space::Location;

/// Bytes of the kept stacks. Once they are used up, only the innermost function of a new stack is
/// kept; once a quarter more is used up, a new stack is counted as unknown.
const SIZE_MAX: usize = 24 << 20;

/// Bytes of a stack beside its locations: a hash table is at least half full when it has grown.
const ENTRY_SIZE: usize = 2 * (size_of::<((u32, Stack), u64)>() + 1);

/// Threads that are counted each. Beyond that, a new thread is counted with all others of its name that
/// came too late, whatever their process; and beyond twice as many, with all of any name.
pub(crate) const THREADS_MAX: usize = 1_000;

/// The process of threads that came too late: no process has this number.
const NO_PROCESS: i32 = 0;

/// A thread, by its process and name; processes by their number.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Thread {
    pub(crate) pid: i32,
    pub(crate) name: String,
}

/// A stack, innermost first; `None` for an address in no known code.
type Stack = Box<[Option<Location>]>;

fn size_of_stack(stack: &[Option<Location>]) -> usize {
    ENTRY_SIZE + size_of_val(stack)
}

/// Numbers of samples.
#[derive(Debug, Default)]
pub(crate) struct Stacks {
    threads: Vec<Thread>,
    thread_ids: HashMap<Thread, u32>,
    processes: HashSet<i32>,
    counts: HashMap<(u32, Stack), u64>,
    size: usize,
    shortened: u64,
}

impl Stacks {
    /// Counts a sample; `stack` is innermost first.
    pub(crate) fn add(&mut self, thread: &Thread, stack: &[Option<Location>]) {
        let id = self.id(thread);
        let mut key = (id, stack.into());
        if !self.has_room(&key, SIZE_MAX) {
            self.shortened += 1;
            key.1 = stack.iter().take(1).copied().collect();
            if !self.has_room(&key, SIZE_MAX + SIZE_MAX / 4) {
                key.1 = Box::new([None]);
            }
        }
        let size = size_of_stack(&key.1);
        *self.counts.entry(key).or_insert_with(|| {
            self.size += size;
            0
        }) += 1;
    }

    fn has_room(&self, key: &(u32, Stack), size_max: usize) -> bool {
        self.size + size_of_stack(&key.1) <= size_max || self.counts.contains_key(key)
    }

    fn id(&mut self, thread: &Thread) -> u32 {
        if let Some(&id) = self.thread_ids.get(thread) {
            return id;
        }
        if self.threads.len() < THREADS_MAX {
            return self.insert(thread.clone());
        }
        let mut other = Thread { pid: NO_PROCESS, name: thread.name.clone() };
        if self.threads.len() >= 2 * THREADS_MAX && !self.thread_ids.contains_key(&other) {
            other.name.clear();
        }
        let known = self.thread_ids.get(&other).copied();
        known.unwrap_or_else(|| self.insert(other))
    }

    fn insert(&mut self, thread: Thread) -> u32 {
        let id = u32::try_from(self.threads.len()).unwrap_or(u32::MAX);
        self.processes.insert(thread.pid);
        self.threads.push(thread.clone());
        self.thread_ids.insert(thread, id);
        id
    }

    /// Whether a thread of a process is counted.
    pub(crate) fn has_process(&self, pid: i32) -> bool {
        self.processes.contains(&pid)
    }

    /// Index of a thread, and its number of samples.
    pub(crate) fn of_thread(&self, thread: &Thread) -> Option<(u32, u64)> {
        let id = *self.thread_ids.get(thread)?;
        let counts = self.counts.iter().filter(|((thread, _), _)| *thread == id);
        Some((id, counts.map(|(_, count)| count).sum()))
    }

    /// Threads that were sampled.
    pub(crate) fn threads(&self) -> &[Thread] {
        &self.threads
    }

    /// Index of the thread, stack, and number of samples.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &[Option<Location>], u64)> {
        self.counts.iter().map(|((thread, stack), &count)| (*thread, &**stack, count))
    }

    /// Samples whose stack was cut to its innermost function because memory was short.
    pub(crate) fn shortened(&self) -> u64 {
        self.shortened
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_that_are_all_different_take_bounded_memory() {
        let thread = Thread { pid: 1, name: "worker".to_owned() };
        // All but a MiB is used up, so that filling it takes no seconds.
        let mut stacks = Stacks { size: SIZE_MAX - (1 << 20), ..Stacks::default() };
        let add = |stacks: &mut Stacks, depth: usize, count: u64| {
            for index in 0..count {
                let stack = vec![Some(Location::File(0, index)); depth];
                stacks.add(&thread, &stack);
            }
        };
        add(&mut stacks, 256, 500);
        assert!(stacks.shortened() > 0);
        add(&mut stacks, 1, 100_000);
        let of = |stack: &[Option<Location>]| stacks.counts.get(&(0, stack.into())).copied();
        assert!(of(&[None]).is_some_and(|count| count > 0), "there is room for every function");
        let size: usize = stacks.iter().map(|(_, stack, _)| size_of_stack(stack)).sum();
        let bound = (1 << 20) + SIZE_MAX / 4 + size_of_stack(&[None]);
        assert!(size <= bound, "{size} bytes");
        let sum: u64 = stacks.iter().map(|(_, _, count)| count).sum();
        assert_eq!(sum, 100_500);
    }

    #[test]
    fn beyond_the_bound_threads_are_counted_by_name() {
        let mut stacks = Stacks::default();
        let thread = |pid, name: &str| Thread { pid, name: name.to_owned() };
        for pid in 1..=2_000 {
            stacks.add(&thread(pid, "worker"), &[None]);
        }
        assert_eq!(stacks.threads().len(), THREADS_MAX + 1);
        assert_eq!(stacks.of_thread(&thread(1, "worker")), Some((0, 1)));
        let others = stacks.of_thread(&thread(NO_PROCESS, "worker"));
        assert_eq!(others.map(|(_, count)| count), Some(1_000));
        assert!(stacks.has_process(1) && !stacks.has_process(2_000));
        for number in 0..2_000 {
            stacks.add(&thread(3_000, &number.to_string()), &[None]);
        }
        assert_eq!(stacks.threads().len(), 2 * THREADS_MAX + 1);
    }

    #[test]
    fn a_known_stack_is_counted_whole_when_there_is_no_room() {
        let thread = Thread { pid: 1, name: String::new() };
        let known = vec![Some(Location::Vdso); 64];
        let mut stacks = Stacks::default();
        stacks.add(&thread, &known);
        stacks.size = SIZE_MAX;
        stacks.add(&thread, &known);
        assert_eq!((stacks.counts.len(), stacks.shortened()), (1, 0));
    }
}
