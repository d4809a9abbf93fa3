//! `jissoku oha`: the flags of oha, and the shape of its report.

use std::fs;
use std::path::PathBuf;

use clap::ValueEnum;
use jissoku_load::report::TargetReport;

use super::alike::{Alike, ENDLESS, Habits};
use super::answers;
use super::oha_json::json;
use super::oha_text::{Unit, csv, text};
use super::refusals::{Refusals, only};
use super::{Keep, finish, float, notes, remarks, run_load};
use crate::load::measure::Measurement;
use crate::load::print_error;
use crate::units;

const HABITS: Habits = Habits {
    method: str::to_owned,
    accept: Some("*/*"),
    encodings: "gzip, compress, deflate, br",
    content_type: None,
    timeout: ENDLESS,
    requests: "200",
};

/// Takes the flags of oha, and reports in its shape.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub(crate) struct Oha {
    #[command(flatten)]
    alike: Alike,
    /// Requests per second in all
    #[arg(short = 'q', value_name = "RATE")]
    rate: Option<String>,
    /// Count latencies from when a request was due; that is done anyway
    #[arg(long)]
    latency_correction: bool,
    /// Wait for requests that are under way when the time is over (with -q)
    #[arg(short = 'w', long = "wait-ongoing-requests-after-deadline")]
    waits: bool,
    /// Requests at the same time on a connection of HTTP/2: 1
    #[arg(short = 'p', value_name = "N", value_parser = only("1", "HTTP/1.1 is all that is spoken here"))]
    parallel: Option<String>,
    /// Version of HTTP: 1.1 or 1.0
    #[arg(long, value_name = "VERSION")]
    http_version: Option<Version>,
    /// Redirects that are followed: 0
    #[arg(short = 'r', long, value_name = "N", value_parser = only("0", "redirects are not followed here"))]
    redirect: Option<String>,
    /// Show no screen; none is shown anyway
    #[arg(long)]
    no_tui: bool,
    /// Use no colours; none are used anyway
    #[arg(long)]
    no_color: bool,
    /// Believe every certificate
    #[arg(long)]
    insecure: bool,
    /// Believe what these authorities have signed
    #[arg(long, value_name = "FILE")]
    cacert: Option<PathBuf>,
    /// Connect to HOST2:PORT2 instead of HOST:PORT
    #[arg(long, value_name = "HOST:PORT:HOST2:PORT2")]
    connect_to: Vec<String>,
    /// Connect to this Unix socket
    #[arg(long, value_name = "PATH")]
    unix_socket: Option<PathBuf>,
    /// Threads at most
    #[arg(long, value_name = "N")]
    worker_threads: Option<usize>,
    /// File for the report
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Format of the report
    #[arg(long, value_enum, default_value_t = Format::Text)]
    output_format: Format,
    /// As --output-format json
    #[arg(short, long)]
    json: bool,
    /// Unit of times in the text
    #[arg(short = 'u', long, value_enum)]
    time_unit: Option<Unit>,
    #[command(flatten)]
    refusals: Refusals,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
    Csv,
    Quiet,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Version {
    #[value(name = "1.1")]
    Http11,
    #[value(name = "1.0")]
    Http10,
}

impl Oha {
    pub(crate) fn run(mut self) -> u8 {
        let waited = self.wait();
        let words = match self.translate() {
            Ok(words) => words,
            Err(refusal) => return print_error(&refusal, 2),
        };
        let measurement = match run_load(&words, Keep::Requests) {
            Ok((_, measurement)) => measurement,
            Err(code) => return code,
        };
        let (Some(target), Some(counted)) =
            (measurement.report.targets.first(), measurement.outcome.targets.first())
        else {
            return 1;
        };
        let mut particular: Vec<String> = waited.into_iter().collect();
        particular.extend(self.remarks(&measurement, target));
        let aborted = if self.waits { 0 } else { counted.in_flight };
        let format = if self.json { Format::Json } else { self.output_format };
        let page = match format {
            Format::Quiet => String::new(),
            Format::Csv => csv(&measurement),
            Format::Json => json(&measurement, aborted, &remarks(&measurement.report, &particular)),
            Format::Text => {
                let notes = notes(&measurement.report, &particular);
                [text(&measurement, self.time_unit, aborted), notes].concat()
            }
        };
        if let Some(file) = &self.output {
            if let Err(error) = fs::write(file, page) {
                return print_error(&format!("{} cannot be written: {error}", file.display()), 1);
            }
            return finish("", &measurement);
        }
        finish(&page, &measurement)
    }

    /// At a rate, waiting for what is under way at the end is a number of requests; the sentence says so.
    fn wait(&mut self) -> Option<String> {
        let rate = units::count(self.rate.as_deref().filter(|_| self.waits)?).ok()?;
        let duration_ns = units::duration_ns(self.alike.duration.as_deref()?).ok()?;
        let requests = u128::from(rate) * u128::from(duration_ns) / 1_000_000_000;
        self.alike.duration = None;
        self.alike.requests = Some(requests.to_string());
        Some(format!("-w: {requests} requests were sent, and each waited for"))
    }

    fn translate(&self) -> Result<Vec<String>, String> {
        self.refusals.check()?;
        let mut more = Vec::new();
        more.extend(self.rate.iter().map(|rate| format!("--rate={rate}")));
        if let Some(threads) = self.worker_threads {
            more.push(format!("--threads={}", threads.min(self.alike.connections)));
        }
        if self.http_version == Some(Version::Http10) {
            more.push("--http1.0".to_owned());
        }
        if self.insecure && self.alike.url.is_secure() {
            more.push("--insecure".to_owned());
        }
        let path = |flag: &str, path: &PathBuf| format!("{flag}={}", path.display());
        more.extend(self.cacert.iter().map(|file| path("--cacert", file)));
        more.extend(self.unix_socket.iter().map(|socket| path("--unix-socket", socket)));
        more.extend(self.connect_to.iter().map(|connect_to| format!("--connect-to={connect_to}")));
        self.alike.translate(&HABITS, &more)
    }

    fn remarks(&self, measurement: &Measurement, target: &TargetReport) -> Vec<String> {
        let mut found: Vec<String> = self.alike.remark().into_iter().collect();
        if target.rate_rps_offered.is_some() {
            let sent = target.service_ns.map(|service| Unit::Ms.show(float(service.p99)));
            let sent = sent.map(|p99| format!("; from their sending on, p99 is {p99}"));
            found.push(format!(
                "latencies count from when a request was due, as with --latency-correction{}",
                sent.unwrap_or_default()
            ));
        }
        let under_way = measurement.outcome.targets.first().map_or(0, |target| target.in_flight);
        if under_way > 0 && self.waits {
            found.push(format!(
                "-w: {under_way} were under way when the time was over, and were not waited for; in the \
                 percentiles they count with the time until then"
            ));
        }
        found.extend(answers::remarks(measurement, target));
        found.push("the first byte of an answer is not timed apart".to_owned());
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn oha(words: &str) -> Result<(Vec<String>, Option<String>), String> {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            oha: Oha,
        }
        let words = ["oha"].into_iter().chain(words.split(' '));
        let line = <Line as clap::Parser>::try_parse_from(words).map_err(|bad| bad.to_string())?;
        let mut oha = line.oha;
        let waited = oha.wait();
        Ok((oha.translate()?, waited))
    }

    #[test]
    fn its_flags_become_ours() {
        let (ours, _) =
            oha("--no-tui -n 10k -c 5 -q 100 --latency-correction -r 0 -p 1 -m POST -d x --connect-to a:1:b:2 --unix-socket /s -t 5s http://127.0.0.1:1/")
                .expect("fine");
        for word in [
            "--requests=10k",
            "--connections=5",
            "--rate=100",
            "--body=x",
            "--timeout=5s",
            "--connect-to=a:1:b:2",
            "--unix-socket=/s",
            "--header=Accept: */*",
        ] {
            assert!(ours.iter().any(|ours| ours == word), "{word} is not in {ours:?}");
        }
        let (ours, _) = oha("-z 2s --disable-keepalive http://127.0.0.1:1/").expect("fine");
        assert!(ours.contains(&"--duration=2s".to_owned()), "{ours:?}");
        assert!(ours.contains(&format!("--timeout={ENDLESS}")), "{ours:?}");
        assert!(ours.contains(&"--no-keepalive".to_owned()), "{ours:?}");
    }

    #[test]
    fn waiting_for_the_last_is_a_number_of_requests_where_there_is_a_rate() {
        let (ours, waited) = oha("-z 2s -q 100 -w http://127.0.0.1:1/").expect("fine");
        assert!(ours.contains(&"--requests=200".to_owned()), "{ours:?}");
        assert!(!ours.iter().any(|word| word.starts_with("--duration")), "{ours:?}");
        assert!(waited.is_some_and(|sentence| sentence.contains("200 requests")));
        let (ours, waited) = oha("-z 2s -w http://127.0.0.1:1/").expect("fine");
        assert!(ours.contains(&"--duration=2s".to_owned()), "{ours:?}");
        assert_eq!(waited, None);
    }

    #[test]
    fn what_cannot_be_done_is_refused_in_a_sentence() {
        for (words, sentence) in [
            ("--http2 http://127.0.0.1:1/", "--http2: HTTP/1.1 is all"),
            ("-p 2 http://127.0.0.1:1/", "HTTP/1.1 is all"),
            ("-r 3 http://127.0.0.1:1/", "redirects are not followed"),
            ("-x http://p http://127.0.0.1:1/", "-x: no proxies"),
            ("--burst-rate 3 http://127.0.0.1:1/", "--burst-rate: there are no bursts"),
            ("--http-version 2 http://127.0.0.1:1/", "1.1"),
        ] {
            let refusal = oha(words).expect_err(words);
            assert!(refusal.contains(sentence), "{refusal}");
        }
    }
}
