//! What the stopwatch counted on one lane.

use crate::fault::{Fault, Faults};
use crate::histogram::Histogram;

/// Counts of one lane in one window, of one thread or of all together.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Whole, right answers.
    pub requests: u64,
    /// Right answers to each shape.
    pub per_shape: Vec<u64>,
    /// Everything else that happened to a request.
    pub faults: Faults,
    /// From the intended sending to the last byte, of right answers; in the closed loop from the sending.
    pub latency: Histogram,
    /// From the sending to the last byte, of right answers.
    pub service: Histogram,
    /// From the intended to the actual sending; empty in the closed loop.
    pub lag: Histogram,
    /// How long requests that got no answer in time were waited for, from their intended sending.
    pub waited: Histogram,
    /// The same, from their sending; those that were never sent are not among them.
    pub waited_service: Histogram,
    /// From the moment at which a due request had a connection to its sending: our own delay alone.
    pub lateness: Histogram,
    /// Requests on their way when the window opened.
    pub carried: u64,
    /// Requests sent in the window.
    pub sent: u64,
    /// Answers that nobody had asked for; `faults` counts them as malformed.
    pub unasked: u64,
    /// Requests that were due and never sent, for want of a connection.
    pub shed: u64,
    /// Time between the window's opening and the sending of what was on its way then.
    pub carried_ns: u64,
    /// Right answers in each second of the window.
    pub per_second: Vec<u64>,
    /// Bytes taken off the sockets.
    pub bytes_received: u64,
    /// Bytes handed to the sockets.
    pub bytes_sent: u64,
}

impl Tally {
    /// An empty one, for so many shapes.
    pub(crate) fn new(shapes: usize) -> Self {
        Self { per_shape: vec![0; shapes], ..Self::default() }
    }

    /// Counts a right answer.
    #[inline]
    pub(crate) fn answered(&mut self, shape: u16, latency_ns: u64, service_ns: u64) {
        self.requests += 1;
        if let Some(count) = self.per_shape.get_mut(usize::from(shape)) {
            *count += 1;
        }
        self.latency.record(latency_ns);
        self.service.record(service_ns);
    }

    /// Counts a request that was waited for in vain.
    pub(crate) fn waited(&mut self, latency_ns: u64, service_ns: u64) {
        self.waited.record(latency_ns);
        self.waited_service.record(service_ns);
    }

    /// Counts requests that got no right answer.
    pub(crate) fn failed(&mut self, fault: Fault, count: u64) {
        self.faults.count(fault, count);
    }

    /// Ends a second of the window.
    pub(crate) fn second_over(&mut self) {
        let before: u64 = self.per_second.iter().sum();
        self.per_second.push(self.requests - before);
    }

    /// Adds what another thread counted on the same lane.
    pub fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.faults.add(&other.faults);
        self.latency.add(&other.latency);
        self.service.add(&other.service);
        self.lag.add(&other.lag);
        self.waited.add(&other.waited);
        self.waited_service.add(&other.waited_service);
        self.lateness.add(&other.lateness);
        self.carried += other.carried;
        self.sent += other.sent;
        self.unasked += other.unasked;
        self.shed += other.shed;
        self.carried_ns += other.carried_ns;
        add_each(&mut self.per_shape, &other.per_shape);
        add_each(&mut self.per_second, &other.per_second);
        self.bytes_received += other.bytes_received;
        self.bytes_sent += other.bytes_sent;
    }
}

fn add_each(ours: &mut Vec<u64>, theirs: &[u64]) {
    ours.resize(ours.len().max(theirs.len()), 0);
    for (ours, theirs) in ours.iter_mut().zip(theirs) {
        *ours += theirs;
    }
}
