//! `jissoku ab`: the flags of `ApacheBench` that people use, and the shape of its report.

use std::io::{self, Write as _};
use std::path::PathBuf;

use jissoku_load::{Address, Histogram};

use super::{float, measure, notes};
use crate::load::complain;
use crate::load::errand::Find;

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
        let find = match measure(&self.translate()) {
            Ok((_, find)) => find,
            Err(code) => return code,
        };
        let page = self.page(&find);
        if io::stdout().write_all(page.as_bytes()).is_err() {
            return 1;
        }
        match (find.outcome.interrupted, find.report.nothing_measured()) {
            (true, _) => 130,
            (false, Some(sentence)) => complain(&sentence, 1),
            (false, None) => 0,
        }
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
        arguments.push(self.url.to_string());
        arguments
    }

    fn page(&self, find: &Find) -> String {
        let (Some(lane), Some(counted)) = (find.report.lanes.first(), find.outcome.lanes.first())
        else {
            return String::new();
        };
        let seconds = find.report.duration_s;
        let complete = lane.requests + lane.accounting.http_errors;
        let failed = lane.errors.total();
        let kept = if self.keeps_alive { complete } else { 0 };
        let (host, port) = match self.url.authority().rsplit_once(':') {
            Some((host, port)) => (host, port),
            None => (self.url.authority(), "80"),
        };
        let mean_ms = find.report.latency_ns.map_or(0.0, |latency| float(latency.mean) / 1e6);
        let each_ms = seconds * 1e3 / float(complete.max(1));
        let kilobytes = float(lane.bytes_received) / 1024.0 / seconds.max(f64::MIN_POSITIVE);
        let mut page = Vec::new();
        for (name, value) in [
            ("Server Hostname:", host.to_owned()),
            ("Server Port:", port.to_owned()),
            ("Document Path:", self.url.target().to_owned()),
            ("Concurrency Level:", self.concurrency.to_string()),
            ("Time taken for tests:", format!("{seconds:.3} seconds")),
            ("Complete requests:", complete.to_string()),
            ("Failed requests:", failed.to_string()),
            ("Keep-Alive requests:", kept.to_string()),
            ("Total transferred:", format!("{} bytes", lane.bytes_received)),
            ("Requests per second:", format!("{:.2} [#/sec] (mean)", lane.rate_rps)),
            ("Time per request:", format!("{mean_ms:.3} [ms] (mean)")),
            (
                "Time per request:",
                format!("{each_ms:.3} [ms] (mean, across all concurrent requests)"),
            ),
            ("Transfer rate:", format!("{kilobytes:.2} [Kbytes/sec] received")),
        ] {
            page.push(format!("{name:<24}{value}\n"));
        }
        page.push(served(&counted.tally.latency));
        page.push(notes(&find.report));
        page.concat()
    }
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
        let ours = ab("-p body.json -T application/json http://127.0.0.1:1/");
        assert!(ours.contains(&"--body=@body.json".to_owned()), "{ours:?}");
    }
}
