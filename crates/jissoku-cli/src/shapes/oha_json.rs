//! The keys of oha's JSON. What is not measured is null, and the notes have a key of their own.

use jissoku_load::report::TargetReport;
use jissoku_load::{Histogram, TargetOutcome};
use serde_json::{Map, Value, json};

use super::answers::{at, bars, everyone, statuses};
use super::float;
use super::oha_text::{PERCENTILES, errors, success};
use super::spread::Spread;
use crate::load::measure::Measurement;

/// One object, and the end of its line.
pub(super) fn json(measurement: &Measurement, aborted: u64, notes: &[String]) -> String {
    let (Some(target), Some(counted)) =
        (measurement.report.targets.first(), measurement.outcome.targets.first())
    else {
        return String::new();
    };
    let statuses = statuses(&measurement.outcome.records).into_iter();
    let statuses: Map<String, Value> =
        statuses.map(|(code, count)| (code.to_string(), json!(count))).collect();
    let errors: Map<String, Value> = errors(target, aborted)
        .into_iter()
        .map(|(kind, count)| (kind.into(), json!(count)))
        .collect();
    let bars: Map<String, Value> = bars(&counted.counters.latency)
        .into_iter()
        .map(|(end, count)| ((end / 1e9).to_string(), json!(count)))
        .collect();
    let nothing: Value = json!({ "average": null, "fastest": null, "slowest": null });
    let object = json!({
        "summary": summary(measurement, target),
        "metrics": metrics(target, counted),
        "responseTimeHistogram": bars,
        "latencyPercentiles": percentiles(|parts| latency_s(&everyone(counted), parts)),
        "firstByteHistogram": {},
        "firstBytePercentiles": percentiles(|_| None),
        "rps": rates(&counted.counters.per_second),
        "details": {
            "DNSDialup": connecting(&counted.connect),
            "DNSLookup": nothing,
            "firstByte": nothing,
        },
        "statusCodeDistribution": statuses,
        "errorDistribution": errors,
        "jissokuNotes": notes,
    });
    format!("{object:#}\n")
}

fn summary(measurement: &Measurement, target: &TargetReport) -> Value {
    let known = target.latency_ns;
    let seconds = measurement.report.duration_s;
    let received = float(target.bytes_received);
    json!({
        "successRate": success(target),
        "total": seconds,
        "slowest": known.map(|it| float(it.max) / 1e9),
        "fastest": known.map(|it| float(it.min) / 1e9),
        "average": known.map(|it| float(it.mean) / 1e9),
        "requestsPerSec": target.rate_rps,
        "totalData": target.bytes_received,
        "sizePerRequest": target.bytes_received.checked_div(target.requests),
        "sizePerSec": received / seconds.max(f64::MIN_POSITIVE),
    })
}

fn metrics(target: &TargetReport, counted: &TargetOutcome) -> Value {
    let known = target.latency_ns;
    let everyone = everyone(counted);
    let ms = |parts: u64| latency_s(&everyone, parts).map(|value| value * 1e3);
    json!({
        "success_rate": success(target),
        "requests_per_sec": target.rate_rps,
        "latency_ms": {
            "min": known.map(|it| float(it.min) / 1e6),
            "mean": known.map(|it| float(it.mean) / 1e6),
            "p50": ms(50_000),
            "p95": ms(95_000),
            "p99": ms(99_000),
            "max": known.map(|it| float(it.max) / 1e6),
        },
    })
}

fn latency_s(latency: &Histogram, parts: u64) -> Option<f64> {
    (latency.count() > 0).then(|| float(at(latency, parts)) / 1e9)
}

fn percentiles(value: impl Fn(u64) -> Option<f64>) -> Value {
    let named =
        PERCENTILES.into_iter().map(|(name, parts)| (format!("p{name}"), json!(value(parts))));
    Value::Object(named.collect())
}

/// Of whole seconds; without one there is none.
fn rates(per_second: &[u64]) -> Value {
    let mut sorted = per_second.to_vec();
    sorted.sort_unstable();
    let rank = |parts: u64| (sorted.len() as u64 * parts).div_ceil(100_000).max(1) - 1;
    let value = |parts: u64| {
        let place = usize::try_from(rank(parts)).ok()?;
        sorted.get(place).map(|rate| float(*rate))
    };
    let spread = Spread::of(sorted.iter().map(|rate| (*rate, 1)));
    let known = |percentile: f64| (!sorted.is_empty()).then_some(percentile);
    json!({
        "mean": known(spread.mean),
        "stddev": known(spread.deviation),
        "max": known(spread.max),
        "min": known(spread.min),
        "percentiles": percentiles(value),
    })
}

fn connecting(connect: &Histogram) -> Value {
    let spread = Spread::of(connect.bins());
    let known = |value_ns: f64| (connect.count() > 0).then_some(value_ns / 1e9);
    json!({
        "average": known(spread.mean),
        "fastest": known(spread.min),
        "slowest": known(spread.max),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_whole_seconds() {
        let rates = rates(&[30, 10, 20]);
        assert_eq!(
            (&rates["mean"], &rates["min"], &rates["max"]),
            (&json!(20.0), &json!(10.0), &json!(30.0))
        );
        assert_eq!(rates["percentiles"]["p50"], json!(20.0));
        assert_eq!(rates["percentiles"]["p99.99"], json!(30.0));
        assert_eq!(super::rates(&[])["mean"], Value::Null);
        assert_eq!(super::rates(&[])["percentiles"]["p50"], Value::Null);
    }

    #[test]
    fn what_nobody_measured_is_null() {
        assert_eq!(connecting(&Histogram::new())["average"], Value::Null);
        assert_eq!(latency_s(&Histogram::new(), 50_000), None);
    }
}
