//! The server's metrics over a socket, parsed by the rules of OpenMetrics.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use jissoku_server::{
    DynService, Files, FilesOptions, Limits, Metrics, MetricsPage, Settings, TelemetryConfig,
};

use crate::client::{Target, contract, free_port, fresh_path, wait_until};

/// Timeout of a head: long enough for a client that is preempted after it has connected.
const HEAD_NS: u64 = 1_000_000_000;

/// A server and its metrics server.
struct Pair {
    target: Target,
    page: Target,
    metrics: Arc<Metrics>,
}

impl Pair {
    fn start(limits: Limits) -> Self {
        Self::serve(contract(), limits, 2)
    }

    fn serve(service: impl Into<DynService>, limits: Limits, workers: usize) -> Self {
        let metrics = Metrics::new(None);
        let telemetry = TelemetryConfig { log: None, metrics: Some(Arc::clone(&metrics)) };
        let settings = Settings { telemetry, workers, limits, ..Settings::new(free_port()) };
        Self {
            target: Target::start(settings, service),
            page: Target::serve(MetricsPage::new(Arc::clone(&metrics))),
            metrics,
        }
    }

    fn telemetry(&self) -> TelemetryConfig {
        TelemetryConfig { log: None, metrics: Some(Arc::clone(&self.metrics)) }
    }

    fn read(&self) -> BTreeMap<String, u64> {
        let answer = self.page.ask("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(answer.status, 200);
        let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        assert_eq!(answer.field("Content-Type"), Some(kind));
        parse(answer.text())
    }

    /// Reads until `name` is `value`: a worker counts the end of a connection when it detects it.
    fn wait_for(&self, name: &str, value: u64) {
        wait_until(name, || self.read()[name] == value);
    }
}

/// Parses the text by the rules of OpenMetrics 1.0: the lines of a family are contiguous, type and
/// help come first and once, the samples of a counter end in `_total`, those of a histogram in
/// `_bucket`, `_sum` or `_count`, a unit is the end of the name, no sample is repeated, and the text
/// ends with EOF. Sums in seconds are left out.
fn parse(text: &str) -> BTreeMap<String, u64> {
    let body = text.strip_suffix("# EOF\n").expect("the text ends with EOF");
    let mut samples = BTreeMap::new();
    let mut families: Vec<(String, String)> = Vec::new();
    for line in body.split_terminator('\n') {
        if let Some(meta) = line.strip_prefix("# ") {
            let mut signals = meta.splitn(3, ' ');
            let mut word = || signals.next().expect("three parts");
            let (what, name, value) = (word(), word(), word());
            match what {
                "TYPE" => {
                    assert!(["counter", "gauge", "histogram"].contains(&value), "{line}");
                    assert!(families.iter().all(|(known, _)| known != name), "{name} comes twice");
                    families.push((name.to_owned(), value.to_owned()));
                }
                "UNIT" => assert!(name.ends_with(&format!("_{value}")), "{line}"),
                _ => {
                    assert_eq!(what, "HELP", "{line}");
                    assert!(value.ends_with('.') && !value.contains('\\'), "{line}");
                }
            }
            assert_eq!(families.last().map(|(last, _)| last.as_str()), Some(name), "{line}");
            continue;
        }
        let (name, value) = line.rsplit_once(' ').expect("a sample has a value");
        let bare = name.split('{').next().expect("a sample has a name");
        let (family, kind) = families.last().expect("a type comes first");
        let endings: &[&str] = match kind.as_str() {
            "counter" => &["_total"],
            "histogram" => &["_bucket", "_sum", "_count"],
            _ => &[""],
        };
        let ending = bare.strip_prefix(family.as_str()).expect("samples have the family's name");
        assert!(endings.contains(&ending), "{line}");
        if ending == "_sum" {
            assert!(value.parse::<f64>().is_ok(), "{line}");
            continue;
        }
        assert!(bare.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{line}");
        let value = value.parse().expect("a number");
        assert_eq!(samples.insert(name.to_owned(), value), None, "{name} comes twice");
    }
    samples
}

#[test]
fn requests_and_connections_are_counted_over_all_workers() {
    let pair = Pair::start(Limits::DEFAULT);
    let mut clients: Vec<_> = (0..6).map(|_| pair.target.connect()).collect();
    crate::client::ask_all(&mut clients);
    clients[0].send("GET /none HTTP/1.1\r\nHost: a\r\n\r\n");
    clients[0].answer();
    clients[1].send("nonsense\r\n\r\n");
    clients[1].answer();
    let found = pair.read();
    assert_eq!(found["jissoku_requests_total{status=\"2xx\"}"], 6);
    assert_eq!(found["jissoku_requests_total{status=\"4xx\"}"], 2);
    assert_eq!(found["jissoku_connections_accepted_total"], 6);
    assert_eq!(found["jissoku_workers"], 2);
    assert!(found["jissoku_sent_bytes_total"] > 6 * 100);
    let requests = 6 * "GET / HTTP/1.1\r\nHost: a\r\n\r\n".len() as u64;
    assert!(found["jissoku_received_bytes_total"] > requests);
    assert!(found["process_start_time_seconds"] > 1_600_000_000);
    drop(clients);
    pair.wait_for("jissoku_connections_open", 0);
}

#[test]
fn timeouts_are_counted_by_kind() {
    let limits =
        Limits { head_ns_max: HEAD_NS, idle_ns_max: 1, linger_ns_max: 1, ..Limits::DEFAULT };
    let pair = Pair::start(limits);
    let mut client = pair.target.connect();
    client.send("GET / HT");
    assert_eq!(client.answer().status, 408);
    // After a request, the idle timeout applies; before the first one, that of a head.
    let mut idle = pair.target.connect();
    idle.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    idle.answer();
    idle.expect_end();
    pair.target.connect().expect_end();
    pair.wait_for("jissoku_deadlines_total{kind=\"head\"}", 2);
    pair.wait_for("jissoku_deadlines_total{kind=\"idle\"}", 1);
    pair.wait_for("jissoku_deadlines_total{kind=\"linger\"}", 1);
}

#[test]
fn the_size_of_the_file_cache_is_a_gauge() {
    let folder = fresh_path();
    fs::create_dir(&folder).expect("a folder");
    for name in ["a", "b"] {
        fs::write(folder.join(name), vec![b'x'; 20_000]).expect("a file can be written");
    }
    // For one file: three quarters are for the shared cache, one for those of the workers.
    let options =
        FilesOptions { revalidate: Duration::MAX, cache_size: 50_000, ..FilesOptions::default() };
    let files = Files::open(&folder, options).expect("the folder can be read");
    let mut pair = Pair::serve(files, Limits::DEFAULT, 1);
    let lookups = |found: &BTreeMap<String, u64>| {
        ["hit", "confirmed", "miss"]
            .map(|outcome| found[&format!("jissoku_cache_lookups_total{{outcome=\"{outcome}\"}}")])
    };
    for (path, expected, evictions) in
        [("/a", [0, 0, 1], 0), ("/a", [1, 0, 1], 0), ("/b", [1, 0, 2], 1), ("/a", [1, 0, 3], 2)]
    {
        let answer = pair.target.ask(&format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(answer.body.len(), 20_000);
        let found = pair.read();
        assert_eq!(lookups(&found), expected, "{path}");
        assert_eq!(found["jissoku_cache_evictions_total"], evictions);
        assert_eq!(found["jissoku_cache_names"], 1);
        assert!((20_000..37_500).contains(&found["jissoku_cache_bytes"]), "{found:?}");
    }
    let settings = Settings { telemetry: pair.telemetry(), ..Settings::new(free_port()) };
    pair.target.running.reload(&settings, contract(), None).expect("the new workers start");
    pair.wait_for("jissoku_cache_bytes", 0);
    pair.wait_for("jissoku_cache_names", 0);
    assert_eq!(lookups(&pair.read()), [1, 0, 3], "what was counted stays counted");
    drop(pair);
    fs::remove_dir_all(&folder).expect("the directory can be removed");
}

#[test]
fn only_get_and_head_of_the_metrics_page_are_answered() {
    let page = Target::serve(MetricsPage::new(Metrics::new(None)));
    let status = |request: &str| page.ask(&format!("{request} HTTP/1.0\r\n\r\n")).status;
    assert_eq!(status("GET /"), 404);
    assert_eq!(status("POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nX:"), 405);
    assert_eq!(status("GET /metrics?x=y"), 200);
}
