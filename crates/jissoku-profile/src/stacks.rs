//! Samples, counted by thread and stack.

use std::collections::HashMap;

use crate::address_space::Location;

/// The most different stacks kept; beyond them only the innermost function of a sample is.
const STACKS_MAX: usize = 100_000;

/// A thread, by its process and name; processes by their number.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Thread {
    pub(crate) pid: i32,
    pub(crate) name: String,
}

/// A stack, innermost first; `None` for an address in no known code.
type Stack = Box<[Option<Location>]>;

/// Numbers of samples.
#[derive(Debug, Default)]
pub(crate) struct Stacks {
    threads: Vec<Thread>,
    thread_ids: HashMap<Thread, u32>,
    counts: HashMap<(u32, Stack), u64>,
    shortened: u64,
}

impl Stacks {
    /// Counts a sample; `stack` is innermost first.
    pub(crate) fn add(&mut self, thread: &Thread, stack: &[Option<Location>]) {
        let id = self.id(thread);
        let mut key = (id, stack.into());
        if self.counts.len() >= STACKS_MAX && !self.counts.contains_key(&key) {
            key.1 = stack.iter().take(1).copied().collect();
            self.shortened += 1;
        }
        *self.counts.entry(key).or_default() += 1;
    }

    fn id(&mut self, thread: &Thread) -> u32 {
        if let Some(&id) = self.thread_ids.get(thread) {
            return id;
        }
        let id = u32::try_from(self.threads.len()).unwrap_or(u32::MAX);
        self.threads.push(thread.clone());
        self.thread_ids.insert(thread.clone(), id);
        id
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
