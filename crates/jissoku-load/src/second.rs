//! What happened in each second of the window, for those who watch while it is open.
//!
//! A thread tells of a second when it is over, as the difference between two states of its tally: the hot
//! path does nothing for it.

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;

use crate::histogram::Histogram;
use crate::tally::Tally;

/// A second of the window on one lane.
#[derive(Clone, Debug)]
pub struct Second {
    /// On which lane.
    pub lane: usize,
    /// Which second, from 0.
    pub number: u64,
    /// Right answers.
    pub requests: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Latencies of the right answers, from the intended sending.
    pub latency: Histogram,
}

/// One thread's part of a second.
#[derive(Debug)]
pub(crate) struct Part {
    lane: usize,
    number: u64,
    requests: u64,
    errors: u64,
    bins: Vec<(u64, u64)>,
}

/// Tells of a thread's seconds.
#[derive(Debug)]
pub(crate) struct Teller {
    listener: Sender<Part>,
    /// Of each lane, what has been told of.
    told: Vec<(Histogram, u64, u64)>,
}

impl Teller {
    pub(crate) fn new(listener: Sender<Part>) -> Self {
        Self { listener, told: Vec::new() }
    }

    /// The window opens: nothing has been told of yet.
    pub(crate) fn begin(&mut self, lanes: usize) {
        self.told = vec![(Histogram::new(), 0, 0); lanes];
    }

    /// A second is over on `lane`.
    pub(crate) fn tell(&mut self, lane: usize, tally: &Tally) {
        let Some((latency, requests, errors)) = self.told.get_mut(lane) else { return };
        let part = Part {
            lane,
            number: (tally.per_second.len() as u64).saturating_sub(1),
            requests: tally.requests - *requests,
            errors: tally.faults.total() - *errors,
            bins: tally.latency.since(latency),
        };
        (*requests, *errors) = (tally.requests, tally.faults.total());
        latency.clone_from(&tally.latency);
        // Whoever does not listen misses it; the measurement does not depend on it.
        let _heard = self.listener.send(part);
    }
}

/// Puts the parts of all threads together.
#[derive(Debug)]
pub(crate) struct Gatherer {
    threads: usize,
    unfinished: BTreeMap<(u64, usize), (usize, Second)>,
}

impl Gatherer {
    pub(crate) fn new(threads: usize) -> Self {
        Self { threads, unfinished: BTreeMap::new() }
    }

    /// Takes a part, and returns the second if it is the last of its parts.
    pub(crate) fn take(&mut self, part: &Part) -> Option<Second> {
        let Part { lane, number, requests, errors, bins } = part;
        let (lane, number) = (*lane, *number);
        let (parts, second) = self.unfinished.entry((number, lane)).or_insert_with(|| {
            (0, Second { lane, number, requests: 0, errors: 0, latency: Histogram::new() })
        });
        *parts += 1;
        second.requests += requests;
        second.errors += errors;
        for &(value, count) in bins {
            second.latency.record_many(value, count);
        }
        if *parts < self.threads {
            return None;
        }
        self.unfinished.remove(&(number, lane)).map(|(_, second)| second)
    }
}
