//! Messages of a worker process to its parent, over the pipe that reports its readiness.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use crate::metrics::{COUNTERS, Metrics, STORE_COUNTS, StoreCounts};

const REPLACE_ME: u8 = 20;
const COUNTERS_ARE: u8 = 21;
const NOT_ACCEPTING: u8 = 22;
const DRAINED: u8 = 23;
const OVERDUE: u8 = 24;
const STORE_IS: u8 = 25;

/// The kind of a message, and the length of what follows (little-endian).
const HEADER_SIZE: usize = 3;

/// The values of all counters, behind the number of their layout.
const COUNTERS_SIZE: usize = size_of::<u32>() + COUNTERS * size_of::<u64>();

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WorkerMessage {
    /// It requests a replacement, because it has served its maximum number of requests.
    ReplaceMe,
    /// The values of its counters.
    Counters(Box<[u64; COUNTERS]>),
    /// What it has done with the store of this name.
    Store(String, StoreCounts),
    /// It accepts no more connections.
    NotAccepting,
    /// It has no connections any more, and ends.
    Drained,
    /// Its application continues after its shutdown, and keeps it from ending.
    Overdue,
}

impl WorkerMessage {
    /// Takes the first message from received bytes, if it is complete. What is not known here is
    /// skipped: after an upgrade, a worker process may be of another version of the program than its
    /// parent.
    pub(crate) fn take(buffer: &mut Vec<u8>) -> Option<Self> {
        loop {
            let [kind, low, high] = *buffer.first_chunk::<HEADER_SIZE>()?;
            let end = HEADER_SIZE + usize::from(u16::from_le_bytes([low, high]));
            let message = Self::read(kind, buffer.get(HEADER_SIZE..end)?);
            buffer.drain(..end);
            if message.is_some() {
                return message;
            }
        }
    }

    fn read(kind: u8, content: &[u8]) -> Option<Self> {
        match kind {
            REPLACE_ME => Some(Self::ReplaceMe),
            NOT_ACCEPTING => Some(Self::NotAccepting),
            DRAINED => Some(Self::Drained),
            OVERDUE => Some(Self::Overdue),
            COUNTERS_ARE => {
                let (layout, bytes) = content.split_first_chunk()?;
                if u32::from_le_bytes(*layout) != Metrics::LAYOUT || content.len() != COUNTERS_SIZE
                {
                    return None;
                }
                let mut values = Box::new([0; COUNTERS]);
                for (value, bytes) in values.iter_mut().zip(bytes.as_chunks().0) {
                    *value = u64::from_le_bytes(*bytes);
                }
                Some(Self::Counters(values))
            }
            STORE_IS => {
                let (&count, bytes) = content.split_first()?;
                let (bytes, name) = bytes.split_at_checked(STORE_COUNTS * size_of::<u64>())?;
                if usize::from(count) != STORE_COUNTS {
                    return None;
                }
                let mut counts = StoreCounts::default();
                for (count, bytes) in counts.iter_mut().zip(bytes.as_chunks().0) {
                    *count = u64::from_le_bytes(*bytes);
                }
                Some(Self::Store(std::str::from_utf8(name).ok()?.to_owned(), counts))
            }
            _ => None,
        }
    }
}

/// Sends the messages of a worker process. The parent reads each message whole, because it is
/// shorter than `PIPE_BUF` (`pipe(7)`).
#[derive(Clone, Debug)]
pub struct ParentPipe(Arc<std::fs::File>);

impl ParentPipe {
    /// Sends over `pipe`.
    pub fn new(pipe: std::fs::File) -> Self {
        Self(Arc::new(pipe))
    }

    pub(crate) fn request_replacement(&self) {
        // Without a parent the worker ends as well.
        let _written = self.send(REPLACE_ME, &[]);
    }

    /// Reports that no more connections are accepted.
    pub(crate) fn report_not_accepting(&self) {
        // The error is ignored: without a parent, no process waits for this.
        let _written = self.send(NOT_ACCEPTING, &[]);
    }

    /// Reports that the last connection has ended.
    pub(crate) fn report_drained(&self) {
        // As above.
        let _written = self.send(DRAINED, &[]);
    }

    /// Reports that the application continues after its shutdown.
    pub fn report_overdue(&self) {
        // As above.
        let _written = self.send(OVERDUE, &[]);
    }

    /// Sends the values of all counters.
    ///
    /// # Errors
    /// The parent is gone.
    pub fn send_counters(&self, metrics: &Metrics) -> io::Result<()> {
        let mut content = Vec::with_capacity(COUNTERS_SIZE);
        content.extend(Metrics::LAYOUT.to_le_bytes());
        content.extend(metrics.values().iter().flat_map(|value| value.to_le_bytes()));
        self.send(COUNTERS_ARE, &content)
    }

    /// Sends what this process has done with the store `name`, which is short.
    ///
    /// # Errors
    /// The parent is gone.
    pub fn send_store_counts(&self, name: &str, counts: &StoreCounts) -> io::Result<()> {
        self.send(STORE_IS, &store_content(name, counts))
    }

    fn send(&self, kind: u8, content: &[u8]) -> io::Result<()> {
        (&*self.0).write_all(&framed(kind, content))
    }
}

impl AsFd for ParentPipe {
    /// Becomes readable when the parent has gone.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn store_content(name: &str, counts: &StoreCounts) -> Vec<u8> {
    // How many there are, for a parent of another version.
    let mut content = vec![STORE_COUNTS.to_le_bytes()[0]];
    content.extend(counts.iter().flat_map(|count| count.to_le_bytes()));
    content.extend_from_slice(name.as_bytes());
    content
}

fn framed(kind: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).expect("a message is shorter than PIPE_BUF");
    let [low, high] = length.to_le_bytes();
    [&[kind, low, high], content].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_sent_at_every_split() {
        let values: [u64; COUNTERS] = std::array::from_fn(|index| index as u64 * 7);
        let counters = |layout: u32, values: &[u64]| {
            let values = values.iter().flat_map(|value| value.to_le_bytes());
            framed(
                COUNTERS_ARE,
                &layout.to_le_bytes().into_iter().chain(values).collect::<Vec<_>>(),
            )
        };
        let bytes = [
            framed(REPLACE_ME, &[]),
            counters(Metrics::LAYOUT, &values),
            framed(STORE_IS, &store_content("shop", &[1, 2, 3, 4, 5])),
            // Those of other versions of the program.
            counters(Metrics::LAYOUT + 1, &values),
            counters(Metrics::LAYOUT, &values[1..]),
            framed(COUNTERS_ARE, &[DRAINED]),
            framed(99, &[DRAINED, 0, 0]),
            framed(STORE_IS, &[1, 0, 0, 0, 0, 0, 0, 0, 0, b'a']),
            framed(STORE_IS, &[]),
            framed(REPLACE_ME, b"a reason"),
            framed(NOT_ACCEPTING, &[]),
            framed(DRAINED, &[]),
        ]
        .concat();
        let expected = [
            WorkerMessage::ReplaceMe,
            WorkerMessage::Counters(Box::new(values)),
            WorkerMessage::Store("shop".to_owned(), [1, 2, 3, 4, 5]),
            WorkerMessage::ReplaceMe,
            WorkerMessage::NotAccepting,
            WorkerMessage::Drained,
        ];
        for split in 0..=bytes.len() {
            let (mut buffer, mut seen) = (Vec::new(), Vec::new());
            for part in [&bytes[..split], &bytes[split..]] {
                buffer.extend_from_slice(part);
                seen.extend(std::iter::from_fn(|| WorkerMessage::take(&mut buffer)));
            }
            assert_eq!((seen.as_slice(), buffer.as_slice()), (&expected[..], &[][..]), "{split}");
        }
    }
}
