//! The access log, off the path of a request.
//!
//! A worker copies what it needs into a batch of its own and gives the batch to a thread that formats and
//! writes; empty batches come back. Nothing in it makes a worker wait: who is too slow, a full disk or the
//! reader of a pipe, costs records, which are counted.

mod format;
mod record;
mod recorder;
mod writer;

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

pub use format::{BadFormat, Format};
pub(crate) use record::Entry;
pub(crate) use recorder::{Answered, Recorder};
pub use writer::Losses;
use writer::{Message, Orders, Writer};

/// Batches on their way to the writer, of all workers together.
const CHANNEL_SIZE: usize = 256;

/// Tells a person something; one sentence.
pub type Say = fn(&str);

/// A log that cannot be written.
#[derive(Debug)]
pub struct LogError {
    path: PathBuf,
    error: io::Error,
}

impl fmt::Display for LogError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "cannot write the access log {}: {}", self.path.display(), self.error)
    }
}

impl std::error::Error for LogError {}

/// Where lines go.
enum Destination {
    File(PathBuf, File),
    Stdout(io::Stdout),
}

impl Destination {
    fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self::File(path.to_owned(), file))
    }

    /// One write, which may take less.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(_, file) => file.write(bytes),
            // Standard output keeps an unfinished line back, and there is none at the end of a writing.
            Self::Stdout(stdout) => stdout.write(bytes),
        }
    }

    fn reopen(&mut self) -> io::Result<()> {
        match self {
            Self::File(path, _) => *self = Self::open(path)?,
            Self::Stdout(_) => {}
        }
        Ok(())
    }
}

/// An access log and its thread. [`AccessLog::finish`] has to be called once the workers have ended.
#[derive(Debug)]
pub struct AccessLog {
    sink: LogSink,
    ended: Receiver<()>,
}

/// A way to an access log.
#[derive(Clone, Debug)]
pub struct LogSink {
    format: Format,
    writer: SyncSender<Message>,
    orders: Arc<Orders>,
    losses: Arc<Losses>,
}

impl AccessLog {
    /// Writes to the end of the file `path`, or to standard output if that is `-`, and speaks of trouble
    /// with `say`.
    ///
    /// # Errors
    /// A file that cannot be opened; a thread that cannot be made.
    pub fn open(path: &Path, format: Format, say: Say) -> Result<Self, LogError> {
        Self::open_after(path, format, say, &Arc::default())
    }

    /// As [`AccessLog::open`]; what it loses is counted with what other logs have lost.
    ///
    /// # Errors
    /// As [`AccessLog::open`].
    pub fn open_after(
        path: &Path,
        format: Format,
        say: Say,
        losses: &Arc<Losses>,
    ) -> Result<Self, LogError> {
        let refuse = |error| LogError { path: path.to_owned(), error };
        let destination = if path.as_os_str() == "-" {
            Destination::Stdout(io::stdout())
        } else {
            Destination::open(path).map_err(refuse)?
        };
        let (writer, messages) = sync_channel(CHANNEL_SIZE);
        let (orders, losses) = (Arc::<Orders>::default(), Arc::clone(losses));
        // Of what others have lost, others have spoken.
        let said = Some((losses.count(), 0)).filter(|(count, _)| *count > 0);
        let sink =
            LogSink { format, writer, orders: Arc::clone(&orders), losses: Arc::clone(&losses) };
        let writer = Writer {
            format,
            destination,
            messages,
            orders,
            losses,
            say,
            lines: Vec::new(),
            is_torn: false,
            said,
        };
        let (at_the_end, ended) = sync_channel::<()>(1);
        let thread = thread::Builder::new().name("access-log".to_owned());
        let run = move || {
            let _told_by_its_end = at_the_end;
            writer.run();
        };
        thread.spawn(run).map_err(refuse)?;
        Ok(Self { sink, ended })
    }

    /// What workers and signals need of the log.
    #[must_use]
    pub const fn sink(&self) -> &LogSink {
        &self.sink
    }

    /// Lets it end by itself, once the last worker that writes to it has.
    #[must_use]
    pub fn retire(self) -> LogEnd {
        LogEnd(self.ended)
    }

    /// Has everything written that was handed over, waits for that no longer than `patience`, and returns
    /// how many records were lost since the beginning; `None` if the writing was not over by then.
    #[must_use]
    pub fn finish(self, patience: Duration) -> Option<u64> {
        self.sink.orders.end();
        self.sink.look();
        match self.ended.recv_timeout(patience) {
            Err(RecvTimeoutError::Timeout) => None,
            _ => Some(self.sink.lost()),
        }
    }
}

/// The end of a log that nobody new writes to.
#[derive(Debug)]
pub struct LogEnd(Receiver<()>);

impl LogEnd {
    /// Waits for it no longer than `patience`, and says whether it was over by then.
    #[must_use]
    pub fn wait(&self, patience: Duration) -> bool {
        self.0.recv_timeout(patience) != Err(RecvTimeoutError::Timeout)
    }
}

impl LogSink {
    /// Opens the file anew under its name: somebody has moved the old one away.
    pub fn reopen(&self) {
        self.orders.reopen();
        self.look();
    }

    /// Records lost so far.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.losses.count()
    }

    /// A recorder for one worker.
    pub(crate) fn recorder(&self) -> Recorder {
        Recorder::new(self.format, self.writer.clone(), Arc::clone(&self.losses))
    }

    fn look(&self) {
        // A channel that is full is looked at anyway.
        let _looked = self.writer.try_send(Message::Look);
    }
}

#[cfg(test)]
mod tests;
