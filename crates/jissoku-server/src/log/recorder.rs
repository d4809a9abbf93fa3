//! The worker's side of the access log: it copies records and never blocks.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use jissoku_http::Head;
use jissoku_os::clock;

use super::format::LogFormat;
use super::record::{Batch, LogEntry};
use super::writer::{DroppedRecords, Message};

/// Maximum age of a record before its batch is submitted.
const AGE_NS_MAX: u64 = 100_000_000;

/// Batches per worker. When the writer holds all but one and that one is full, records are dropped.
const BATCHES_MAX: usize = 8;

/// Logged size of a request line that could not be parsed.
const REFUSED_SIZE_MAX: usize = 1024;

/// The logged status of a request whose connection was closed before the head of its response.
const CLOSED: u16 = 499;

/// Spare entries for new connections.
const SPARE_MAX: usize = 1024;

/// Capacity for texts that a connection keeps between two requests.
const KEPT_SIZE_MAX: usize = 1024;

/// Status and size of a response, and when it was written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResponseInfo {
    pub(crate) status: u16,
    pub(crate) body_size: u64,
    pub(crate) now_ns: u64,
}

/// Records the responses of one worker.
#[derive(Debug)]
pub(crate) struct Recorder {
    format: LogFormat,
    batch: Batch,
    batches: usize,
    emptied: Receiver<Batch>,
    writer: SyncSender<Message>,
    dropped: Arc<DroppedRecords>,
    #[expect(
        clippy::vec_box,
        reason = "a connection holds the box, and the boxes are what is reused"
    )]
    spare: Vec<Box<LogEntry>>,
    /// When the first record of the batch becomes too old; `u64::MAX` while there is none.
    due_ns: u64,
}

impl Recorder {
    pub(super) fn new(
        format: LogFormat,
        writer: SyncSender<Message>,
        dropped: Arc<DroppedRecords>,
    ) -> Self {
        let (return_tx, emptied) = sync_channel(BATCHES_MAX);
        Self {
            format,
            batch: Batch::new(return_tx),
            batches: 1,
            emptied,
            writer,
            dropped,
            spare: Vec::new(),
            due_ns: u64::MAX,
        }
    }

    /// Creates the entry of a connection.
    pub(crate) fn open(&mut self, peer: Option<SocketAddr>) -> Box<LogEntry> {
        let mut entry = self.spare.pop().unwrap_or_else(|| Box::new(LogEntry::new()));
        entry.record.peer = peer;
        entry.is_in_progress = false;
        entry
    }

    /// Recycles the entry of a closed connection.
    pub(crate) fn close(&mut self, entry: Box<LogEntry>) {
        if self.spare.len() < SPARE_MAX {
            self.spare.push(entry);
        }
    }

    /// Starts the record of a request whose head is at the front of `bytes`.
    pub(crate) fn begin(&self, entry: &mut LogEntry, received_ns: u64, head: &Head, bytes: &[u8]) {
        let line = &bytes[head.method_name.start as usize..];
        let end = line.iter().position(|&byte| byte == b'\r').unwrap_or(line.len());
        entry.begin(received_ns, &line[..end]);
        if self.format == LogFormat::Common {
            return;
        }
        let (mut referer, mut agent) = (None, None);
        for (name, value) in head.fields(bytes) {
            match name.len() {
                7 if name.eq_ignore_ascii_case(b"Referer") => referer = Some(value),
                10 if name.eq_ignore_ascii_case(b"User-Agent") => agent = Some(value),
                _ => {}
            }
        }
        entry.describe(referer, agent);
    }

    /// Completes the record of a rejected request. If it could not be parsed, its first line is
    /// logged as far as it was received.
    pub(crate) fn reject(&mut self, entry: &mut LogEntry, answer: ResponseInfo, bytes: &[u8]) {
        if !entry.is_in_progress {
            let bytes = bytes.strip_prefix(b"\r\n").unwrap_or(bytes);
            let bytes = &bytes[..bytes.len().min(REFUSED_SIZE_MAX)];
            let end = bytes.iter().position(|&byte| matches!(byte, b'\r' | b'\n'));
            entry.begin(answer.now_ns, &bytes[..end.unwrap_or(bytes.len())]);
        }
        self.finish(entry, answer);
    }

    /// Completes the record of a request whose connection was closed. Without a status, that is
    /// 499, as in nginx.
    pub(crate) fn abandon(&mut self, entry: &mut LogEntry, answer: ResponseInfo) {
        if entry.is_in_progress {
            let status = if answer.status == 0 { CLOSED } else { answer.status };
            self.finish(entry, ResponseInfo { status, ..answer });
        }
    }

    /// Completes the record of a request.
    pub(crate) fn finish(&mut self, entry: &mut LogEntry, answer: ResponseInfo) {
        let ResponseInfo { status, body_size, now_ns } = answer;
        entry.record.status = status;
        entry.record.body_size = body_size;
        // Most requests are answered in the wake-up that received them, for which `now_ns` is
        // constant. Only this format reports the duration, at the cost of one clock reading.
        let end_ns = if self.format == LogFormat::Json { clock::monotonic_ns() } else { now_ns };
        entry.record.duration_ns = end_ns.saturating_sub(entry.record.received_ns);
        if self.batch.is_full() && !self.submit() {
            self.dropped.add(1);
        } else {
            self.batch.add(entry);
            self.due_ns = self.due_ns.min(now_ns.saturating_add(AGE_NS_MAX));
        }
        entry.is_in_progress = false;
        entry.shrink(KEPT_SIZE_MAX);
    }

    /// When [`Recorder::wake`] wants to be called at the latest.
    #[inline]
    pub(crate) fn deadline_ns(&self) -> Option<u64> {
        (self.due_ns != u64::MAX).then_some(self.due_ns)
    }

    /// Submits the batch if its first record is old enough.
    #[inline]
    pub(crate) fn wake(&mut self, now_ns: u64) {
        if now_ns >= self.due_ns && !self.submit() {
            // The writer is behind. Try again later.
            self.due_ns = now_ns.saturating_add(AGE_NS_MAX);
        }
    }

    /// Submits the batch, if there is an empty one to continue with.
    fn submit(&mut self) -> bool {
        let fresh = match self.emptied.try_recv() {
            Ok(batch) => batch,
            Err(_) if self.batches < BATCHES_MAX => {
                self.batches += 1;
                Batch::new(self.batch.return_tx.clone())
            }
            Err(_) => return false,
        };
        let full = std::mem::replace(&mut self.batch, fresh);
        self.due_ns = u64::MAX;
        self.send(full);
        true
    }

    fn send(&self, batch: Batch) {
        if let Err(
            TrySendError::Full(Message::Batch(batch))
            | TrySendError::Disconnected(Message::Batch(batch)),
        ) = self.writer.try_send(Message::Batch(batch))
        {
            self.dropped.add(batch.count() as u64);
            batch.give_back();
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if self.batch.count() > 0 {
            let (return_tx, _) = sync_channel(0);
            let last = std::mem::replace(&mut self.batch, Batch::new(return_tx));
            self.send(last);
        }
    }
}
