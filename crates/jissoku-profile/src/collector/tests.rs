use super::*;

/// A record of `linux/perf_event.h`, of words of 64 bits.
fn record(kind: u32, body: &[u64]) -> Vec<u8> {
    let size = u32::try_from(8 + body.len() * 8).expect("short");
    let header = [kind, size << 16].into_iter().flat_map(u32::to_ne_bytes);
    header.chain(body.iter().flat_map(|word| word.to_ne_bytes())).collect()
}

/// Two halves of a word, the first in memory first.
fn pair(first: i32, second: i32) -> u64 {
    let (first, second) = (first.to_ne_bytes(), second.to_ne_bytes());
    u64::from_ne_bytes(std::array::from_fn(|at| if at < 4 { first[at] } else { second[at - 4] }))
}

/// Above every process that Linux can number, so that none of them runs here.
const FIRST: i32 = 1 << 23;

const SERVER: i32 = FIRST - 1;

fn fork_at(collector: &mut Collector, pid: i32, tid: i32, time_ns: u64) {
    let parent = if pid == tid { SERVER } else { pid };
    collector.on_record(&record(7, &[pair(pid, parent), pair(tid, parent), time_ns]));
}

fn fork(collector: &mut Collector, pid: i32, tid: i32) {
    fork_at(collector, pid, tid, 1);
}

fn exit(collector: &mut Collector, pid: i32, tid: i32) {
    collector.on_record(&record(4, &[pair(pid, SERVER), pair(tid, SERVER), 2]));
}

/// A sample with a call chain of one address in user space (`PERF_CONTEXT_USER`).
fn sample(collector: &mut Collector, pid: i32, tid: i32) {
    let chain = [2, 0_u64.wrapping_sub(512), 0x1000];
    collector.on_record(&record(9, &[&[0x1000, pair(pid, tid), 0][..], &chain].concat()));
}

fn new() -> Collector {
    let mut collector = Collector::new(Layout::CallChain, None);
    collector.programs.insert(SERVER, "server".to_owned());
    collector.names.insert(SERVER, "server".to_owned());
    collector
}

#[test]
fn a_server_that_forks_for_each_request_takes_bounded_memory() {
    let mut collector = new();
    let (count, per_round) = (20_000, 100);
    let mut most = 0;
    for number in 0..count {
        let pid = FIRST + 2 * number;
        fork(&mut collector, pid, pid);
        fork(&mut collector, pid, pid + 1);
        sample(&mut collector, pid, pid + 1);
        exit(&mut collector, pid, pid + 1);
        exit(&mut collector, pid, pid);
        if number % per_round == 0 {
            collector.forget_ended();
            most = most.max(collector.spaces.len()).max(collector.names.len());
        }
    }
    assert!(most <= 1 + 4 * usize::try_from(per_round).expect("small"), "{most} are kept");
    let threads = collector.stacks.threads().len();
    assert!(threads <= 2_000, "{threads} threads");
    assert!(collector.programs.len() <= 2 * threads, "{} programs", collector.programs.len());
    let counted: u64 = collector.stacks.take().map(|(_, _, count)| count).sum();
    assert_eq!(i64::try_from(counted), Ok(i64::from(count)), "no sample is lost");
    assert_eq!(i64::try_from(collector.counts.started), Ok(i64::from(count)), "threads are none");
}

#[test]
fn what_a_process_mapped_is_known_until_all_its_samples_are_read() {
    let mut collector = new();
    fork(&mut collector, FIRST, FIRST);
    exit(&mut collector, FIRST, FIRST);
    collector.forget_ended();
    assert!(collector.spaces.contains_key(&FIRST), "another core's samples may come now");
    collector.forget_ended();
    assert!(!collector.spaces.contains_key(&FIRST));
    assert!(!collector.programs.contains_key(&FIRST));
}

#[test]
fn the_number_of_a_process_can_be_used_again() {
    let mut collector = new();
    fork(&mut collector, FIRST, FIRST);
    exit(&mut collector, FIRST, FIRST);
    collector.forget_ended();
    fork_at(&mut collector, FIRST, FIRST, 3);
    collector.forget_ended();
    collector.forget_ended();
    assert!(collector.spaces.contains_key(&FIRST), "the second of that number runs");
}

#[test]
fn an_end_may_be_read_before_its_beginning() {
    let mut collector = new();
    exit(&mut collector, FIRST, FIRST);
    collector.forget_ended();
    fork(&mut collector, FIRST, FIRST);
    collector.forget_ended();
    assert!(!collector.spaces.contains_key(&FIRST), "the beginning was in another core's buffer");
    assert!(!collector.names.contains_key(&FIRST));
}

#[test]
fn processes_whose_end_was_lost_are_forgotten_too() {
    let mut collector = new();
    for number in 0..i32::try_from(KNOWN_MAX).expect("small") {
        fork(&mut collector, FIRST + number, FIRST + number);
        collector.forget_ended();
    }
    assert!(collector.known() <= KNOWN_MAX, "{} entries", collector.known());
}

#[test]
fn a_thread_that_was_forgotten_has_the_name_of_its_process() {
    let mut collector = new();
    fork(&mut collector, SERVER, FIRST);
    exit(&mut collector, SERVER, FIRST);
    collector.forget_ended();
    collector.forget_ended();
    assert!(!collector.names.contains_key(&FIRST));
    assert_eq!(collector.thread(SERVER, FIRST).name, "server");
}

#[test]
fn unwind_information_is_freed_before_names_are_looked_up() {
    let mut collector = new();
    let own = i32::try_from(std::process::id()).expect("a process number");
    collector.add_process(own, &[]);
    let used = collector.files.unwind_information();
    assert!(used.iter().any(|one| one.strong_count() > 0));
    let path = collector.files.path(0).to_owned();
    sample(&mut collector, own, own);
    collector.release_unwind_information();
    assert!(used.iter().all(|one| one.strong_count() == 0));
    assert_eq!(collector.files.path(0), path);
    assert_eq!(collector.counts.samples, 1);
}

#[test]
fn caches_of_processes_that_are_sampled_once_are_freed() {
    let mut collector = new();
    let count = 3 * CACHES_MAX;
    for pid in (FIRST..).take(count) {
        fork(&mut collector, pid, pid);
        collector.on_sample(&Sample {
            ip: 0x1000,
            pid,
            tid: pid,
            kernel: crate::record::Addresses::default(),
            user: crate::record::Addresses::default(),
            registers: Some([0; crate::record::REGISTERS]),
            stack: &[0; 64],
            stack_is_cut: false,
        });
        let caches = collector.spaces.values().filter(|space| space.has_cache()).count();
        assert!((1..=CACHES_MAX).contains(&caches), "{caches} caches");
    }
    assert_eq!(collector.spaces.len(), count, "none has ended");
}
