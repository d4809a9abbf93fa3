//! Counts per interval of the window (such as each second), for observers of a run.
//!
//! A worker reports an interval at its end, as the difference between two states of its counters,
//! so that the hot path is not affected.

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;

use crate::engine::counters::Counters;
use crate::engine::histogram::Histogram;

/// The counts of one interval on one target.
#[derive(Clone, Debug)]
pub struct Interval {
    /// Index of the target.
    pub target: usize,
    /// Index of the interval among those of its length; number 0 begins with the window.
    pub number: u64,
    /// Its length.
    pub length_ns: u64,
    /// Correct responses.
    pub requests: u64,
    /// Failed requests.
    pub errors: u64,
    /// Latencies of correct responses, from the intended send time.
    pub latency: Histogram,
}

/// One worker's part of an interval.
#[derive(Debug)]
pub(crate) struct IntervalPart {
    target: usize,
    number: u64,
    length_ns: u64,
    requests: u64,
    errors: u64,
    bins: Vec<(u64, u64)>,
}

/// Reports one worker's intervals of one length.
#[derive(Debug)]
pub(crate) struct IntervalReporter {
    parts_tx: Sender<IntervalPart>,
    length_ns: u64,
    number: u64,
    /// When the current interval ends.
    next_ns: u64,
    /// What has been reported, by target: latencies, requests, errors.
    reported: Vec<(Histogram, u64, u64)>,
}

impl IntervalReporter {
    pub(crate) fn new(parts_tx: Sender<IntervalPart>, length_ns: u64) -> Self {
        Self { parts_tx, length_ns, number: 0, next_ns: u64::MAX, reported: Vec::new() }
    }

    /// Called when the window opens.
    pub(crate) fn begin(&mut self, targets: usize, now_ns: u64) {
        self.reported = vec![(Histogram::new(), 0, 0); targets];
        self.next_ns = now_ns.saturating_add(self.length_ns);
    }

    /// When the current interval ends.
    pub(crate) fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// Reports the interval that has just ended.
    pub(crate) fn report(&mut self, targets: &[Counters]) {
        for ((number, counters), (latency, requests, errors)) in
            (0..).zip(targets).zip(&mut self.reported)
        {
            let part = IntervalPart {
                target: number,
                number: self.number,
                length_ns: self.length_ns,
                requests: counters.requests - *requests,
                errors: counters.errors.total() - *errors,
                bins: latency.catch_up(&counters.latency),
            };
            (*requests, *errors) = (counters.requests, counters.errors.total());
            // The error is ignored: the measurement does not depend on the observer.
            let _sent = self.parts_tx.send(part);
        }
        self.number += 1;
        self.next_ns = self.next_ns.saturating_add(self.length_ns);
    }
}

/// Merges the parts of all workers.
#[derive(Debug)]
pub(crate) struct IntervalMerger {
    threads: usize,
    unfinished: BTreeMap<(u64, u64, usize), (usize, Interval)>,
}

impl IntervalMerger {
    pub(crate) fn new(threads: usize) -> Self {
        Self { threads, unfinished: BTreeMap::new() }
    }

    /// Adds a part, and returns the interval once it is complete.
    pub(crate) fn add(&mut self, part: &IntervalPart) -> Option<Interval> {
        let IntervalPart { target, number, length_ns, requests, errors, bins } = part;
        let (target, number, length_ns) = (*target, *number, *length_ns);
        let key = (length_ns, number, target);
        let (parts, interval) = self.unfinished.entry(key).or_insert_with(|| {
            let latency = Histogram::new();
            (0, Interval { target, number, length_ns, requests: 0, errors: 0, latency })
        });
        *parts += 1;
        interval.requests += requests;
        interval.errors += errors;
        for &(value, count) in bins {
            interval.latency.record_many(value, count);
        }
        if *parts < self.threads {
            return None;
        }
        self.unfinished.remove(&key).map(|(_, interval)| interval)
    }
}
