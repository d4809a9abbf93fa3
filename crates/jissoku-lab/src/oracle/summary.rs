//! The summary of a run of the oracle.

use serde::Serialize;

use crate::oracle::log::{Entry, Log};
use crate::oracle::scenario::InjectedFault;
use crate::oracle::stall_monitor::Stalls;

/// Name and version of the JSON schema.
const SCHEMA: &str = "jissoku.oracle/2";

/// If responses are sent this late at the 99th percentile, the run is no reference for load
/// generators.
const LATENESS_NS_MAX: u64 = 50_000;

/// Arrivals and requests in flight are reported per interval of this length.
const SPAN_NS: u64 = 100_000_000;

/// The summary; times are in nanoseconds.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the fields are named as in the JSON, and units end their names")]
pub struct Summary {
    pub schema: &'static str,
    /// Complete requests received.
    pub requests: u64,
    /// Responses given to the kernel, correct or faulty as configured.
    pub answered: u64,
    /// Requests that were never to be answered.
    pub frozen: u64,
    /// Requests whose connection ended before their response was due.
    pub abandoned: u64,
    /// Requests that found the log full; with any, the summary is invalid.
    pub overflowed: u64,
    pub connections_opened: u64,
    pub connections_open_max: u64,
    pub faults: InjectedFaults,
    /// From the arrival of a request to the sending of its response.
    pub served_ns: Option<Quantiles>,
    /// From the due time of a response to the end of its sending.
    pub lateness_ns: Option<Quantiles>,
    pub is_invalid: bool,
    /// Requests in each tenth of a second since the first arrival.
    pub arrivals: Vec<u64>,
    /// Requests in flight at the end of each of these intervals.
    pub in_flight: Vec<u64>,
    /// The stalls of the monitored cores.
    pub stalls: Vec<Stalls>,
}

/// Numbers of injected faults.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the fields are named as in the JSON")]
pub struct InjectedFaults {
    pub status: u64,
    pub reset: u64,
    pub truncated: u64,
    pub flipped: u64,
    pub dropped: u64,
}

/// Exact quantiles, from all values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the fields are named as in the JSON")]
pub struct Quantiles {
    pub mean: u64,
    pub min: u64,
    pub p50: u64,
    pub p90: u64,
    pub p99: u64,
    pub p999: u64,
    pub max: u64,
}

impl Summary {
    pub(crate) fn new(log: &Log, connections_opened: u64, connections_open_max: u64) -> Self {
        let entries = log.entries();
        let count = |is: &dyn Fn(&Entry) -> bool| size(entries.iter().filter(|it| is(it)).count());
        let injected =
            |fault: InjectedFault| count(&|it| it.is_answered() && it.fault == fault.code());
        let answered = || entries.iter().filter(|it| it.is_answered());
        let lateness_ns =
            Quantiles::of(answered().map(|it| it.written_ns.saturating_sub(it.due_ns)).collect());
        let (arrivals, in_flight) = spans(entries);
        Self {
            schema: SCHEMA,
            requests: size(entries.len()) + log.overflowed(),
            answered: count(&Entry::is_answered),
            frozen: count(&Entry::is_frozen),
            abandoned: count(&|it| !it.is_answered() && !it.is_frozen()),
            overflowed: log.overflowed(),
            connections_opened,
            connections_open_max,
            faults: InjectedFaults {
                status: injected(InjectedFault::Status),
                reset: injected(InjectedFault::Reset),
                truncated: injected(InjectedFault::Truncated),
                flipped: injected(InjectedFault::Flipped),
                dropped: injected(InjectedFault::Dropped),
            },
            served_ns: Quantiles::of(answered().map(|it| it.written_ns - it.arrival_ns).collect()),
            lateness_ns,
            is_invalid: log.overflowed() > 0
                || lateness_ns.is_some_and(|late| late.p99 >= LATENESS_NS_MAX),
            arrivals,
            in_flight,
            stalls: Vec::new(),
        }
    }
}

impl Quantiles {
    fn of(mut values: Vec<u64>) -> Option<Self> {
        values.sort_unstable();
        let (&min, &max) = (values.first()?, values.last()?);
        // The smallest value that this many thousandths of all values do not exceed.
        let at =
            |thousandths: usize| values[(values.len() * thousandths).div_ceil(1000).max(1) - 1];
        let sum: u128 = values.iter().map(|&value| u128::from(value)).sum();
        let mean = sum / values.len() as u128;
        Some(Self {
            mean: u64::try_from(mean).unwrap_or(max),
            min,
            p50: at(500),
            p90: at(900),
            p99: at(990),
            p999: at(999),
            max,
        })
    }
}

/// Arrivals in each interval, and requests in flight at its end.
fn spans(entries: &[Entry]) -> (Vec<u64>, Vec<u64>) {
    let Some(first) = entries.first().map(|it| it.arrival_ns) else { return Default::default() };
    let last = entries.iter().map(|it| it.arrival_ns.max(it.written_ns)).max().unwrap_or(first);
    let span = |at: u64| usize::try_from((at.saturating_sub(first)) / SPAN_NS).unwrap_or(0);
    let mut arrivals = vec![0; span(last) + 1];
    let mut departures = vec![0; span(last) + 1];
    for entry in entries {
        arrivals[span(entry.arrival_ns)] += 1;
        if entry.is_answered() {
            departures[span(entry.written_ns)] += 1;
        }
    }
    let mut open = 0u64;
    let in_flight = arrivals.iter().zip(&departures).map(|(&came, &left)| {
        open = (open + came) - left;
        open
    });
    let in_flight = in_flight.collect();
    (arrivals, in_flight)
}

fn size(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_there() {
        let found = Quantiles::of((1..=1000).rev().collect()).expect("there are values");
        let Quantiles { mean, min, p50, p90, p99, p999, max } = found;
        assert_eq!([mean, min, p50, p90, p99, p999, max], [500, 1, 500, 900, 990, 999, 1000]);
        assert_eq!(Quantiles::of(Vec::new()), None);
        assert_eq!(Quantiles::of(vec![7]).map(|one| one.p50), Some(7));
    }

    #[test]
    fn late_responses_make_the_summary_invalid() {
        let summary = |late| {
            let mut log = Log::new(2);
            let due_ns = 1000 + SPAN_NS;
            log.add(Entry { arrival_ns: 1000, due_ns, ..Entry::default() });
            log.answered(0, due_ns + late);
            Summary::new(&log, 1, 1)
        };
        assert!(!summary(LATENESS_NS_MAX - 1).is_invalid);
        let late = summary(LATENESS_NS_MAX);
        assert!(late.is_invalid);
        assert_eq!((late.arrivals, late.in_flight), (vec![1, 0], vec![1, 0]));
    }
}
