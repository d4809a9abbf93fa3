//! The numbers as a page (OpenMetrics 1.0).

use std::fmt::Write;

use super::Metrics;
use super::counters::Figure;

/// How a family of numbers is told: its name, its unit, what it is, and its members with their labels.
struct Family {
    name: &'static str,
    unit: Option<&'static str>,
    help: &'static str,
    members: &'static [(Figure, &'static str)],
}

const FAMILIES: &[Family] = &[
    Family {
        name: "jissoku_requests",
        unit: None,
        help: "Requests that were answered, refused ones included, by the class of the status.",
        members: &[
            (Figure::Status1, "{status=\"1xx\"}"),
            (Figure::Status2, "{status=\"2xx\"}"),
            (Figure::Status3, "{status=\"3xx\"}"),
            (Figure::Status4, "{status=\"4xx\"}"),
            (Figure::Status5, "{status=\"5xx\"}"),
        ],
    },
    Family {
        name: "jissoku_connections_accepted",
        unit: None,
        help: "Connections that were taken.",
        members: &[(Figure::Accepted, "")],
    },
    Family {
        name: "jissoku_connections_refused",
        unit: None,
        help: "Connections that were turned away because there were too many.",
        members: &[(Figure::Refused, "")],
    },
    Family {
        name: "jissoku_received_bytes",
        unit: Some("bytes"),
        help: "Bytes that came from clients, as they were on the wire.",
        members: &[(Figure::ReceivedBytes, "")],
    },
    Family {
        name: "jissoku_sent_bytes",
        unit: Some("bytes"),
        help: "Bytes put out for clients, as they are on the wire; a client need not have taken them.",
        members: &[(Figure::SentBytes, "")],
    },
    Family {
        name: "jissoku_deadlines",
        unit: None,
        help: "Clients that were given up because they took too long, by what they were slow with.",
        members: &[
            (Figure::HandshakeDeadline, "{kind=\"handshake\"}"),
            (Figure::HeadDeadline, "{kind=\"head\"}"),
            (Figure::BodyDeadline, "{kind=\"body\"}"),
            (Figure::WriteDeadline, "{kind=\"write\"}"),
            (Figure::IdleDeadline, "{kind=\"idle\"}"),
            (Figure::LingerDeadline, "{kind=\"linger\"}"),
        ],
    },
    Family {
        name: "jissoku_tls_handshakes",
        unit: None,
        help: "TLS handshakes, by how they ended.",
        members: &[
            (Figure::HandshakesDone, "{outcome=\"done\"}"),
            (Figure::HandshakesFailed, "{outcome=\"failed\"}"),
        ],
    },
    Family {
        name: "jissoku_cache_lookups",
        unit: None,
        help: "Names of a folder that were asked for: known, looked at on disk and unchanged, or learnt.",
        members: &[
            (Figure::CacheHits, "{outcome=\"hit\"}"),
            (Figure::CacheConfirmed, "{outcome=\"confirmed\"}"),
            (Figure::CacheMisses, "{outcome=\"miss\"}"),
        ],
    },
    Family {
        name: "jissoku_cache_evictions",
        unit: None,
        help: "Names that were forgotten to make room for others.",
        members: &[(Figure::CacheEvictions, "")],
    },
];

pub(super) fn write(metrics: &Metrics) -> String {
    let mut text = String::with_capacity(4096);
    for Family { name, unit, help, members } in FAMILIES {
        head(&mut text, name, "counter", *unit, help);
        for &(figure, labels) in *members {
            line(&mut text, &format!("{name}_total{labels}"), metrics.seats.sum(figure));
        }
    }
    let gone = metrics.seats.sum(Figure::Closed);
    let open = metrics.seats.sum(Figure::Accepted).saturating_sub(gone);
    gauge(&mut text, "jissoku_connections_open", None, "Connections that stand now.", open);
    let workers = metrics.seats.taken() as u64;
    gauge(&mut text, "jissoku_workers", None, "Threads that serve now.", workers);
    let (names, bytes) = metrics.cache.held();
    gauge(
        &mut text,
        "jissoku_cache_names",
        None,
        "Names that are known, of files or of none.",
        names,
    );
    let help = "What counts against --cache-size for names that are known.";
    gauge(&mut text, "jissoku_cache_bytes", Some("bytes"), help, bytes);
    if let Some(losses) = &metrics.losses {
        let name = "jissoku_log_records_lost";
        head(&mut text, name, "counter", None, "Records that the access log could not write.");
        line(&mut text, &format!("{name}_total"), losses.count());
    }
    let started_s = metrics.started_ns / 1_000_000_000;
    let help = "When the process started, in seconds since 1970.";
    gauge(&mut text, "process_start_time_seconds", Some("seconds"), help, started_s);
    text.push_str("# EOF\n");
    text
}

fn gauge(text: &mut String, name: &str, unit: Option<&str>, help: &str, value: u64) {
    head(text, name, "gauge", unit, help);
    line(text, name, value);
}

fn head(text: &mut String, name: &str, kind: &str, unit: Option<&str>, help: &str) {
    put(text, format_args!("# TYPE {name} {kind}\n"));
    if let Some(unit) = unit {
        put(text, format_args!("# UNIT {name} {unit}\n"));
    }
    put(text, format_args!("# HELP {name} {help}\n"));
}

fn line(text: &mut String, name: &str, value: u64) {
    put(text, format_args!("{name} {value}\n"));
}

fn put(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    text.write_fmt(arguments).expect("memory takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_is_told_once() {
        let told = FAMILIES.iter().flat_map(|family| family.members);
        let told: Vec<usize> = told.map(|&(figure, _)| figure as usize).collect();
        // Connections that were closed are told as those that are open.
        let mut expected: Vec<usize> = (0..Figure::COUNT).collect();
        expected.remove(Figure::Closed as usize);
        assert_eq!(told, expected);
    }

    #[test]
    fn what_was_counted_is_on_the_page() {
        let metrics = Metrics::new(None);
        let counting = metrics.counting();
        counting.add(Figure::of_status(200), 5);
        counting.add(Figure::Accepted, 3);
        counting.add(Figure::Closed, 1);
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
}
