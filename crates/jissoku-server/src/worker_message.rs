//! Messages of a worker process to its parent, over the pipe that reports its readiness.

use std::io::{self, Write};
use std::sync::Arc;

use crate::metrics::{COUNTERS, Metrics};

const REPLACE_ME: u8 = 10;
const COUNTERS_ARE: u8 = 11;
const NOT_ACCEPTING: u8 = 12;
const DRAINED: u8 = 13;

/// Size of the values of all counters.
const VALUES_SIZE: usize = COUNTERS * size_of::<u64>();

/// A message of a worker process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WorkerMessage {
    /// It requests a replacement, because it has served its maximum number of requests.
    ReplaceMe,
    /// The values of its counters.
    Counters(Box<[u64; COUNTERS]>),
    /// It accepts no more connections.
    NotAccepting,
    /// It has no connections any more, and ends.
    Drained,
}

impl WorkerMessage {
    /// Takes the first message from received bytes, if it is complete.
    pub(crate) fn take(buffer: &mut Vec<u8>) -> Option<Self> {
        loop {
            match *buffer.first()? {
                REPLACE_ME => {
                    buffer.drain(..1);
                    return Some(Self::ReplaceMe);
                }
                COUNTERS_ARE => {
                    let bytes = buffer.get(1..=VALUES_SIZE)?;
                    let mut values = Box::new([0; COUNTERS]);
                    for (value, bytes) in values.iter_mut().zip(bytes.as_chunks().0) {
                        *value = u64::from_ne_bytes(*bytes);
                    }
                    buffer.drain(..=VALUES_SIZE);
                    return Some(Self::Counters(values));
                }
                NOT_ACCEPTING => {
                    buffer.drain(..1);
                    return Some(Self::NotAccepting);
                }
                DRAINED => {
                    buffer.drain(..1);
                    return Some(Self::Drained);
                }
                // A message of another version of the program is ignored.
                _ => drop(buffer.drain(..1)),
            }
        }
    }
}

/// Sends the messages of a worker process. The parent reads each message whole, because it is
/// shorter than `PIPE_BUF` (`pipe(7)`).
#[derive(Clone, Debug)]
pub struct ParentPipe(Arc<std::fs::File>);

impl ParentPipe {
    /// Sends over `pipe`.
    #[must_use]
    pub fn new(pipe: std::fs::File) -> Self {
        Self(Arc::new(pipe))
    }

    /// Requests a replacement.
    pub(crate) fn request_replacement(&self) {
        // Without a parent the worker ends as well.
        let _written = self.send(&[REPLACE_ME]);
    }

    /// Reports that no more connections are accepted.
    pub(crate) fn report_not_accepting(&self) {
        // The error is ignored: without a parent, no process waits for this.
        let _written = self.send(&[NOT_ACCEPTING]);
    }

    /// Reports that the last connection has ended.
    pub(crate) fn report_drained(&self) {
        // As above.
        let _written = self.send(&[DRAINED]);
    }

    /// Sends the values of all counters.
    ///
    /// # Errors
    /// The parent is gone.
    pub fn send_counters(&self, metrics: &Metrics) -> io::Result<()> {
        let mut message = Vec::with_capacity(1 + VALUES_SIZE);
        message.push(COUNTERS_ARE);
        message.extend(metrics.values().iter().flat_map(|value| value.to_ne_bytes()));
        self.send(&message)
    }

    fn send(&self, message: &[u8]) -> io::Result<()> {
        (&*self.0).write_all(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_sent_at_every_split() {
        let mut bytes = vec![REPLACE_ME, COUNTERS_ARE];
        let values: [u64; COUNTERS] = std::array::from_fn(|index| index as u64 * 7);
        bytes.extend(values.iter().flat_map(|value| value.to_ne_bytes()));
        bytes.extend([REPLACE_ME, NOT_ACCEPTING, DRAINED]);
        let expected = [
            WorkerMessage::ReplaceMe,
            WorkerMessage::Counters(Box::new(values)),
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
