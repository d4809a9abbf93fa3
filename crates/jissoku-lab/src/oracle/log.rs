//! The log of all requests, in memory that is allocated at the start.

use std::io::{self, Write};

use crate::oracle::service::NEVER;

/// Size of a written entry in bytes: three 32-bit numbers, 4 bytes of padding, three 64-bit
/// numbers.
pub const RECORD_SIZE: usize = 40;

/// One request. Times are `CLOCK_MONOTONIC`, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The connection, numbered from 0 in the order of accepting.
    pub connection: u32,
    /// The request on its connection, numbered from 0.
    pub sequence: u32,
    /// The injected fault; `InjectedFault::code`.
    pub fault: u32,
    /// When its last byte was read.
    pub arrival_ns: u64,
    /// When the last byte of its response was due; `u64::MAX` for never.
    pub due_ns: u64,
    /// When the last byte of its response was given to the kernel; 0 if it never was.
    pub written_ns: u64,
}

impl Entry {
    /// Whether its response was given to the kernel.
    pub(crate) fn is_answered(&self) -> bool {
        self.written_ns != 0
    }

    /// Whether it was never to be answered.
    pub(crate) fn is_frozen(&self) -> bool {
        self.due_ns == NEVER
    }
}

/// All requests, in the order of arrival.
#[derive(Debug)]
pub struct Log {
    entries: Vec<Entry>,
    count: usize,
    overflowed: u64,
}

impl Log {
    pub(crate) fn new(size: usize) -> Self {
        // Not zeros: the kernel would map those only when they are touched, at a page fault each.
        let untouched = Entry { due_ns: NEVER, ..Entry::default() };
        Self { entries: vec![untouched; size], count: 0, overflowed: 0 }
    }

    /// Adds a request and returns its index; `None` if the log is full.
    pub(crate) fn add(&mut self, entry: Entry) -> Option<usize> {
        let Some(place) = self.entries.get_mut(self.count) else {
            self.overflowed += 1;
            return None;
        };
        *place = entry;
        self.count += 1;
        Some(self.count - 1)
    }

    /// Sets when the response of the entry at `index` was given to the kernel.
    pub(crate) fn answered(&mut self, index: usize, now_ns: u64) {
        if let Some(entry) = self.entries.get_mut(index) {
            entry.written_ns = now_ns;
        }
    }

    /// The entries.
    pub fn entries(&self) -> &[Entry] {
        &self.entries[..self.count]
    }

    /// The number of requests that found the log full.
    pub fn overflowed(&self) -> u64 {
        self.overflowed
    }

    /// Writes all entries, little-endian, [`RECORD_SIZE`] bytes each.
    ///
    /// # Errors
    /// The error of the writer.
    pub fn write(&self, mut out: impl Write) -> io::Result<()> {
        for entry in self.entries() {
            let mut record = [0; RECORD_SIZE];
            record[0..4].copy_from_slice(&entry.connection.to_le_bytes());
            record[4..8].copy_from_slice(&entry.sequence.to_le_bytes());
            record[8..12].copy_from_slice(&entry.fault.to_le_bytes());
            record[16..24].copy_from_slice(&entry.arrival_ns.to_le_bytes());
            record[24..32].copy_from_slice(&entry.due_ns.to_le_bytes());
            record[32..40].copy_from_slice(&entry.written_ns.to_le_bytes());
            out.write_all(&record)?;
        }
        out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_log_counts_what_it_misses() {
        let mut log = Log::new(1);
        let entry = Entry { connection: 3, arrival_ns: 5, due_ns: 6, ..Entry::default() };
        assert_eq!([log.add(entry), log.add(entry)], [Some(0), None]);
        log.answered(0, 7);
        log.answered(1, 8);
        assert_eq!((log.entries()[0].written_ns, log.overflowed()), (7, 1));
        let mut bytes = Vec::new();
        log.write(&mut bytes).expect("memory takes it");
        assert_eq!((bytes.len(), bytes[0], bytes[16], bytes[24], bytes[32]), (40, 3, 5, 6, 7));
    }
}
