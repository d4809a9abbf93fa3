//! Samples a process tree: opens the events, reads the ring buffers, and follows what is started.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Duration;

use jissoku_os::perf::{self, Clock, Event, EventOptions, Ring, Scope, Subject};
use jissoku_os::signal::Signals;
use jissoku_os::{affinity, clock, memory, poll, process};

use crate::collector::Collector;
use crate::java;
use crate::lookout::{Had, Lookout, Turns};
use crate::process_filter::ProcessFilter;
use crate::profile::{self, Profile, Sampling};
use crate::python::PythonReader;
use crate::record::Layout;

/// Data of the ring buffer of a core. Without root the kernel allows half a MiB for all, and
/// smaller ones are tried then.
const RING_SIZE: usize = 4 << 20;
const RING_SIZE_MIN: usize = 64 << 10;

/// The longest time between readings.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// How often records are taken while frames of Python are read. Until then they are held, a MiB or so.
const DRAIN_NS: u64 = 50_000_000;

/// How often it is checked that the target is alive.
const ALIVE_NS: u64 = 500_000_000;

/// What is sampled, and how.
#[derive(Clone, Debug)]
pub struct Plan {
    /// First processes; their trees are sampled, as are processes that these start.
    pub roots: Vec<i32>,
    /// How long; `None`: until stopped or until all have ended.
    pub duration_ns: Option<u64>,
    /// Samples per second of CPU time.
    pub frequency: u32,
    /// What a sample is taken after.
    pub clock: Clock,
    /// Which part is sampled.
    pub scope: Scope,
    /// Bytes of the stack that are copied; 0: frame pointers only.
    pub stack_size: u32,
    /// Whether frames of interpreters are read.
    pub interpreters: bool,
}

/// Control signals.
#[derive(Debug)]
pub struct Controls<'a> {
    /// Ends it.
    pub stop: &'a Signals,
    /// All samples so far are forgotten: a measurement begins here.
    pub reset: &'a mut Signals,
    /// Stops taking samples, and the next one resumes.
    pub pause: &'a mut Signals,
}

/// Samples. `on_start` is called when the first sample may be taken.
///
/// # Errors
/// A sentence: nothing can be sampled, and why.
pub fn sample(
    plan: &Plan,
    mut controls: Controls<'_>,
    on_start: impl FnOnce(),
) -> Result<Profile, String> {
    let _limit = process::raise_descriptor_limit();
    let pids = tree(&plan.roots).map_err(|error| format!("/proc cannot be read: {error}"))?;
    if pids.is_empty() {
        return Err("there is no such process".to_owned());
    }
    let mut notes = Vec::new();
    let python = if plan.interpreters { &pids[..] } else { &[] };
    let python = PythonReader::find(python);
    let mut opened = open_all(plan, !python.is_empty(), &mut notes)?;
    let layout = if plan.stack_size == 0 { Layout::CallChain } else { Layout::WithStack };
    let filter = opened.is_of_cores.then(ProcessFilter::default);
    let mut collector = Collector::new(layout, filter);
    opened.set_enabled(true).map_err(|error| format!("an event cannot be enabled: {error}"))?;
    // After enabling, so that a file mapped meanwhile is in the list, in a record, or in both.
    for &pid in &pids {
        collector.add_process(pid, &threads(pid));
    }
    on_start();
    let lookout = Lookout::new().map_err(|error| format!("no timer can be set: {error}"))?;
    let random = clock::monotonic_ns() | 1;
    let counted_before_ns = Some(0);
    let mut state = State { opened, collector, python, lookout, random, notes, counted_before_ns };
    let duration_ns = state.watch(plan, &mut controls);
    let counted_ns = state.counted_ns(plan.clock);
    let State { opened, mut collector, mut python, mut notes, .. } = state;
    let sampling = Sampling {
        clock: if plan.clock == Clock::CpuTime { "cpu-time" } else { "cycles" },
        period: period(plan),
        duration_ns,
        counted_ns,
        sees_kernel: opened.scope == Scope::Everything,
    };
    // Names take as much memory again, so all that only further samples would need is freed before.
    drop(opened);
    collector.release_unwind_information();
    python.release_processes();
    notes.append(&mut python.failures);
    memory::release_free();
    notes.extend(java::write_perf_maps(collector.with_generated_code()));
    notes.extend(remarks(&collector, sampling));
    Ok(profile::build(collector, python, sampling, notes))
}

/// Everything that grows while sampling.
struct State {
    opened: Opened,
    collector: Collector,
    python: PythonReader,
    lookout: Lookout,
    random: u64,
    notes: Vec<String>,
    /// What the events had counted when the measurement began.
    counted_before_ns: Option<u64>,
}

impl State {
    /// CPU time since the measurement began, by the events' own count.
    fn counted_ns(&self, clock: Clock) -> Option<u64> {
        let counted = self.opened.count()?.checked_sub(self.counted_before_ns?);
        counted.filter(|_| clock == Clock::CpuTime)
    }

    /// Reads until time is up, and returns for how long, in nanoseconds.
    fn watch(&mut self, plan: &Plan, controls: &mut Controls<'_>) -> u64 {
        let mut start_ns = clock::monotonic_ns();
        let mut alive_ns = start_ns;
        let mut drained_ns = start_ns;
        let mut is_paused = false;
        loop {
            let now_ns = clock::monotonic_ns();
            let left_ns = plan.duration_ns.map(|whole| (start_ns + whole).saturating_sub(now_ns));
            if left_ns == Some(0) {
                break;
            }
            if now_ns - alive_ns >= ALIVE_NS {
                alive_ns = now_ns;
                if !plan.roots.iter().any(|root| is_alive(*root)) {
                    self.notes.push("The target ended while it was sampled.".to_owned());
                    break;
                }
            }
            let sources = [controls.stop.as_fd(), controls.reset.as_fd(), controls.pause.as_fd()];
            let woken = if is_paused || self.python.is_empty() {
                let wait =
                    left_ns.map_or(WAIT_MAX, |left| WAIT_MAX.min(Duration::from_nanos(left)));
                poll::wait_readable(&sources, Some(wait)).unwrap_or_default()
            } else {
                self.look(&sources, left_ns).unwrap_or_else(|error| self.give_up_python(&error))
            };
            if woken.get(2) == Some(&true) && controls.pause.count() % 2 == 1 {
                is_paused = !is_paused;
                self.set_paused(is_paused);
            }
            if is_paused || self.python.is_empty() || now_ns - drained_ns >= DRAIN_NS {
                drained_ns = now_ns;
                self.drain();
            }
            if woken.first() == Some(&true) {
                break;
            }
            if woken.get(1) == Some(&true) && controls.reset.count() > 0 {
                self.drain();
                self.collector.reset();
                self.python.reset();
                self.counted_before_ns = self.opened.count();
                start_ns = clock::monotonic_ns();
            }
        }
        self.drain();
        clock::monotonic_ns() - start_ns
    }

    /// Takes all records. That takes time, which others may need.
    fn drain(&mut self) {
        Lookout::rest();
        self.opened.drain(&mut self.collector);
    }

    /// Waits until a random moment, and reads the frames of the thread that has a core then; returns
    /// which of `sources` are readable.
    fn look(&mut self, sources: &[BorrowedFd<'_>], left_ns: Option<u64>) -> io::Result<Vec<bool>> {
        let Self { opened, collector, python, lookout, random, .. } = self;
        // Between a half and one and a half of the mean: no rhythm of the server can hide from that.
        let mean_ns = python.mean_wait_ns();
        let wait_ns = mean_ns / 2 + next(random) % mean_ns;
        let at = usize::try_from(next(random)).unwrap_or(0) % opened.looked_at.len().max(1);
        let ring = opened.looked_at.get(at).copied().unwrap_or(0);
        let moment_ns = lookout.go(opened.cores[ring], wait_ns.min(left_ns.unwrap_or(wait_ns)))?;
        let all: Vec<BorrowedFd<'_>> =
            sources.iter().copied().chain([lookout.timer.as_fd()]).collect();
        let mut woken = poll::wait_readable(&all, None)?;
        let is_due = woken.pop() == Some(true);
        let had = if is_due { opened.had(ring, moment_ns, lookout.is_first) } else { Had::Unknown };
        let asked = python.ask(had);
        // Where it may not go back, it stays: the thread that was asked is to be read anyway.
        let is_home = lookout.return_home();
        if is_due {
            python.looks += 1;
        }
        if let Some(asked) = asked {
            let (pid, tid) = asked.id;
            python.read(asked, collector.thread(pid, tid));
        } else if let Had::Thread((pid, _)) | Had::Late((pid, _)) = had
            && collector.follows(pid)
        {
            python.runs_python(pid);
        }
        python.release_late();
        is_home.map(|()| woken)
    }

    /// Notes why no frames are read from now on.
    fn give_up_python(&mut self, error: &io::Error) -> Vec<bool> {
        let _home = self.lookout.return_home();
        self.python.give_up(error);
        Vec::new()
    }

    fn set_paused(&mut self, is_paused: bool) {
        self.python.wait_for_late();
        if let Err(error) = self.opened.set_enabled(!is_paused) {
            self.notes.push(format!("Sampling could not be paused or resumed: {error}."));
        }
    }
}

/// Whether a process exists and has not ended; one that ended may wait for its parent.
fn is_alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| state != 'Z' && state != 'X')
}

/// Marsaglia's xorshift: which numbers come matters less than that they have no period.
fn next(random: &mut u64) -> u64 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    *random
}

/// Events of cores or of all threads, and a ring buffer for each core.
struct Opened {
    rings: Vec<Ring>,
    /// The core of each ring.
    cores: Vec<usize>,
    /// The thread that has the core of each ring.
    turns: Vec<Turns>,
    /// Indices of the rings whose cores the target may use.
    looked_at: Vec<usize>,
    /// Records that were read and are yet to be taken.
    held: Vec<Vec<u8>>,
    events: Vec<Event>,
    scope: Scope,
    /// They are of everything that runs on the cores.
    is_of_cores: bool,
}

impl Opened {
    fn new(scope: Scope, is_of_cores: bool) -> Self {
        Self {
            rings: Vec::new(),
            cores: Vec::new(),
            turns: Vec::new(),
            looked_at: Vec::new(),
            held: Vec::new(),
            events: Vec::new(),
            scope,
            is_of_cores,
        }
    }

    /// Maps the ring buffer of a core's event.
    fn map(&mut self, event: Event, core: usize, is_looked_at: bool) -> io::Result<()> {
        if is_looked_at {
            self.looked_at.push(self.rings.len());
        }
        self.rings.push(Ring::map(event, RING_SIZE_MIN, RING_SIZE)?);
        self.cores.push(core);
        self.turns.push(Turns::default());
        Ok(())
    }

    fn set_enabled(&mut self, is_enabled: bool) -> io::Result<()> {
        // Meanwhile nothing says which threads have the cores.
        self.turns.fill_with(Turns::default);
        let set = if is_enabled { Event::enable } else { Event::disable };
        self.rings.iter().map(Ring::event).chain(&self.events).try_for_each(set)
    }

    /// The sum of what all events of threads counted; `None` if one cannot be read.
    fn count(&self) -> Option<u64> {
        if self.is_of_cores {
            return None;
        }
        let events = self.rings.iter().map(Ring::event).chain(&self.events);
        events.map(|event| event.count().ok()).sum()
    }

    fn drain(&mut self, collector: &mut Collector) {
        for record in self.held.drain(..) {
            collector.on_record(&record);
        }
        for (ring, turns) in self.rings.iter_mut().zip(&mut self.turns) {
            ring.drain(|record| {
                turns.on_record(record);
                collector.on_record(record);
            });
        }
        collector.forget_ended();
    }

    /// The thread that had a core at a moment. Records are kept for later: unwinding them now would take
    /// the target's time.
    fn had(&mut self, ring: usize, moment_ns: u64, is_first: bool) -> Had {
        let Self { rings, turns, held, .. } = self;
        rings[ring].drain(|record| {
            turns[ring].on_record(record);
            held.push(record.to_vec());
        });
        turns[ring].at(moment_ns, is_first)
    }
}

fn open_all(plan: &Plan, switches: bool, notes: &mut Vec<String>) -> Result<Opened, String> {
    if let Ok(opened) = try_open_cores(plan, switches) {
        return Ok(opened);
    }
    let mut scope = plan.scope;
    loop {
        match try_open(plan, scope, switches) {
            Ok(opened) => {
                if opened.scope == Scope::UserSpace {
                    notes.push("The kernel was not sampled: its part is what is left.".to_owned());
                }
                return Ok(opened);
            }
            Err(error) if is_refusal(&error) && scope == Scope::Everything => {
                scope = Scope::UserSpace;
            }
            Err(error) => return Err(refusal(&error, plan.clock)),
        }
    }
}

fn is_refusal(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

fn refusal(error: &io::Error, clock: Clock) -> String {
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    match error.kind() {
        io::ErrorKind::PermissionDenied => format!(
            "sampling is not allowed here (kernel.perf_event_paranoid is {}): with 2 or less, user \
             space of one's own processes is; a container may also forbid perf_event_open",
            paranoid.trim()
        ),
        io::ErrorKind::NotFound if clock == Clock::Cycles => {
            "cycles cannot be counted on this machine: sample CPU time".to_owned()
        }
        _ => format!("perf_event_open failed: {error}"),
    }
}

/// Opens an event for each core that a thread of the trees may use now. One that a thread allows
/// itself later is not sampled.
///
/// Events of threads add 18 to 38 % to the CPU time of servers that sleep after each request: a
/// timer is set and cancelled each time (docs/decisions/0040).
fn try_open_cores(plan: &Plan, switches: bool) -> io::Result<Opened> {
    let options = event_options(plan, plan.scope, switches);
    let mut opened = Opened::new(plan.scope, true);
    for core in target_cores(plan)? {
        opened.map(perf::open(Subject::Core, core, &options)?, core, true)?;
    }
    Ok(opened)
}

fn target_cores(plan: &Plan) -> io::Result<BTreeSet<usize>> {
    let tids = tree(&plan.roots)?.into_iter().flat_map(threads);
    // A thread may have ended meanwhile.
    Ok(tids.filter_map(|tid| affinity::of_thread(tid).ok()).flatten().collect())
}

fn event_options(plan: &Plan, scope: Scope, switches: bool) -> EventOptions {
    EventOptions {
        clock: plan.clock,
        period: period(plan),
        scope,
        stack_size: plan.stack_size,
        wakeup_size: u32::try_from(RING_SIZE / 2).unwrap_or(u32::MAX),
        switches,
    }
}

/// Opens an event for each thread and core. Threads that begin meanwhile are found by looking
/// again; those that begin later inherit.
fn try_open(plan: &Plan, scope: Scope, switches: bool) -> io::Result<Opened> {
    let options = event_options(plan, scope, switches);
    let (cores, theirs) = (affinity::online()?, target_cores(plan)?);
    let mut opened = Opened::new(scope, false);
    let mut seen = BTreeSet::new();
    loop {
        let all = tree(&plan.roots)?.into_iter().flat_map(threads);
        let new: Vec<i32> = all.filter(|tid| !seen.contains(tid)).collect();
        if new.is_empty() {
            break;
        }
        for tid in new {
            seen.insert(tid);
            match open_thread(tid, (&cores, &theirs), &options, &mut opened) {
                // A thread may end between listing and opening.
                Err(error) if error.raw_os_error() == Some(NO_SUCH_PROCESS) => {}
                other => other?,
            }
        }
    }
    if opened.rings.is_empty() {
        return Err(io::Error::from_raw_os_error(NO_SUCH_PROCESS));
    }
    Ok(opened)
}

/// `ESRCH`.
const NO_SUCH_PROCESS: i32 = 3;

fn open_thread(
    tid: i32,
    (cores, theirs): (&[usize], &BTreeSet<usize>),
    options: &EventOptions,
    opened: &mut Opened,
) -> io::Result<()> {
    let subject = Subject::Thread(tid);
    let events: Vec<Event> =
        cores.iter().map(|&core| perf::open(subject, core, options)).collect::<io::Result<_>>()?;
    if opened.rings.is_empty() {
        for (event, &core) in events.into_iter().zip(cores) {
            opened.map(event, core, theirs.contains(&core))?;
        }
        return Ok(());
    }
    for (event, ring) in events.iter().zip(&opened.rings) {
        event.redirect(ring.event())?;
    }
    opened.events.extend(events);
    Ok(())
}

fn period(plan: &Plan) -> u64 {
    match plan.clock {
        Clock::CpuTime => 1_000_000_000 / u64::from(plan.frequency.max(1)),
        // Two cycles a nanosecond is close enough for a rate of samples.
        Clock::Cycles => 2_000_000_000 / u64::from(plan.frequency.max(1)),
    }
}

fn tree(roots: &[i32]) -> io::Result<Vec<i32>> {
    let mut all = BTreeSet::new();
    for &root in roots {
        all.extend(process::process_tree(root)?);
    }
    Ok(all.into_iter().collect())
}

fn threads(pid: i32) -> Vec<i32> {
    let listed = fs::read_dir(format!("/proc/{pid}/task"));
    let names = listed.into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.filter_map(|name| name.to_str()?.parse().ok()).collect()
}

/// Sentences about what the profile lacks.
fn remarks(collector: &Collector, sampling: Sampling) -> Vec<String> {
    let counts = collector.counts;
    let mut notes = Vec::new();
    let counted_ns = sampling.counted_ns.unwrap_or(0);
    if counts.samples == 0 && sampling.sees_kernel && counted_ns < sampling.period {
        notes.push("The target used no CPU time while it was sampled.".to_owned());
    }
    if counts.lost > 0 {
        notes.push(format!("{} records did not fit into the buffer and are lost.", counts.lost));
    }
    if counts.throttled > 0 {
        notes.push(format!("The kernel stopped sampling {} times for a while.", counts.throttled));
    }
    if counts.cut * 10 > counts.samples {
        notes.push(format!(
            "{} of {} stacks are not known to their end: callers are missing there, the functions \
             that used the time are not.",
            counts.cut, counts.samples
        ));
    }
    notes
}
