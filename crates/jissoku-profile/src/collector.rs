//! From records to counted stacks: follows processes, threads and mappings.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use crate::address_space::{AddressSpace, Files, Location};
use crate::process_filter::ProcessFilter;
use crate::record::{Layout, Mmap, Record, Sample, parse};
use crate::stacks::{Stacks, Thread};

/// Entries above which it is checked whether their processes and threads exist.
const KNOWN_MAX: usize = 3_000;

/// Processes that have a cache of how their functions are unwound. Beyond that all are freed: of a server
/// that forks for each request, most have no further sample.
const CACHES_MAX: usize = 128;

/// Numbers of what happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) samples: u64,
    pub(crate) kernel: u64,
    pub(crate) lost: u64,
    pub(crate) throttled: u64,
    pub(crate) invalid: u64,
    /// Processes that began.
    pub(crate) started: u64,
    /// Samples whose stack did not reach its end.
    pub(crate) cut: u64,
}

/// All processes that were seen, and their samples.
#[derive(Debug)]
pub(crate) struct Collector {
    layout: Layout,
    /// `None`: all records are of sampled processes.
    filter: Option<ProcessFilter>,
    pub(crate) files: Files,
    spaces: HashMap<i32, AddressSpace>,
    /// How many were given a cache since all were freed.
    caches: usize,
    names: HashMap<i32, String>,
    programs: BTreeMap<i32, String>,
    /// When threads, by process and own number, have ended, since the ring buffers were read; and
    /// those that had ended before.
    ended: HashMap<(i32, i32), u64>,
    ended_before: HashMap<(i32, i32), u64>,
    known_max: usize,
    pub(crate) stacks: Stacks,
    pub(crate) counts: Counts,
}

impl Collector {
    pub(crate) fn new(layout: Layout, filter: Option<ProcessFilter>) -> Self {
        Self {
            layout,
            filter,
            files: Files::default(),
            spaces: HashMap::new(),
            caches: 0,
            names: HashMap::new(),
            programs: BTreeMap::new(),
            ended: HashMap::new(),
            ended_before: HashMap::new(),
            known_max: KNOWN_MAX,
            stacks: Stacks::default(),
            counts: Counts::default(),
        }
    }

    /// Takes a process and its threads as they are now.
    pub(crate) fn add_process(&mut self, pid: i32, threads: &[i32]) {
        if let Some(filter) = &mut self.filter {
            filter.follow(pid);
        }
        self.spaces.insert(pid, AddressSpace::of_process(pid, &mut self.files));
        for &tid in threads {
            let name = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm"));
            self.names.insert(tid, name.unwrap_or_default().trim_end().to_owned());
        }
        let program = self.names.get(&pid).cloned().unwrap_or_default();
        self.programs.insert(pid, program);
    }

    /// Whether a process is one of those that are sampled.
    pub(crate) fn follows(&mut self, pid: i32) -> bool {
        self.filter.as_mut().is_none_or(|filter| filter.accepts(pid))
    }

    /// Processes and the names of their first threads.
    pub(crate) fn programs(&self) -> &BTreeMap<i32, String> {
        &self.programs
    }

    /// A thread as its samples are counted.
    pub(crate) fn thread(&self, pid: i32, tid: i32) -> Thread {
        // One that has ended and was forgotten most likely had the name that threads begin with.
        let name = self.names.get(&tid).or_else(|| self.programs.get(&pid));
        Thread { pid, name: name.cloned().unwrap_or_default() }
    }

    /// Forgets threads and processes that had ended before the last call: memory is bounded by those
    /// that run, however many come and go.
    ///
    /// Called when all ring buffers have been read. Each core has its own, so the end of a
    /// thread may be read before its samples on another core, which come in the next round at latest.
    pub(crate) fn forget_ended(&mut self) {
        for (pid, tid) in std::mem::take(&mut self.ended_before).into_keys() {
            self.names.remove(&tid);
            if pid == tid {
                self.spaces.remove(&pid);
                if let Some(filter) = &mut self.filter {
                    filter.forget(pid);
                }
                if !self.stacks.has_process(pid) {
                    self.programs.remove(&pid);
                }
            }
        }
        self.ended_before = std::mem::take(&mut self.ended);
        if self.known() > self.known_max {
            self.forget_vanished();
        }
    }

    /// Forgets those whose end was among records that did not fit into a buffer.
    fn forget_vanished(&mut self) {
        let runs = |id: &i32| Path::new("/proc").join(id.to_string()).exists();
        self.spaces.retain(|pid, _| runs(pid));
        self.names.retain(|tid, _| runs(tid));
        let stacks = &self.stacks;
        self.programs.retain(|pid, _| stacks.has_process(*pid) || runs(pid));
        self.known_max = KNOWN_MAX.max(2 * self.known());
    }

    fn known(&self) -> usize {
        self.spaces.len() + self.names.len() + self.programs.len()
    }

    /// Processes that were sampled in code that a runtime generated.
    pub(crate) fn with_generated_code(&self) -> BTreeSet<i32> {
        let locations = self.stacks.locations().into_iter().flatten();
        let pids = locations.filter_map(|location| match location {
            Location::Generated(pid, _) => Some(pid),
            _ => None,
        });
        pids.collect()
    }

    /// Forgets all samples, but not what is mapped where.
    pub(crate) fn reset(&mut self) {
        self.stacks = Stacks::default();
        self.counts = Counts::default();
    }

    /// Frees what only further samples would need.
    pub(crate) fn release_unwind_information(&mut self) {
        self.spaces = HashMap::new();
        self.files.release_unwind_information();
    }

    /// Takes a record of a ring buffer.
    pub(crate) fn on_record(&mut self, bytes: &[u8]) {
        let record = parse(bytes, self.layout);
        if record.as_ref().is_some_and(|record| !self.is_followed(record)) {
            return;
        }
        match record {
            Some(Record::Sample(sample)) => self.on_sample(&sample),
            Some(Record::Mmap(mmap)) => self.on_mmap(&mmap),
            Some(Record::Comm { pid, tid, name, is_exec }) => {
                let name = String::from_utf8_lossy(name).into_owned();
                if is_exec {
                    self.spaces.insert(pid, AddressSpace::new(pid));
                }
                if pid == tid {
                    self.programs.insert(pid, name.clone());
                }
                self.names.insert(tid, name);
            }
            Some(Record::Fork { pid, parent, tid, parent_tid, time_ns }) => {
                // Its end may have been read before, from another core; if it was the end of an
                // earlier one of this number, it is no longer to be forgotten.
                for ended in [&mut self.ended, &mut self.ended_before] {
                    if ended.get(&(pid, tid)).is_some_and(|&end_ns| end_ns < time_ns) {
                        ended.remove(&(pid, tid));
                    }
                }
                self.on_fork(pid, parent, tid, parent_tid);
            }
            Some(Record::Exit { pid, tid, time_ns }) => {
                self.ended.insert((pid, tid), time_ns);
            }
            Some(Record::Lost(count)) => self.counts.lost += count,
            Some(Record::Throttle) => self.counts.throttled += 1,
            Some(Record::Other) => {}
            None => self.counts.invalid += 1,
        }
    }

    fn is_followed(&mut self, record: &Record<'_>) -> bool {
        let Some(filter) = &mut self.filter else { return true };
        match record {
            Record::Sample(Sample { pid, .. })
            | Record::Mmap(Mmap { pid, .. })
            | Record::Comm { pid, .. } => filter.accepts(*pid),
            Record::Fork { pid, parent, .. } => filter.on_fork(*pid, *parent),
            Record::Exit { pid, tid, .. } => filter.on_exit(*pid, *tid),
            Record::Lost(_) | Record::Throttle | Record::Other => true,
        }
    }

    fn on_fork(&mut self, pid: i32, parent: i32, tid: i32, parent_tid: i32) {
        let name = self.names.get(&parent_tid).cloned().unwrap_or_default();
        self.names.insert(tid, name.clone());
        if pid == parent {
            return;
        }
        self.counts.started += 1;
        self.programs.insert(pid, name);
        let space = match self.spaces.get(&parent) {
            Some(parent) => parent.fork(pid),
            None => AddressSpace::of_process(pid, &mut self.files),
        };
        self.spaces.insert(pid, space);
    }

    fn on_mmap(&mut self, mmap: &Mmap<'_>) {
        if !mmap.is_executable {
            return;
        }
        let space = self.spaces.entry(mmap.pid).or_insert_with(|| AddressSpace::new(mmap.pid));
        let end = mmap.start.saturating_add(mmap.length);
        let path = String::from_utf8_lossy(mmap.path);
        space.map(mmap.start..end, mmap.offset, &path, &mut self.files);
    }

    fn on_sample(&mut self, sample: &Sample<'_>) {
        self.counts.samples += 1;
        let pid = sample.pid;
        if self.caches >= CACHES_MAX {
            self.caches = 0;
            self.spaces.values_mut().for_each(AddressSpace::release_cache);
        }
        let files = &mut self.files;
        let space = self.spaces.entry(pid).or_insert_with(|| AddressSpace::of_process(pid, files));
        let had_cache = space.has_cache();
        let (user, complete) = space.unwind(sample, files);
        self.caches += usize::from(space.has_cache() && !had_cache);
        self.counts.cut += u64::from(!complete);
        let mut stack: Vec<Option<Location>> = kernel_part(sample);
        self.counts.kernel += u64::from(!stack.is_empty());
        stack.extend(user.into_iter().map(|address| space.locate(address)));
        // An address on a damaged stack that is no code ends what is known of it.
        let known = stack.iter().rposition(Option::is_some).map_or(1, |last| last + 1);
        stack.truncate(known.min(stack.len()));
        let thread = self.thread(pid, sample.tid);
        self.stacks.add(&thread, &stack);
    }
}

fn kernel_part(sample: &Sample<'_>) -> Vec<Option<Location>> {
    let chain = sample.kernel.iter().enumerate();
    let looked_up =
        chain.map(|(depth, address)| if depth == 0 { address } else { address.saturating_sub(1) });
    looked_up.map(|address| Some(Location::Kernel(address))).collect()
}

#[cfg(test)]
mod tests;
