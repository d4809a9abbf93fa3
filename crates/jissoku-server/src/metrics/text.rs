//! Metrics in the OpenMetrics 1.0 text format.

use std::fmt;

use super::Metrics;
use super::counters::{BOUNDS_NS, Counter, Histogram};
use super::lines::{Family, head, line, put};
use crate::app_times::AppTimes;

const SECOND_NS: u64 = 1_000_000_000;

const FAMILIES: &[Family<Counter>] = &[
    Family {
        name: "jissoku_requests",
        help: "Responses by status class, including rejected requests.",
        members: &[
            (Counter::Status1, "{status=\"1xx\"}"),
            (Counter::Status2, "{status=\"2xx\"}"),
            (Counter::Status3, "{status=\"3xx\"}"),
            (Counter::Status4, "{status=\"4xx\"}"),
            (Counter::Status5, "{status=\"5xx\"}"),
        ],
    },
    Family {
        name: "jissoku_connections_accepted",
        help: "Accepted connections.",
        members: &[(Counter::Accepted, "")],
    },
    Family {
        name: "jissoku_connections_refused",
        help: "Connections rejected by a connection limit.",
        members: &[(Counter::Refused, "")],
    },
    Family {
        name: "jissoku_received_bytes",
        help: "Bytes received from clients, on the wire.",
        members: &[(Counter::ReceivedBytes, "")],
    },
    Family {
        name: "jissoku_sent_bytes",
        help: "Bytes queued for clients, on the wire; they need not have been sent yet.",
        members: &[(Counter::SentBytes, "")],
    },
    Family {
        name: "jissoku_deadlines",
        help: "Connections closed by a timeout, by kind of timeout.",
        members: &[
            (Counter::HandshakeDeadline, "{kind=\"handshake\"}"),
            (Counter::HeadDeadline, "{kind=\"head\"}"),
            (Counter::BodyDeadline, "{kind=\"body\"}"),
            (Counter::WriteDeadline, "{kind=\"write\"}"),
            (Counter::IdleDeadline, "{kind=\"idle\"}"),
            (Counter::LingerDeadline, "{kind=\"linger\"}"),
        ],
    },
    Family {
        name: "jissoku_tls_handshakes",
        help: "TLS handshakes by outcome.",
        members: &[
            (Counter::HandshakesDone, "{outcome=\"done\"}"),
            (Counter::HandshakesFailed, "{outcome=\"failed\"}"),
        ],
    },
    Family {
        name: "jissoku_cache_lookups",
        help: "File cache lookups: hit, confirmed (unchanged on disk), or miss.",
        members: &[
            (Counter::CacheHits, "{outcome=\"hit\"}"),
            (Counter::CacheConfirmed, "{outcome=\"confirmed\"}"),
            (Counter::CacheMisses, "{outcome=\"miss\"}"),
        ],
    },
    Family {
        name: "jissoku_cache_evictions",
        help: "Entries evicted from the file cache.",
        members: &[(Counter::CacheEvictions, "")],
    },
];

/// The phases of requests that an application answers, in the order of `AppTimes::NAMES`.
const PHASES: [(&str, &str); AppTimes::NAMES.len()] = [
    (
        "jissoku_app_queue_seconds",
        "From the last byte of a request to the call of the application.",
    ),
    ("jissoku_app_seconds", "Time of requests in the application."),
    ("jissoku_app_write_seconds", "Time in which the application waited for its client to read."),
];

/// A number that differs if the values of [`Metrics`] have another order or meaning: a hash
/// (FNV-1a) of what this page says of them.
pub(crate) const LAYOUT: u32 = {
    let mut hash = 0x811c_9dc5;
    let mut index = 0;
    while index < FAMILIES.len() {
        let Family { name, members, .. } = FAMILIES[index];
        let mut member = 0;
        while member < members.len() {
            hash = hash_with(hash, name.as_bytes());
            hash = hash_with(hash, members[member].1.as_bytes());
            hash = hash_with(hash, &[members[member].0 as u8]);
            member += 1;
        }
        index += 1;
    }
    index = 0;
    while index < PHASES.len() {
        hash = hash_with(hash, PHASES[index].0.as_bytes());
        index += 1;
    }
    index = 0;
    while index < BOUNDS_NS.len() {
        hash = hash_with(hash, &BOUNDS_NS[index].to_le_bytes());
        index += 1;
    }
    hash
};

const fn hash_with(hash: u32, bytes: &[u8]) -> u32 {
    let (mut hash, mut index) = (hash, 0);
    while index < bytes.len() {
        hash = (hash ^ bytes[index] as u32).wrapping_mul(0x0100_0193);
        index += 1;
    }
    hash
}

pub(super) fn write(metrics: &Metrics) -> String {
    let mut text = String::with_capacity(4096);
    for Family { name, help, members } in FAMILIES {
        head(&mut text, name, "counter", help);
        for &(counter, labels) in *members {
            line(&mut text, &format!("{name}_total{labels}"), metrics.shards.sum(counter));
        }
    }
    for (phase, (name, help)) in PHASES.iter().enumerate() {
        histogram(&mut text, name, help, &metrics.shards.histogram(phase));
    }
    let gone = metrics.shards.sum(Counter::Closed);
    let open = metrics.shards.sum(Counter::Accepted).saturating_sub(gone);
    gauge(&mut text, "jissoku_connections_open", "Open connections.", open);
    let workers = metrics.shards.active_count() as u64;
    gauge(&mut text, "jissoku_workers", "Running workers.", workers);
    let (names, bytes) = metrics.cache.held();
    let help = "Entries in the file cache, including negative ones.";
    gauge(&mut text, "jissoku_cache_names", help, names);
    let help = "Size of the file cache, counted against --cache-size.";
    gauge(&mut text, "jissoku_cache_bytes", help, bytes);
    metrics.upstreams.write(&mut text);
    metrics.routes.write(&mut text);
    metrics.stores.write(&mut text);
    if let Some(dropped) = &metrics.dropped {
        let name = "jissoku_log_records_lost";
        head(&mut text, name, "counter", "Access log records that were dropped.");
        line(&mut text, &format!("{name}_total"), dropped.count());
    }
    let started_s = metrics.started_ns / SECOND_NS;
    let help = "Start time of the process in seconds since 1970.";
    gauge(&mut text, "process_start_time_seconds", help, started_s);
    text.push_str("# EOF\n");
    text
}

fn histogram(text: &mut String, name: &str, help: &str, found: &Histogram) {
    head(text, name, "histogram", help);
    let mut count = 0;
    for (bucket, found) in found.counts.iter().enumerate() {
        count += found;
        let bound = BOUNDS_NS.get(bucket).map(|&bound_ns| Seconds(bound_ns).to_string());
        let bound = bound.as_deref().unwrap_or("+Inf");
        line(text, &format!("{name}_bucket{{le=\"{bound}\"}}"), count);
    }
    put(text, format_args!("{name}_sum {}\n", Seconds(found.sum_ns)));
    line(text, &format!("{name}_count"), count);
}

/// Nanoseconds, written in seconds without losing a digit.
struct Seconds(u64);

impl fmt::Display for Seconds {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, rest_ns) = (self.0 / SECOND_NS, self.0 % SECOND_NS);
        let digits = format!("{rest_ns:09}");
        let digits = digits.trim_end_matches('0');
        let digits = if digits.is_empty() { "0" } else { digits };
        write!(formatter, "{seconds}.{digits}")
    }
}

fn gauge(text: &mut String, name: &str, help: &str, value: u64) {
    head(text, name, "gauge", help);
    line(text, name, value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_is_exposed_once() {
        let exposed = FAMILIES.iter().flat_map(|family| family.members);
        let exposed: Vec<usize> = exposed.map(|&(counter, _)| counter as usize).collect();
        // Closed connections are exposed as the gauge of open ones.
        let mut expected: Vec<usize> = (0..Counter::COUNT).collect();
        expected.remove(Counter::Closed as usize);
        assert_eq!(exposed, expected);
    }

    #[test]
    fn the_page_has_the_counted_values() {
        let metrics = Metrics::new(None);
        let shard_owner = metrics.shard_owner();
        shard_owner.add(Counter::of_status(200), 5);
        shard_owner.add(Counter::Accepted, 3);
        shard_owner.add(Counter::Closed, 1);
        let text = metrics.text();
        for expected in [
            "jissoku_requests_total{status=\"2xx\"} 5\n",
            "jissoku_requests_total{status=\"5xx\"} 0\n",
            "jissoku_connections_open 2\n",
            "jissoku_workers 1\n",
        ] {
            assert!(text.contains(expected), "{expected} in {text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn a_histogram_is_cumulative() {
        let metrics = Metrics::new(None);
        let shard_owner = metrics.shard_owner();
        for app_ns in [30_000, 80_000, 1_500_000_000, 60_000_000_000] {
            shard_owner.add_times(AppTimes { queue_ns: 0, app_ns, write_ns: 0 });
        }
        let text = metrics.text();
        for expected in [
            "# TYPE jissoku_app_seconds histogram\n",
            "jissoku_app_seconds_bucket{le=\"0.00005\"} 1\n",
            "jissoku_app_seconds_bucket{le=\"0.0001\"} 2\n",
            "jissoku_app_seconds_bucket{le=\"1.0\"} 2\n",
            "jissoku_app_seconds_bucket{le=\"2.5\"} 3\n",
            "jissoku_app_seconds_bucket{le=\"+Inf\"} 4\n",
            "jissoku_app_seconds_sum 61.50011\n",
            "jissoku_app_seconds_count 4\n",
        ] {
            assert!(text.contains(expected), "{expected} in {text}");
        }
    }
}
