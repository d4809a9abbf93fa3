use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// A record with its header.
fn record(kind: u32, misc: u16, body: &[u64]) -> Vec<u8> {
    let size = u16::try_from(8 + body.len() * 8).expect("short");
    let mut bytes = kind.to_ne_bytes().to_vec();
    bytes.extend(misc.to_ne_bytes());
    bytes.extend(size.to_ne_bytes());
    bytes.extend(body.iter().flat_map(|word| word.to_ne_bytes()));
    bytes
}

/// Two halves of a word.
fn pair(low: u32, high: u32) -> u64 {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&low.to_ne_bytes());
    bytes[4..].copy_from_slice(&high.to_ne_bytes());
    u64::from_ne_bytes(bytes)
}

fn addresses(found: Addresses<'_>) -> Vec<u64> {
    found.iter().collect()
}

#[test]
fn a_sample_has_a_kernel_and_a_user_part() {
    let chain = [5, CONTEXT_KERNEL, 0xffff_8000, CONTEXT_USER, 0x1000, 0x2000];
    let bytes = record(SAMPLE, 0, &[&[0x1000, pair(7, 8), 99][..], &chain].concat());
    let Some(Record::Sample(sample)) = parse(&bytes, Layout::CallChain) else { panic!("a sample") };
    assert_eq!((sample.ip, sample.pid, sample.tid), (0x1000, 7, 8));
    assert_eq!(addresses(sample.kernel), [0xffff_8000]);
    assert_eq!(addresses(sample.user), [0x1000, 0x2000]);
}

#[test]
fn a_stack_has_as_many_bytes_as_were_used() {
    let mut body = vec![0x1000, pair(7, 8), 99, 0, 2];
    body.extend(vec![11; REGISTERS]);
    body.extend([16, 0xaaaa, 0xbbbb, 8]);
    let bytes = record(SAMPLE, 0, &body);
    let Some(Record::Sample(sample)) = parse(&bytes, Layout::WithStack) else { panic!("a sample") };
    assert_eq!(sample.registers, Some([11; REGISTERS]));
    assert_eq!(sample.stack, 0xaaaa_u64.to_ne_bytes());
    assert!(!sample.stack_is_cut);
}

#[test]
fn a_thread_of_the_kernel_has_no_registers() {
    let bytes = record(SAMPLE, 0, &[0x1000, pair(7, 8), 99, 0, 0, 0]);
    let Some(Record::Sample(sample)) = parse(&bytes, Layout::WithStack) else { panic!("a sample") };
    assert_eq!((sample.registers, sample.stack), (None, &[][..]));
}

#[test]
fn a_mapping_has_a_path_and_says_whether_it_is_code() {
    let mut bytes = record(MMAP2, 0, &[pair(7, 7), 0x1000, 0x2000, 0x3000, 0, 0, 0, pair(5, 2)]);
    bytes.extend(b"/lib/libz.so.1\0\0");
    let expected = Mmap {
        pid: 7,
        start: 0x1000,
        length: 0x2000,
        offset: 0x3000,
        is_executable: true,
        path: b"/lib/libz.so.1",
    };
    assert_eq!(parse(&bytes, Layout::WithStack), Some(Record::Mmap(expected)));
}

#[test]
fn names_forks_exits_and_losses_are_read() {
    let mut comm = record(COMM, MISC_COMM_EXEC, &[pair(7, 8)]);
    comm.extend(b"nginx\0\0\0");
    let named = Record::Comm { pid: 7, tid: 8, name: b"nginx", is_exec: true };
    assert_eq!(parse(&comm, Layout::CallChain), Some(named));
    let fork = record(FORK, 0, &[pair(9, 7), pair(9, 8), 1]);
    let forked = Record::Fork { pid: 9, parent: 7, tid: 9, parent_tid: 8, time_ns: 1 };
    assert_eq!(parse(&fork, Layout::CallChain), Some(forked));
    let exit = record(EXIT, 0, &[pair(9, 7), pair(10, 8), 1]);
    assert_eq!(parse(&exit, Layout::CallChain), Some(Record::Exit { pid: 9, tid: 10, time_ns: 1 }));
    let lost = record(LOST, 0, &[1, 12]);
    assert_eq!(parse(&lost, Layout::CallChain), Some(Record::Lost(12)));
    assert_eq!(parse(&record(THROTTLE, 0, &[]), Layout::CallChain), Some(Record::Throttle));
    assert_eq!(parse(&record(77, 0, &[]), Layout::CallChain), Some(Record::Other));
}

#[test]
fn a_switch_says_which_thread_has_the_core() {
    let turn_of = |kind, misc, body: &[u64]| turn(&record(kind, misc, body));
    let began = Turn { id: (7, 8), time_ns: 99, is_end: false, is_preempted: false };
    let ended = Turn { is_end: true, ..began };
    let body = [pair(7, 8), 99];
    let wide = [pair(1, 2), pair(7, 8), 99];
    assert_eq!(turn_of(SWITCH, 0, &body), Some(began));
    assert_eq!(turn_of(SWITCH, MISC_SWITCH_OUT, &body), Some(ended));
    let preempted = Turn { is_preempted: true, ..ended };
    assert_eq!(turn_of(SWITCH, MISC_SWITCH_OUT | MISC_SWITCH_OUT_PREEMPT, &body), Some(preempted));
    assert_eq!(turn_of(SWITCH, MISC_SWITCH_OUT_PREEMPT, &body), Some(began));
    assert_eq!(turn_of(SWITCH_CPU_WIDE, 0, &wide), Some(began));
    assert_eq!(turn_of(SWITCH_CPU_WIDE, MISC_SWITCH_OUT, &wide), Some(ended));
    assert_eq!(turn_of(SAMPLE, 0, &[0x1000, pair(7, 8), 99, 0]), Some(began));
    assert_eq!(turn_of(FORK, 0, &wide), None);
    assert_eq!(turn_of(SWITCH, 0, &body[..1]), None);
}

proptest! {
    /// Whatever the bytes say, they are read without a panic and never beyond their end.
    #[test]
    fn any_bytes_are_read(
        kind in 0_u32..22,
        misc in any::<u16>(),
        body in vec(prop_oneof![0_u64..40, any::<u64>(), Just(CONTEXT_USER)], 0..64),
        cut in any::<prop::sample::Index>(),
        with_stack in any::<bool>(),
    ) {
        let bytes = record(kind, misc, &body);
        let layout = if with_stack { Layout::WithStack } else { Layout::CallChain };
        for bytes in [&bytes[..], &bytes[..cut.index(bytes.len() + 1)]] {
            if let Some(Record::Sample(sample)) = parse(bytes, layout) {
                prop_assert!(sample.stack.len() <= bytes.len());
                prop_assert!(addresses(sample.user).len() * 8 <= bytes.len());
            }
        }
    }
}
