//! The writer's side of the log: one thread that formats, writes, and waits for whoever is slow.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Receiver;

use jissoku_os::clock;

use super::format::Format;
use super::record::Batch;
use super::{Destination, Say};

/// How often losses are spoken of while they go on.
const SAY_EVERY_NS: u64 = 10_000_000_000;

/// Lines that are written at once.
const WRITE_SIZE: usize = 256 * 1024;

/// What comes through the channel.
#[derive(Debug)]
pub(super) enum Message {
    /// Records.
    Batch(Batch),
    /// To look at the [`Orders`].
    Look,
}

/// What the writer is to do besides writing; they hold even when the channel is full.
#[derive(Debug, Default)]
pub(super) struct Orders {
    reopen: AtomicBool,
    end: AtomicBool,
}

impl Orders {
    pub(super) fn reopen(&self) {
        self.reopen.store(true, Ordering::Release);
    }

    pub(super) fn end(&self) {
        self.end.store(true, Ordering::Release);
    }
}

/// Records that were lost.
#[derive(Debug, Default)]
pub struct Losses(AtomicU64);

impl Losses {
    pub(super) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Writes lines until told to end.
pub(super) struct Writer {
    pub(super) format: Format,
    pub(super) destination: Destination,
    pub(super) messages: Receiver<Message>,
    pub(super) orders: Arc<Orders>,
    pub(super) losses: Arc<Losses>,
    pub(super) say: Say,
    pub(super) lines: Vec<u8>,
    /// Whether the last write ended within a line.
    pub(super) is_torn: bool,
    /// Losses that were spoken of, and when.
    pub(super) said: Option<(u64, u64)>,
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
            if self.orders.reopen.swap(false, Ordering::Acquire) {
                self.reopen();
            }
            if self.orders.end.load(Ordering::Acquire) {
                break;
            }
        }
        // The workers have ended by now, so nothing comes behind what is there.
        while let Ok(message) = self.messages.try_recv() {
            self.take(message);
        }
        self.flush();
    }

    fn take(&mut self, message: Message) {
        let Message::Batch(mut batch) = message else { return };
        // The wall clock is asked once for all, so that a worker need not.
        let offset_ns = clock::wall_ns().wrapping_sub(clock::monotonic_ns());
        for (record, texts) in batch.iter() {
            let wall_ns = record.came_ns.wrapping_add(offset_ns);
            self.format.write(&mut self.lines, record, texts, wall_ns);
        }
        batch.clear();
        let home = batch.home.clone();
        // A worker that has ended needs it no more.
        let _kept = home.try_send(batch);
    }

    /// Writes all lines, and counts those that cannot be written.
    fn flush(&mut self) {
        let mut error = None;
        if self.is_torn && !self.lines.is_empty() {
            // The rest of a torn line is lost; it must not be mistaken for the beginning of this one.
            self.lines.insert(0, b'\n');
        }
        let mut rest = &self.lines[..];
        while !rest.is_empty() {
            match self.destination.write(rest) {
                Ok(0) => error = Some(io::ErrorKind::WriteZero.into()),
                Ok(size) => {
                    self.is_torn = rest[size - 1] != b'\n';
                    rest = &rest[size..];
                }
                Err(interruption) if interruption.kind() == io::ErrorKind::Interrupted => {}
                Err(failure) => error = Some(failure),
            }
            if error.is_some() {
                break;
            }
        }
        self.losses.add(rest.split(|&byte| byte == b'\n').count() as u64 - 1);
        self.lines.clear();
        self.speak(error);
    }

    /// Says how much was lost, if that is news.
    fn speak(&mut self, error: Option<io::Error>) {
        let (count, now_ns) = (self.losses.count(), clock::monotonic_ns());
        let is_news = match self.said {
            None => count > 0,
            Some((said, said_ns)) => count > said && now_ns >= said_ns + SAY_EVERY_NS,
        };
        if is_news {
            let why =
                error.map_or("it is not taken fast enough".to_owned(), |error| error.to_string());
            (self.say)(&format!("the access log has lost {count} records so far: {why}"));
            self.said = Some((count, now_ns));
        }
    }

    fn reopen(&mut self) {
        match self.destination.reopen() {
            Ok(()) => self.is_torn = false,
            Err(error) => (self.say)(&format!("the access log goes on in its old file: {error}")),
        }
    }
}
