//! `jissoku ab`: the flags of `ApacheBench` that people use, and the shape of its report.

use std::path::PathBuf;

use jissoku_load::report::TargetReport;
use jissoku_load::{Address, Histogram, Plan, TargetOutcome};

use super::answers::everyone;
use super::spread::Spread;
use super::{Keep, finish, float, notes, run_load};
use crate::load::measure::Measurement;

/// Takes the flags of ab, and reports in its shape.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub(crate) struct Ab {
    /// Where to, as `http://HOST:PORT/PATH`
    url: Address,
    /// Requests in all
    #[arg(short = 'n', default_value_t = 1)]
    requests: u64,
    /// Connections in all
    #[arg(short = 'c', default_value_t = 1)]
    concurrency: usize,
    /// Seconds at most; without -n there is then no other end
    #[arg(short = 't')]
    seconds: Option<u64>,
    /// Keep connections alive
    #[arg(short = 'k')]
    keeps_alive: bool,
    /// Header field 'Name: value'; may be given several times
    #[arg(short = 'H')]
    headers: Vec<String>,
    /// Method
    #[arg(short = 'm', default_value = "GET")]
    method: String,
    /// File with the body of a POST
    #[arg(short = 'p')]
    post: Option<PathBuf>,
    /// Content-Type of the body
    #[arg(short = 'T', default_value = "text/plain")]
    content_type: String,
    /// Time-out of a request, in seconds
    #[arg(short = 's', default_value_t = 30)]
    timeout: u64,
    /// Answers of different lengths are fine
    #[arg(short = 'l')]
    any_length: bool,
    /// Show no progress; it is not shown anyway
    #[arg(short = 'q')]
    quiet: bool,
    /// Go on after errors; that is done anyway
    #[arg(short = 'r')]
    goes_on: bool,
}

impl Ab {
    pub(crate) fn run(self) -> u8 {
        let (plan, measurement) = match run_load(&self.translate(), Keep::Counts) {
            Ok(measured) => measured,
            Err(code) => return code,
        };
        finish(&self.page(&plan, &measurement), &measurement)
    }

    fn translate(&self) -> Vec<String> {
        let verify = if self.any_length { "none" } else { "length" };
        let mut arguments = vec![
            format!("--connections={}", self.concurrency),
            format!("--timeout={}s", self.timeout),
            format!("--verify={verify}"),
            "--http1.0".to_owned(),
        ];
        match self.seconds {
            Some(seconds) => {
                arguments.push(format!("--duration={seconds}s"));
                arguments.push("--warmup=0".to_owned());
                if self.requests > 1 {
                    arguments.push(format!("--requests={}", self.requests));
                }
            }
            None => arguments.push(format!("--requests={}", self.requests)),
        }
        if !self.keeps_alive {
            arguments.push("--no-keepalive".to_owned());
        }
        arguments.extend(self.headers.iter().map(|header| format!("--header={header}")));
        match &self.post {
            None => arguments.push(format!("--method={}", self.method)),
            Some(file) => {
                arguments.push("--method=POST".to_owned());
                arguments.push(format!("--header=Content-Type: {}", self.content_type));
                arguments.push(format!("--body=@{}", file.display()));
            }
        }
        if self.url.is_secure() {
            // ab believes every certificate.
            arguments.push("--insecure".to_owned());
        }
        arguments.push(self.url.to_string());
        arguments
    }

    fn page(&self, plan: &Plan, measurement: &Measurement) -> String {
        let (Some(target), Some(counted)) =
            (measurement.report.targets.first(), measurement.outcome.targets.first())
        else {
            return String::new();
        };
        let length = plan.targets[0].specs[0].expected.length().filter(|_| !self.any_length);
        let mut page = vec![self.document(length), self.counts(measurement, target, length)];
        page.push(times(counted));
        page.push(served(&everyone(counted)));
        page.push(notes(&measurement.report, &[]));
        page.concat()
    }

    /// Who was asked, and for what.
    fn document(&self, length: Option<u64>) -> String {
        let usual = if self.url.is_secure() { "443" } else { "80" };
        let (host, port) = match self.url.authority().rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port),
            _ => (self.url.authority(), usual),
        };
        let length = length.map_or_else(|| "Variable".to_owned(), |size| format!("{size} bytes"));
        let server = lines(&[("Server Hostname:", host.into()), ("Server Port:", port.into())]);
        let document = lines(&[
            ("Document Path:", self.url.request_target().to_owned()),
            ("Document Length:", length),
        ]);
        format!("{server}\n{document}\n")
    }

    fn counts(
        &self,
        measurement: &Measurement,
        target: &TargetReport,
        length: Option<u64>,
    ) -> String {
        let seconds = measurement.report.duration_s;
        let complete = target.requests + target.accounting.http_errors;
        let kept = if self.keeps_alive { complete } else { 0 };
        let mean_ms =
            measurement.report.latency_ns.map_or(0.0, |latency| float(latency.mean) / 1e6);
        let each_ms = seconds * 1e3 / float(complete.max(1));
        let kilobytes = float(target.bytes_received) / 1024.0 / seconds.max(f64::MIN_POSITIVE);
        let mut rows = vec![
            ("Concurrency Level:", self.concurrency.to_string()),
            ("Time taken for tests:", format!("{seconds:.3} seconds")),
            ("Complete requests:", complete.to_string()),
            ("Failed requests:", target.errors.total().to_string()),
            ("Keep-Alive requests:", kept.to_string()),
            ("Total transferred:", format!("{} bytes", target.bytes_received)),
        ];
        // Of right answers, which are all of the same length.
        let bodies = length.map(|length| format!("{} bytes", length * target.requests));
        rows.extend(bodies.map(|size| ("HTML transferred:", size)));
        rows.extend([
            ("Requests per second:", format!("{:.2} [#/sec] (mean)", target.rate_rps)),
            ("Time per request:", format!("{mean_ms:.3} [ms] (mean)")),
            (
                "Time per request:",
                format!("{each_ms:.3} [ms] (mean, across all concurrent requests)"),
            ),
            ("Transfer rate:", format!("{kilobytes:.2} [Kbytes/sec] received")),
        ]);
        lines(&rows)
    }
}

fn lines(rows: &[(&str, String)]) -> String {
    let rows: Vec<String> =
        rows.iter().map(|(name, value)| format!("{name:<24}{value}\n")).collect();
    rows.concat()
}

/// Of connections and of answers. What ab calls waiting, to the first byte, is not measured here, and
/// neither is a request together with its connection.
fn times(counted: &TargetOutcome) -> String {
    let row = |name: &str, histogram: &Histogram| {
        let Spread { min, mean, deviation, max, .. } = Spread::of(histogram.bins());
        let median = if histogram.count() == 0 { 0 } else { histogram.quantile(500) };
        let cells = [min, mean, deviation, float(median), max].map(|value_ns| value_ns / 1e6);
        let [min, mean, deviation, median, max] = cells;
        format!("{name:<12}{min:>9.3} {mean:>9.3} {deviation:>9.3} {median:>9.3} {max:>9.3}\n")
    };
    let counters = &counted.counters;
    if counters.service.count() == 0 {
        return String::new();
    }
    let [min, mean, deviation, median, max] = ["min", "mean", "[+/-sd]", "median", "max"];
    let head = format!("{:<12}{min:>9} {mean:>9} {deviation:>9} {median:>9} {max:>9}\n", "");
    let (connect, processing) =
        (row("Connect:", &counted.connect), row("Processing:", &counters.service));
    ["\nConnection Times (ms)\n", &head, &connect, &processing].concat()
}

fn served(latency: &Histogram) -> String {
    if latency.count() == 0 {
        return String::new();
    }
    let mut text =
        vec!["\nPercentage of the requests served within a certain time (ms)\n".to_owned()];
    for percent in [50, 66, 75, 80, 90, 95, 98, 99] {
        let value_ms = float(latency.quantile(percent * 10)) / 1e6;
        text.push(format!("{percent:>4}%  {value_ms:>9.3}\n"));
    }
    let max_ms = float(latency.max_ns()) / 1e6;
    text.push(format!(" 100%  {max_ms:>9.3} (longest request)\n"));
    text.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_and_answers_have_their_times() {
        let mut counted = TargetOutcome::default();
        assert_eq!(times(&counted), "");
        counted.connect.record_many(1_000_000, 4);
        counted.counters.service.record_many(2_000_000, 5);
        counted.counters.service.record_many(4_000_000, 5);
        let text = times(&counted);
        let rows: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[1], ["Connection", "Times", "(ms)"]);
        assert_eq!(rows[2], ["min", "mean", "[+/-sd]", "median", "max"]);
        assert_eq!(rows[3][0], "Connect:");
        let near = |cell: &str, wanted: f64| {
            let value: f64 = cell.parse().expect("it is a number");
            assert!((value - wanted).abs() <= wanted / 500.0, "{cell} for {wanted}");
        };
        assert_eq!(rows[4][0], "Processing:");
        for (cell, wanted) in rows[4][1..].iter().zip([2.0, 3.0, 1.0, 2.0, 4.0]) {
            near(cell, wanted);
        }
    }

    fn ab(words: &str) -> Vec<String> {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            ab: Ab,
        }
        let words = ["ab"].into_iter().chain(words.split(' '));
        <Line as clap::Parser>::try_parse_from(words).expect("ab takes these").ab.translate()
    }

    #[test]
    fn its_flags_become_ours() {
        let ours = ab("-n 100 -c 5 -k http://127.0.0.1:1/");
        assert!(ours.contains(&"--requests=100".to_owned()), "{ours:?}");
        assert!(!ours.contains(&"--no-keepalive".to_owned()));
        let ours = ab("-t 3 -l http://127.0.0.1:1/");
        assert!(ours.contains(&"--duration=3s".to_owned()), "{ours:?}");
        assert!(ours.contains(&"--verify=none".to_owned()));
        assert!(ours.contains(&"--no-keepalive".to_owned()));
        assert!(!ours.iter().any(|word| word.starts_with("--requests")));
        assert!(!ours.iter().any(|word| word == "--insecure"));
        assert!(ab("https://127.0.0.1:1/").contains(&"--insecure".to_owned()));
        let ours = ab("-p body.json -T application/json http://127.0.0.1:1/");
        assert!(ours.contains(&"--body=@body.json".to_owned()), "{ours:?}");
    }
}
