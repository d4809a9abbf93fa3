//! A worker's side of the log: it copies, and never waits.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use jissoku_http::Head;

use super::format::Format;
use super::record::{Batch, Entry};
use super::writer::{Losses, Message};

/// How old a record may become before it is handed over.
const AGE_NS_MAX: u64 = 100_000_000;

/// Batches that one worker owns, with the writer or here. When the writer holds all of them but one and
/// that one is full, records are lost.
const BATCHES_MAX: usize = 8;

/// Of a line that was refused before it was understood, so much is kept.
const REFUSED_SIZE_MAX: usize = 1024;

/// Entries kept for connections to come.
const SPARE_MAX: usize = 1024;

/// The room for texts that a connection may keep between two requests.
const KEPT_SIZE_MAX: usize = 1024;

/// What a request was answered with, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) body_size: u64,
    pub(crate) now_ns: u64,
}

/// Records what one worker answers.
#[derive(Debug)]
pub(crate) struct Recorder {
    format: Format,
    batch: Batch,
    batches: usize,
    emptied: Receiver<Batch>,
    writer: SyncSender<Message>,
    losses: Arc<Losses>,
    #[expect(
        clippy::vec_box,
        reason = "a connection holds the box, and the boxes are what is reused"
    )]
    spare: Vec<Box<Entry>>,
    /// When the first record of the batch becomes too old; `u64::MAX` while there is none.
    due_ns: u64,
}

impl Recorder {
    pub(super) fn new(format: Format, writer: SyncSender<Message>, losses: Arc<Losses>) -> Self {
        let (home, emptied) = sync_channel(BATCHES_MAX);
        Self {
            format,
            batch: Batch::new(home),
            batches: 1,
            emptied,
            writer,
            losses,
            spare: Vec::new(),
            due_ns: u64::MAX,
        }
    }

    /// An entry for the requests of one connection.
    #[expect(clippy::unnecessary_box_returns, reason = "the box is what is reused")]
    pub(crate) fn open(&mut self, peer: Option<SocketAddr>) -> Box<Entry> {
        let mut entry = self.spare.pop().unwrap_or_else(|| Box::new(Entry::new()));
        entry.record.peer = peer;
        entry.is_begun = false;
        entry
    }

    /// The connection is gone.
    pub(crate) fn close(&mut self, entry: Box<Entry>) {
        if self.spare.len() < SPARE_MAX {
            self.spare.push(entry);
        }
    }

    /// Begins the record of a request whose head is at the front of `bytes`. They are not needed
    /// afterwards.
    pub(crate) fn begin(&self, entry: &mut Entry, came_ns: u64, head: &Head, bytes: &[u8]) {
        let line = &bytes[head.method_name.start as usize..];
        let end = line.iter().position(|&byte| byte == b'\r').unwrap_or(line.len());
        entry.begin(came_ns, &line[..end]);
        if self.format == Format::Common {
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

    /// Completes the record of a request. One that was refused before it was begun gets what has come of
    /// its first line.
    pub(crate) fn refuse(&mut self, entry: &mut Entry, answer: Answered, bytes: &[u8]) {
        if !entry.is_begun {
            let bytes = bytes.strip_prefix(b"\r\n").unwrap_or(bytes);
            let bytes = &bytes[..bytes.len().min(REFUSED_SIZE_MAX)];
            let end = bytes.iter().position(|&byte| matches!(byte, b'\r' | b'\n'));
            entry.begin(answer.now_ns, &bytes[..end.unwrap_or(bytes.len())]);
        }
        self.finish(entry, answer);
    }

    /// Completes the record of a request that was begun.
    pub(crate) fn finish(&mut self, entry: &mut Entry, answer: Answered) {
        let Answered { status, body_size, now_ns } = answer;
        entry.record.status = status;
        entry.record.body_size = body_size;
        entry.record.duration_ns = now_ns.saturating_sub(entry.record.came_ns);
        if self.batch.is_full() && !self.hand_over() {
            self.losses.add(1);
        } else {
            self.batch.add(entry);
            self.due_ns = self.due_ns.min(now_ns.saturating_add(AGE_NS_MAX));
        }
        entry.is_begun = false;
        entry.shrink(KEPT_SIZE_MAX);
    }

    /// When [`Recorder::wake`] wants to be called at the latest.
    #[inline]
    pub(crate) fn deadline_ns(&self) -> Option<u64> {
        (self.due_ns != u64::MAX).then_some(self.due_ns)
    }

    /// Hands over what has waited long enough.
    #[inline]
    pub(crate) fn wake(&mut self, now_ns: u64) {
        if now_ns >= self.due_ns && !self.hand_over() {
            // The writer is behind. It may have caught up by then.
            self.due_ns = now_ns.saturating_add(AGE_NS_MAX);
        }
    }

    /// Gives the batch to the writer, if there is another to go on with.
    fn hand_over(&mut self) -> bool {
        let fresh = match self.emptied.try_recv() {
            Ok(batch) => batch,
            Err(_) if self.batches < BATCHES_MAX => {
                self.batches += 1;
                Batch::new(self.batch.home.clone())
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
            TrySendError::Full(Message::Batch(mut batch))
            | TrySendError::Disconnected(Message::Batch(mut batch)),
        ) = self.writer.try_send(Message::Batch(batch))
        {
            self.losses.add(batch.count() as u64);
            batch.clear();
            let home = batch.home.clone();
            // There is room: it never holds more than this worker owns.
            let _kept = home.try_send(batch);
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if self.batch.count() > 0 {
            let (home, _) = sync_channel(0);
            let last = std::mem::replace(&mut self.batch, Batch::new(home));
            self.send(last);
        }
    }
}
