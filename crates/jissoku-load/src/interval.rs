//! What happened in each interval of the window, such as each second, for those who watch while it is open.
//!
//! A thread tells of an interval when it is over, as the difference between two states of its tally: the hot
//! path does nothing for it.

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;

use crate::histogram::Histogram;
use crate::lane::Lane;

/// An interval of the window on one lane.
#[derive(Clone, Debug)]
pub struct Interval {
    /// On which lane.
    pub lane: usize,
    /// Which of those of its length, from 0; they lie behind each other, and the first begins with the window.
    pub number: u64,
    /// How long it is.
    pub length_ns: u64,
    /// Right answers.
    pub requests: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Latencies of the right answers, from the intended sending.
    pub latency: Histogram,
}

/// One thread's part of an interval.
#[derive(Debug)]
pub(crate) struct Part {
    lane: usize,
    number: u64,
    length_ns: u64,
    requests: u64,
    errors: u64,
    bins: Vec<(u64, u64)>,
}

/// Tells of a thread's intervals, all of one length.
#[derive(Debug)]
pub(crate) struct Teller {
    listener: Sender<Part>,
    length_ns: u64,
    number: u64,
    /// When the next interval is over.
    next_ns: u64,
    /// Of each lane, what has been told of.
    told: Vec<(Histogram, u64, u64)>,
}

impl Teller {
    pub(crate) fn new(listener: Sender<Part>, length_ns: u64) -> Self {
        Self { listener, length_ns, number: 0, next_ns: u64::MAX, told: Vec::new() }
    }

    /// The window opens: nothing has been told of yet.
    pub(crate) fn begin(&mut self, lanes: usize, now_ns: u64) {
        self.told = vec![(Histogram::new(), 0, 0); lanes];
        self.next_ns = now_ns.saturating_add(self.length_ns);
    }

    /// When there is something to tell of.
    pub(crate) fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// An interval is over.
    pub(crate) fn tell(&mut self, lanes: &[Lane<'_>]) {
        for ((number, lane), (latency, requests, errors)) in (0..).zip(lanes).zip(&mut self.told) {
            let tally = &lane.tally;
            let part = Part {
                lane: number,
                number: self.number,
                length_ns: self.length_ns,
                requests: tally.requests - *requests,
                errors: tally.faults.total() - *errors,
                bins: latency.catch_up(&tally.latency),
            };
            (*requests, *errors) = (tally.requests, tally.faults.total());
            // Whoever does not listen misses it; the measurement does not depend on it.
            let _heard = self.listener.send(part);
        }
        self.number += 1;
        self.next_ns = self.next_ns.saturating_add(self.length_ns);
    }
}

/// Puts the parts of all threads together.
#[derive(Debug)]
pub(crate) struct Gatherer {
    threads: usize,
    unfinished: BTreeMap<(u64, u64, usize), (usize, Interval)>,
}

impl Gatherer {
    pub(crate) fn new(threads: usize) -> Self {
        Self { threads, unfinished: BTreeMap::new() }
    }

    /// Takes a part, and returns the interval if it is the last of its parts.
    pub(crate) fn take(&mut self, part: &Part) -> Option<Interval> {
        let Part { lane, number, length_ns, requests, errors, bins } = part;
        let (lane, number, length_ns) = (*lane, *number, *length_ns);
        let key = (length_ns, number, lane);
        let (parts, interval) = self.unfinished.entry(key).or_insert_with(|| {
            let latency = Histogram::new();
            (0, Interval { lane, number, length_ns, requests: 0, errors: 0, latency })
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
