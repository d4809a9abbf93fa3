//! The access log, written by a thread of its own.
//!
//! A worker appends records to a batch and submits full batches to a thread that formats and writes
//! them; empty batches are returned. A worker never waits: if the disk is full or the reader of a
//! pipe is slow, records are dropped and counted.

mod escape;
mod format;
mod forwarded;
mod record;
mod recorder;
mod writer;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

pub use format::LogFormat;
pub use forwarded::{Anomalies as ForwardedAnomalies, Forwarded, ForwardedOutcome, HedgeResult};
pub(crate) use record::LogEntry;
pub use record::LogRecord;
pub(crate) use recorder::{Recorder, ResponseInfo};
use writer::{Destination, Message, Writer, WriterFlags};
pub use writer::{DroppedRecords, ErrorReporter};

/// Capacity of the channel to the writer, in batches of all workers.
const CHANNEL_SIZE: usize = 256;

/// An access log and its thread. [`AccessLog::finish`] has to be called once the workers have
/// ended.
#[derive(Debug)]
pub struct AccessLog {
    sink: LogSink,
    ended: Receiver<()>,
}

/// A handle to an access log.
#[derive(Clone, Debug)]
pub struct LogSink {
    format: LogFormat,
    writer: SyncSender<Message>,
    flags: Arc<WriterFlags>,
    dropped: Arc<DroppedRecords>,
}

impl AccessLog {
    /// Appends to the file `path`, or writes to standard output for `-`; errors go to `report`.
    /// Dropped records are added to those of other logs.
    ///
    /// # Errors
    /// The file cannot be opened or the thread cannot be created: one sentence.
    pub fn open(
        path: &Path,
        format: LogFormat,
        report: ErrorReporter,
        dropped: &Arc<DroppedRecords>,
    ) -> Result<Self, String> {
        let reject =
            |error: io::Error| format!("cannot write the access log {}: {error}", path.display());
        let destination = if path.as_os_str() == "-" {
            Destination::Stdout(io::stdout())
        } else {
            Destination::open(path).map_err(reject)?
        };
        let (writer, messages) = sync_channel(CHANNEL_SIZE);
        let (flags, dropped) = (Arc::<WriterFlags>::default(), Arc::clone(dropped));
        // Losses before this log was opened are already reported.
        let reported = Some((dropped.count(), 0)).filter(|(count, _)| *count > 0);
        let sink =
            LogSink { format, writer, flags: Arc::clone(&flags), dropped: Arc::clone(&dropped) };
        let writer = Writer {
            format,
            destination,
            messages,
            flags,
            dropped,
            report,
            lines: Vec::new(),
            mid_line: false,
            reported,
        };
        let (at_the_end, ended) = sync_channel::<()>(1);
        let thread = thread::Builder::new().name("access-log".to_owned());
        let run = move || {
            let _closed_at_the_end = at_the_end;
            writer.run();
        };
        thread.spawn(run).map_err(reject)?;
        Ok(Self { sink, ended })
    }

    /// The handle for workers and signals.
    pub const fn sink(&self) -> &LogSink {
        &self.sink
    }

    /// Ends the log once the last worker that writes to it has exited.
    #[must_use]
    pub fn retire(self) -> LogEnd {
        LogEnd(self.ended)
    }

    /// Flushes all submitted records and returns the number of dropped ones; `None` if that takes
    /// longer than `patience`.
    #[must_use]
    pub fn finish(self, patience: Duration) -> Option<u64> {
        self.sink.flags.end();
        self.sink.wake_writer();
        match self.ended.recv_timeout(patience) {
            Err(RecvTimeoutError::Timeout) => None,
            _ => Some(self.sink.lost()),
        }
    }
}

/// A log that is closing.
#[derive(Debug)]
pub struct LogEnd(Receiver<()>);

impl LogEnd {
    /// Waits for the log to end, for at most `patience`; returns whether it has ended.
    #[must_use]
    pub fn wait(&self, patience: Duration) -> bool {
        self.0.recv_timeout(patience) != Err(RecvTimeoutError::Timeout)
    }
}

impl LogSink {
    /// Reopens the file by name, after a rotation.
    pub fn reopen(&self) {
        self.flags.reopen();
        self.wake_writer();
    }

    /// Number of dropped records.
    pub fn lost(&self) -> u64 {
        self.dropped.count()
    }

    pub(crate) fn recorder(&self) -> Recorder {
        Recorder::new(self.format, self.writer.clone(), Arc::clone(&self.dropped))
    }

    fn wake_writer(&self) {
        // A full channel wakes the writer anyway.
        let _looked = self.writer.try_send(Message::Wake);
    }
}

#[cfg(test)]
mod tests;
