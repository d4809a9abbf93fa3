//! Counters of one target.

use crate::engine::error::{ErrorCounts, ErrorExample, RequestError};
use crate::engine::histogram::Histogram;

/// Statuses are below this number.
const STATUSES: usize = 600;

/// Counts of one target in one window, of one worker or of all.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// Correct responses.
    pub requests: u64,
    /// Correct responses, by request of the cycle.
    pub per_spec: Vec<u64>,
    /// Errors, by kind.
    pub errors: ErrorCounts,
    /// The first error of each kind.
    pub examples: Vec<ErrorExample>,
    /// Ended requests by the status of their response; at 0 those without one.
    pub statuses: Vec<u64>,
    /// Failed requests, by request of the cycle.
    pub errors_per_spec: Vec<u64>,
    /// Latency of correct responses, from the intended send time to the last byte. In the closed
    /// loop it is equal to `service`.
    pub latency: Histogram,
    /// Service time of correct responses: from the actual send time to the last byte.
    pub service: Histogram,
    /// Time from sending to the first read, of correct responses that came in several reads. The first
    /// byte of all others came with the last.
    pub(crate) first_read: Histogram,
    /// Service time of these responses.
    pub(crate) first_read_service: Histogram,
    /// From the intended to the actual send time; empty in the closed loop.
    pub lag: Histogram,
    /// How long requests without a correct, timely response were waited for, from their intended
    /// send time to their failure.
    pub waited: Histogram,
    /// The same from their actual send time; requests that were never sent are not included.
    pub waited_service: Histogram,
    /// From the moment at which a due request had a free connection to its sending: the load
    /// generator's own delay.
    pub lateness: Histogram,
    /// Requests in flight when the window opened.
    pub carried: u64,
    /// Requests sent in the window.
    pub sent: u64,
    /// Unsolicited responses; `errors` counts them as malformed.
    pub unsolicited: u64,
    /// Requests that were due and never sent, for lack of a free connection.
    pub shed: u64,
    /// Requests of a limit (`-n`) that were given up because a connection attempt failed.
    pub not_connected: u64,
    /// When the last request ended.
    pub(crate) last_end_ns: u64,
    /// Time before the window's opening for which requests in flight then had been waited for.
    pub carried_ns: u64,
    /// Closed loop: time that requests were queued before their submission (io_uring); zero with
    /// epoll.
    pub queued_ns: u64,
    /// Correct responses in each second of the window.
    pub per_second: Vec<u64>,
    /// Bytes received.
    pub bytes_received: u64,
    /// Bytes sent.
    pub bytes_sent: u64,
}

impl Counters {
    /// Empty counters, for a cycle of `specs` requests.
    pub(crate) fn new(specs: usize) -> Self {
        let (per_spec, errors_per_spec) = (vec![0; specs], vec![0; specs]);
        Self { per_spec, errors_per_spec, statuses: vec![0; STATUSES], ..Self::default() }
    }

    /// Counts a correct response.
    #[inline]
    pub(crate) fn record_success(&mut self, spec: u16, latency_ns: u64, service_ns: u64) {
        self.requests += 1;
        if let Some(count) = self.per_spec.get_mut(usize::from(spec)) {
            *count += 1;
        }
        self.latency.record(latency_ns);
        self.service.record(service_ns);
    }

    /// Time from the sending of a request to the first byte of its response, of correct responses.
    pub fn first_byte(&self) -> Histogram {
        self.service.with_replaced(&self.first_read_service, &self.first_read)
    }

    /// Keeps what has happened, if it is the first error of its kind.
    #[cold]
    pub(crate) fn add_example(&mut self, example: ErrorExample) {
        match self.examples.iter_mut().find(|known| known.error == example.error) {
            Some(known) if known.at_ns <= example.at_ns => {}
            Some(known) => *known = example,
            None => self.examples.push(example),
        }
    }

    /// Counts a request without a correct, timely response.
    pub(crate) fn record_unanswered(&mut self, latency_ns: u64, service_ns: u64) {
        self.waited.record(latency_ns);
        self.waited_service.record(service_ns);
    }

    /// Counts a request that was due and is never sent.
    pub(crate) fn record_shed(&mut self, waited_ns: u64) {
        self.shed += 1;
        self.waited.record(waited_ns);
    }

    /// Counts failed requests.
    pub(crate) fn record_error(&mut self, error: RequestError, count: u64) {
        self.errors.count(error, count);
    }

    /// Ends a second of the window.
    pub(crate) fn end_second(&mut self) {
        let before: u64 = self.per_second.iter().sum();
        self.per_second.push(self.requests - before);
    }

    /// Adds the counters of another worker for the same target.
    pub fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.errors.add(&other.errors);
        self.latency.add(&other.latency);
        self.service.add(&other.service);
        self.lag.add(&other.lag);
        self.waited.add(&other.waited);
        self.waited_service.add(&other.waited_service);
        self.lateness.add(&other.lateness);
        self.carried += other.carried;
        self.sent += other.sent;
        self.unsolicited += other.unsolicited;
        self.shed += other.shed;
        self.not_connected += other.not_connected;
        self.last_end_ns = self.last_end_ns.max(other.last_end_ns);
        self.carried_ns += other.carried_ns;
        self.queued_ns += other.queued_ns;
        other.examples.iter().for_each(|example| self.add_example(example.clone()));
        self.first_read.add(&other.first_read);
        self.first_read_service.add(&other.first_read_service);
        add_each(&mut self.statuses, &other.statuses);
        add_each(&mut self.per_spec, &other.per_spec);
        add_each(&mut self.errors_per_spec, &other.errors_per_spec);
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
