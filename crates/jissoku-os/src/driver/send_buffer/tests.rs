use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;
use crate::driver::tests::Paper;

/// The one file that is referred to.
static PAPER: LazyLock<Paper> = LazyLock::new(|| {
    let bytes: Vec<u8> = (0..=255).collect();
    Paper::new(&bytes)
});

/// One thing that a handler does.
#[derive(Clone, Debug)]
enum Stroke {
    Append(Vec<u8>),
    Own(Vec<u8>, usize),
    Share(Vec<u8>, Range<usize>),
    File(Range<u64>),
}

impl Stroke {
    fn apply(&self, output: &mut SendBuffer) {
        match self {
            Self::Append(bytes) => output.append(bytes),
            Self::Own(bytes, start) => output.append_owned(bytes.clone(), *start),
            Self::Share(bytes, range) => {
                output.append_shared_part(Arc::from(bytes.as_slice()), range.clone());
            }
            Self::File(range) => output.append_file(Arc::clone(&PAPER.file), range.clone()),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Append(bytes) => bytes.clone(),
            Self::Own(bytes, start) => bytes[*start..].to_vec(),
            Self::Share(bytes, range) => bytes[range.clone()].to_vec(),
            Self::File(range) => read(&PAPER.file, range),
        }
    }
}

fn strokes() -> impl Strategy<Value = Vec<Stroke>> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..20);
    let range = |end: usize| (0..=end, 0..=end).prop_map(|(a, b)| a.min(b)..a.max(b));
    let append = bytes().prop_map(Stroke::Append);
    let own = bytes()
        .prop_flat_map(|bytes| (Just(bytes.clone()), 0..=bytes.len()))
        .prop_map(|(bytes, start)| Stroke::Own(bytes, start));
    let share = bytes()
        .prop_flat_map(move |bytes| (Just(bytes.clone()), range(bytes.len())))
        .prop_map(|(bytes, range)| Stroke::Share(bytes, range));
    let file = range(256).prop_map(|range| Stroke::File(range.start as u64..range.end as u64));
    prop::collection::vec(prop_oneof![append, own, share, file], 0..8)
}

fn read(file: &File, range: &Range<u64>) -> Vec<u8> {
    let mut bytes = vec![0; length(range)];
    let count = file.read_at(&mut bytes, range.start).expect("it can be read");
    assert_eq!(count, bytes.len());
    bytes
}

fn write(strokes: &[Stroke]) -> (SendBuffer, Vec<u8>) {
    let mut output = SendBuffer::default();
    for stroke in strokes {
        stroke.apply(&mut output);
    }
    (output, strokes.iter().flat_map(Stroke::bytes).collect())
}

fn unsent(output: &SendBuffer) -> Vec<u8> {
    let segment_refs = output.unsent().map(|segment_ref| match segment_ref {
        SegmentRef::Memory(bytes) => bytes.to_vec(),
        SegmentRef::File(file, range) => read(file, &range),
    });
    segment_refs.flatten().collect()
}

proptest! {
    #[test]
    fn whatever_was_sent_the_rest_is_the_rest(strokes in strokes(), part: prop::sample::Index) {
        let (mut output, bytes) = write(&strokes);
        prop_assert_eq!(output.size(), bytes.len());
        let sent = part.index(bytes.len() + 1);
        output.advance(sent);
        prop_assert_eq!(output.size(), bytes.len() - sent);
        prop_assert_eq!(unsent(&output), &bytes[sent..]);
        let offered: Vec<u8> = output.memory().flatten().copied().collect();
        prop_assert!(bytes[sent..].starts_with(&offered));
        prop_assert!(output.has_file() || offered.len() == bytes.len() - sent);
        let rest = output.take_unsent();
        prop_assert!(output.is_empty() && !output.has_file());
        prop_assert_eq!(rest.size(), bytes.len() - sent);
        prop_assert_eq!(unsent(&rest), &bytes[sent..]);
    }

    #[test]
    fn two_outputs_become_one(first in strokes(), second in strokes()) {
        let (mut output, mut bytes) = write(&first);
        let (mut other, others) = write(&second);
        output.append_all(&mut other);
        bytes.extend(others);
        prop_assert!(other.is_empty());
        prop_assert_eq!(output.size(), bytes.len());
        prop_assert_eq!(unsent(&output), bytes);
    }

    #[test]
    fn everything_arrives_in_order(strokes in strokes()) {
        let (mut output, bytes) = write(&strokes);
        let (near, far) = UnixStream::pair().expect("a pair can be had");
        prop_assert_eq!(output.send(&near).expect("it listens"), Sent::All);
        drop(near);
        let mut arrived = Vec::new();
        (&far).read_to_end(&mut arrived).expect("all was sent");
        prop_assert_eq!(arrived, bytes);
    }
}

#[test]
fn one_send_of_a_large_file_is_bounded() {
    // A file that is written to always has room.
    let large = vec![b'l'; 2 * SEND_SIZE_MAX + 1];
    let sink = std::fs::File::create("/dev/null").expect("it takes everything");
    let mut output = SendBuffer::default();
    output.append_file(Paper::new(&large).file, 0..large.len() as u64);
    let mut outcomes = Vec::new();
    for _ in 0..3 {
        outcomes.push(output.send(&sink).expect("it can be written to"));
    }
    assert_eq!(outcomes, [Sent::BudgetSpent, Sent::BudgetSpent, Sent::All]);
}

#[test]
fn a_file_that_is_too_short_ends_the_output() {
    let paper = Paper::new(b"abc");
    paper.writer.set_len(0).expect("it can be cut");
    let (near, far) = UnixStream::pair().expect("a pair can be had");
    let mut output = SendBuffer::default();
    output.append(b"head");
    output.append_file(paper.file, 0..3);
    let error = output.send(&near).expect_err("the file is too short");
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    drop(near);
    let mut arrived = Vec::new();
    (&far).read_to_end(&mut arrived).expect("the head was sent");
    assert_eq!(arrived, b"head");
}

#[test]
fn a_file_that_was_sent_in_part_is_no_sign_of_a_full_socket() {
    // `sendfile(2)` may stop early while there is room, and then no edge will report it.
    let bytes = vec![b'f'; 1024 * 1024];
    let (reader, writer) =
        rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).expect("a pipe");
    let mut output = SendBuffer::default();
    output.append_file(Paper::new(&bytes).file, 0..bytes.len() as u64);
    assert_eq!(output.send(&writer).expect("the peer reads"), Sent::BudgetSpent);
    assert!((1..bytes.len()).contains(&output.size()), "{} bytes are left", output.size());
    assert_eq!(output.send(&writer).expect("the peer reads"), Sent::WouldBlock);
    drop(reader);
}
