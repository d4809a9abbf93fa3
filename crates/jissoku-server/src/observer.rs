//! What is noted of connections and requests besides answering them: numbers and the access log.
//!
//! A worker has one. When neither is wanted, each call costs a comparison.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use jissoku_http::Head;
use jissoku_os::socket;

use crate::log::{Answered, Entry, LogSink, Recorder};
use crate::metrics::{Counting, Figure, Metrics, Tally};

/// What a server is to note.
#[derive(Clone, Debug, Default)]
pub struct Observation {
    /// Where each request is logged.
    pub log: Option<LogSink>,
    /// Where numbers are kept.
    pub metrics: Option<Arc<Metrics>>,
}

impl Observation {
    pub(crate) fn observer(&self) -> Observer {
        Observer {
            counting: self.metrics.as_ref().map(|metrics| metrics.counting()),
            recorder: self.log.as_ref().map(LogSink::recorder),
        }
    }
}

/// What a connection keeps for its observer; nothing without a log.
pub(crate) type Visit = Option<Box<Entry>>;

/// Notes what one worker does.
#[derive(Debug, Default)]
pub(crate) struct Observer {
    counting: Option<Counting>,
    recorder: Option<Recorder>,
}

impl Observer {
    /// A connection was taken.
    #[inline]
    pub(crate) fn open(&mut self, socket: BorrowedFd<'_>) -> Visit {
        self.count(Figure::Accepted, 1);
        let recorder = self.recorder.as_mut()?;
        Some(recorder.open(socket::peer(socket)))
    }

    /// A connection is gone.
    #[inline]
    pub(crate) fn close(&mut self, visit: Visit) {
        self.count(Figure::Closed, 1);
        if let (Some(recorder), Some(entry)) = (&mut self.recorder, visit) {
            recorder.close(entry);
        }
    }

    /// Something has happened `size` times, or in that many bytes.
    #[inline]
    pub(crate) fn count(&self, figure: Figure, size: u64) {
        if let Some(counting) = &self.counting {
            counting.add(figure, size);
        }
    }

    /// A second way to the numbers.
    pub(crate) fn tally(&self) -> Tally {
        self.counting.as_ref().map(Counting::tally).unwrap_or_default()
    }

    /// Whether anybody wants to know of answers.
    #[inline]
    pub(crate) const fn is_on(&self) -> bool {
        self.counting.is_some() || self.recorder.is_some()
    }

    /// A request was understood, whose head is at the front of `bytes`.
    #[inline]
    pub(crate) fn begin(&self, visit: &mut Visit, came_ns: u64, head: &Head, bytes: &[u8]) {
        if let (Some(recorder), Some(entry)) = (&self.recorder, visit) {
            recorder.begin(entry, came_ns, head, bytes);
        }
    }

    /// It was answered.
    pub(crate) fn answer(&mut self, visit: &mut Visit, answer: Answered) {
        self.count(Figure::of_status(answer.status), 1);
        if let (Some(recorder), Some(entry)) = (&mut self.recorder, visit) {
            recorder.finish(entry, answer);
        }
    }

    /// It was refused, or what has come instead of one: `bytes`, as far as they are still there.
    pub(crate) fn refuse(&mut self, visit: &mut Visit, answer: Answered, bytes: &[u8]) {
        self.count(Figure::of_status(answer.status), 1);
        if let (Some(recorder), Some(entry)) = (&mut self.recorder, visit) {
            recorder.refuse(entry, answer, bytes);
        }
    }

    /// When [`Observer::wake`] wants to be called at the latest.
    #[inline]
    pub(crate) fn deadline_ns(&self) -> Option<u64> {
        self.recorder.as_ref().and_then(Recorder::deadline_ns)
    }

    /// The worker woke up.
    #[inline]
    pub(crate) fn wake(&mut self, now_ns: u64) {
        if let Some(recorder) = &mut self.recorder {
            recorder.wake(now_ns);
        }
    }
}
