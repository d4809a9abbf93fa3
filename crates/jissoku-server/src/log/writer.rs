//! The writer of the access log: a thread that formats and writes, and may block.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Receiver;

use jissoku_os::clock;

use super::format::LogFormat;
use super::record::Batch;

/// Minimum interval between reports of dropped records.
const REPORT_EVERY_NS: u64 = 10_000_000_000;

const WRITE_SIZE: usize = 256 * 1024;

/// Reports an error to the operator, as one sentence.
pub type ErrorReporter = fn(&str);

#[derive(Debug)]
pub(super) enum Message {
    Batch(Batch),
    /// Check the [`WriterFlags`].
    Wake,
}

/// Requests to the writer that do not go through the channel, which may be full.
#[derive(Debug, Default)]
pub(super) struct WriterFlags {
    reopen: AtomicBool,
    end: AtomicBool,
}

impl WriterFlags {
    pub(super) fn reopen(&self) {
        self.reopen.store(true, Ordering::Release);
    }

    pub(super) fn end(&self) {
        self.end.store(true, Ordering::Release);
    }
}

/// Number of dropped records.
#[derive(Debug, Default)]
pub struct DroppedRecords(AtomicU64);

impl DroppedRecords {
    pub(super) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The state of the writer thread.
pub(super) struct Writer {
    pub(super) format: LogFormat,
    pub(super) destination: Destination,
    pub(super) messages: Receiver<Message>,
    pub(super) flags: Arc<WriterFlags>,
    pub(super) dropped: Arc<DroppedRecords>,
    pub(super) report: ErrorReporter,
    pub(super) lines: Vec<u8>,
    /// Whether the last write ended in the middle of a line.
    pub(super) mid_line: bool,
    /// The last reported number of dropped records, and when.
    pub(super) reported: Option<(u64, u64)>,
}

impl Writer {
    pub(super) fn run(mut self) {
        while let Ok(message) = self.messages.recv() {
            self.take(message);
            while self.lines.len() < WRITE_SIZE
                && let Ok(message) = self.messages.try_recv()
            {
                self.take(message);
            }
            self.flush();
            if self.flags.reopen.swap(false, Ordering::Acquire) {
                self.reopen();
            }
            if self.flags.end.load(Ordering::Acquire) {
                break;
            }
        }
        // The workers have exited, so no further records follow.
        while let Ok(message) = self.messages.try_recv() {
            self.take(message);
        }
        self.flush();
    }

    fn take(&mut self, message: Message) {
        let Message::Batch(batch) = message else { return };
        // The wall clock is read once per batch, and not by the workers.
        let offset_ns = clock::wall_ns().wrapping_sub(clock::monotonic_ns());
        for (record, texts, forwarded) in batch.iter() {
            let wall_ns = record.received_ns.wrapping_add(offset_ns);
            self.format.write(&mut self.lines, (record, wall_ns), texts, &forwarded);
        }
        batch.give_back();
    }

    /// Writes all lines; those that cannot be written are dropped and counted.
    fn flush(&mut self) {
        let mut error = None;
        if self.mid_line && !self.lines.is_empty() {
            // The rest of the previous line is lost; this one must start on a new line.
            self.lines.insert(0, b'\n');
        }
        let mut rest = &self.lines[..];
        while !rest.is_empty() {
            match self.destination.write(rest) {
                Ok(0) => error = Some(io::ErrorKind::WriteZero.into()),
                Ok(size) => {
                    self.mid_line = rest[size - 1] != b'\n';
                    rest = &rest[size..];
                }
                Err(interruption) if interruption.kind() == io::ErrorKind::Interrupted => {}
                Err(failure) => error = Some(failure),
            }
            if error.is_some() {
                break;
            }
        }
        self.dropped.add(rest.split(|&byte| byte == b'\n').count() as u64 - 1);
        self.lines.clear();
        self.report_dropped(error);
    }

    /// Reports new losses, at most once per interval.
    fn report_dropped(&mut self, error: Option<io::Error>) {
        let (count, now_ns) = (self.dropped.count(), clock::monotonic_ns());
        let is_news = match self.reported {
            None => count > 0,
            Some((reported, said_ns)) => count > reported && now_ns >= said_ns + REPORT_EVERY_NS,
        };
        if is_news {
            let why = error.map_or("the reader is too slow".to_owned(), |error| error.to_string());
            (self.report)(&format!("the access log has lost {count} records so far: {why}"));
            self.reported = Some((count, now_ns));
        }
    }

    fn reopen(&mut self) {
        match self.destination.reopen() {
            Ok(()) => self.mid_line = false,
            Err(error) => (self.report)(&format!(
                "cannot reopen the access log, the old file stays in use: {error}"
            )),
        }
    }
}

/// The destination of log lines.
pub(super) enum Destination {
    File(PathBuf, File),
    Stdout(io::Stdout),
}

impl Destination {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self::File(path.to_owned(), file))
    }

    /// One write, possibly partial.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(_, file) => file.write(bytes),
            // Standard output is line-buffered, and each flush ends with a whole line.
            Self::Stdout(stdout) => stdout.write(bytes),
        }
    }

    pub(super) fn reopen(&mut self) -> io::Result<()> {
        match self {
            Self::File(path, _) => *self = Self::open(path)?,
            Self::Stdout(_) => {}
        }
        Ok(())
    }
}
