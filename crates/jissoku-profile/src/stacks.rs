//! Samples, counted by thread and stack.

use std::collections::{HashMap, HashSet};

use crate::address_space::Location;

/// Bytes of the kept stacks and locations. Once they are used up, only the innermost function of a new
/// stack is kept; once a quarter more is used up, a new stack is counted as unknown.
const SIZE_MAX: usize = 12 << 20;

/// Bytes of a stack beside its locations: a hash table is at least half full when it has grown, and an
/// allocation has a header.
const ENTRY_SIZE: usize = 2 * (size_of::<((u32, Stack), u64)>() + 1) + 2 * size_of::<usize>();

/// Bytes of a location.
const LOCATION_SIZE: usize = 2 * (size_of::<(Option<Location>, u32)>() + 1);

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

/// Numbers of locations, innermost first.
type Stack = Box<[u32]>;

fn size_of_stack(depth: usize) -> usize {
    ENTRY_SIZE + depth * size_of::<u32>()
}

/// Numbers of samples. Locations are kept once, since stacks have most of theirs in common.
#[derive(Debug, Default)]
pub(crate) struct Stacks {
    threads: Vec<Thread>,
    thread_ids: HashMap<Thread, u32>,
    processes: HashSet<i32>,
    /// Numbered as they came; `None` is an address in no known code.
    locations: HashMap<Option<Location>, u32>,
    counts: HashMap<(u32, Stack), u64>,
    size: usize,
    shortened: u64,
}

impl Stacks {
    /// Counts a sample; `stack` is innermost first.
    pub(crate) fn add(&mut self, thread: &Thread, mut stack: &[Option<Location>]) {
        let thread = self.id(thread);
        if !self.has_room(thread, stack, SIZE_MAX) {
            self.shortened += 1;
            stack = &stack[..stack.len().min(1)];
            if !self.has_room(thread, stack, SIZE_MAX + SIZE_MAX / 4) {
                stack = &[None];
            }
        }
        let ids = stack.iter().map(|location| self.location_id(*location)).collect();
        let size = size_of_stack(stack.len());
        *self.counts.entry((thread, ids)).or_insert_with(|| {
            self.size += size;
            0
        }) += 1;
    }

    fn has_room(&self, thread: u32, stack: &[Option<Location>], size_max: usize) -> bool {
        let ids = stack.iter().map(|location| self.locations.get(location).copied());
        let new = ids.clone().filter(Option::is_none).count();
        let size = size_of_stack(stack.len()) + new * LOCATION_SIZE;
        let is_known = || {
            let ids = ids.collect::<Option<Stack>>();
            ids.is_some_and(|ids| self.counts.contains_key(&(thread, ids)))
        };
        self.size + size <= size_max || is_known()
    }

    fn location_id(&mut self, location: Option<Location>) -> u32 {
        let next = u32::try_from(self.locations.len()).unwrap_or(u32::MAX);
        let id = *self.locations.entry(location).or_insert(next);
        if id == next {
            self.size += LOCATION_SIZE;
        }
        id
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

    /// All locations, by number.
    pub(crate) fn locations(&self) -> Vec<Option<Location>> {
        let mut all = vec![None; self.locations.len()];
        for (location, id) in &self.locations {
            all[*id as usize] = *location;
        }
        all
    }

    /// Index of the thread, numbers of locations, and number of samples; each stack is freed when
    /// it is taken.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = (u32, Box<[u32]>, u64)> + use<> {
        self.locations = HashMap::new();
        let counts = std::mem::take(&mut self.counts);
        counts.into_iter().map(|((thread, stack), count)| (thread, stack, count))
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
        add(&mut stacks, 256, 2_000);
        assert!(stacks.shortened() > 0);
        add(&mut stacks, 1, 100_000);
        let unknown = [stacks.locations[&None]];
        let of_unknown = stacks.counts.get(&(0, unknown.into())).copied();
        assert!(of_unknown.is_some_and(|count| count > 0), "there is room for every function");
        let lengths = stacks.counts.keys().map(|(_, stack)| size_of_stack(stack.len()));
        let size = lengths.sum::<usize>() + stacks.locations.len() * LOCATION_SIZE;
        let bound = (1 << 20) + SIZE_MAX / 4 + size_of_stack(1) + LOCATION_SIZE;
        assert!(size <= bound, "{size} bytes");
        let sum: u64 = stacks.take().map(|(_, _, count)| count).sum();
        assert_eq!(sum, 102_000);
    }

    #[test]
    fn locations_that_stacks_have_in_common_are_kept_once() {
        let thread = Thread { pid: 1, name: String::new() };
        let outer: Vec<_> = (0..100).map(|index| Some(Location::File(0, index))).collect();
        let mut stacks = Stacks::default();
        for index in 0..1_000 {
            let inner = [Some(Location::Kernel(index % 500)), None];
            stacks.add(&thread, &[&inner[..], &outer].concat());
        }
        assert_eq!((stacks.locations.len(), stacks.counts.len()), (601, 500));
        let locations = stacks.locations();
        for (_, stack, count) in stacks.take() {
            let found: Vec<_> = stack.iter().map(|id| locations[*id as usize]).collect();
            assert!(matches!(found[..2], [Some(Location::Kernel(0..500)), None]));
            assert_eq!((&found[2..], count), (&outer[..], 2));
        }
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
