//! `jissoku hey`: the flags of hey, and the shape of its report.

use std::collections::BTreeMap;
use std::io::{self, Write as _};

use clap::ValueEnum;
use jissoku_load::report::TargetReport;
use jissoku_load::{Histogram, TargetOutcome};

use super::alike::{Alike, Habits};
use super::answers::{self, at, bar, bars, errors_by_kind, everyone, statuses};
use super::refusals::Refusals;
use super::spread::Spread;
use super::{Keep, finish, float, notes, run_load};
use crate::load::measure::Measurement;
use crate::load::print_error;
use crate::units;

const HABITS: Habits = Habits {
    method: str::to_ascii_uppercase,
    accept: None,
    encodings: "gzip",
    content_type: Some("text/html"),
    timeout: "20s",
    requests: "200",
};

/// Of these nothing follows; every other flag has a value.
const SWITCHES: [&str; 7] =
    ["h", "help", "h2", "more", "disable-compression", "disable-keepalive", "disable-redirects"];

/// Signs of the longest bar.
const BAR: u64 = 40;

/// Takes the flags of hey, with one dash or two, and reports in its shape.
#[derive(Debug, clap::Args)]
pub(crate) struct Hey {
    #[command(flatten)]
    alike: Alike,
    /// Requests per second for each of the connections
    #[arg(short = 'q', value_name = "RATE")]
    rate_each: Option<f64>,
    /// csv has a line for each answer
    #[arg(short = 'o', value_name = "FORMAT")]
    output: Option<Output>,
    /// Value of the field User-Agent
    #[arg(short = 'U', value_name = "NAME")]
    user_agent: Option<String>,
    /// Follow no redirects; none are followed anyway
    #[arg(long)]
    disable_redirects: bool,
    /// Threads at most
    #[arg(long, value_name = "N")]
    cpus: Option<usize>,
    #[command(flatten)]
    refusals: Refusals,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    Csv,
}

/// Go's flags as clap reads them: two dashes before a name, one before a letter, values behind a `=`.
pub(crate) fn spelled(words: Vec<String>) -> Vec<String> {
    let mut spelled = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let bare = word.strip_prefix("--").or_else(|| word.strip_prefix('-')).unwrap_or_default();
        if bare.is_empty() {
            spelled.push(word);
            continue;
        }
        let (name, mut value) = match bare.split_once('=') {
            Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
            None => (bare.to_owned(), None),
        };
        if value.is_none() && !SWITCHES.contains(&name.as_str()) {
            value = words.next();
        }
        let dashes = if name.chars().count() == 1 { "-" } else { "--" };
        let value = value.map(|value| format!("={value}")).unwrap_or_default();
        spelled.push(format!("{dashes}{name}{value}"));
    }
    spelled
}

impl Hey {
    pub(crate) fn run(self) -> u8 {
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
        let notes = notes(&measurement.report, &self.remarks(&measurement, target));
        if self.output == Some(Output::Csv) {
            // There is nowhere left to say that stderr is closed.
            let _told = io::stderr().write_all(notes.as_bytes());
            return finish(&csv(&measurement), &measurement);
        }
        let page = [
            summary(&measurement, target),
            distributions(counted),
            ends(&measurement, target),
            notes,
        ];
        finish(&page.concat(), &measurement)
    }

    fn translate(&self) -> Result<Vec<String>, String> {
        self.refusals.check()?;
        let alike = &self.alike;
        let mut more = Vec::new();
        if let Some(rate) = self.rate()? {
            more.push(format!("--rate={rate}"));
        }
        let asked = alike.requests.as_deref().and_then(|text| units::count(text).ok());
        let requests = asked.unwrap_or(200);
        if alike.duration.is_none() && requests < alike.connections as u64 {
            let connections = alike.connections;
            return Err(format!("-n {requests} cannot be less than -c {connections}"));
        }
        if let Some(name) = &self.user_agent {
            more.push(format!("--header=User-Agent: {name}"));
        }
        if let Some(cpus) = self.cpus {
            more.push(format!("--threads={}", cpus.min(alike.connections)));
        }
        if alike.url.is_secure() {
            // hey believes every certificate.
            more.push("--insecure".to_owned());
        }
        alike.translate(&HABITS, &more)
    }

    /// All workers together.
    fn rate(&self) -> Result<Option<u64>, String> {
        let Some(each) = self.rate_each.filter(|each| *each != 0.0) else { return Ok(None) };
        let all = each * float(self.alike.connections as u64);
        let rounded = format!("{all:.0}");
        match rounded.parse::<u64>() {
            Ok(rate) if (float(rate) - all).abs() < 1e-6 => Ok(Some(rate)),
            _ => Err(format!(
                "-q {each} for each of {} connections is {all} requests per second, and a rate is a whole \
                 number here",
                self.alike.connections
            )),
        }
    }

    fn remarks(&self, measurement: &Measurement, target: &TargetReport) -> Vec<String> {
        let mut remarks = Vec::new();
        let connections = self.alike.connections;
        if let (Some(each), Some(all)) = (self.rate_each, target.rate_rps_offered) {
            remarks.push(format!(
                "-q {each} for each of {connections} is {all:.0} requests/s in all, on one schedule: latencies \
                 count from when a request was due"
            ));
        }
        let requests = self.alike.requests.as_deref().unwrap_or(HABITS.requests);
        let odd = units::count(requests).map_or(0, |count| count % connections.max(1) as u64);
        if self.alike.duration.is_none() && odd > 0 {
            remarks.push(format!("-n is exact here: hey leaves {odd} of them out"));
        }
        remarks.extend(self.alike.remark());
        remarks.extend(answers::remarks(measurement, target));
        remarks.push("writing, waiting and reading are not told apart here".to_owned());
        remarks
    }
}

fn summary(measurement: &Measurement, target: &TargetReport) -> String {
    let mut text =
        vec![format!("\nSummary:\n  Total:\t{:.4} secs\n", measurement.report.duration_s)];
    if let Some(known) = target.latency_ns {
        for (name, value) in
            [("Slowest", known.max), ("Fastest", known.min), ("Average", known.mean)]
        {
            text.push(format!("  {name}:\t{} secs\n", seconds(value)));
        }
    }
    text.push(format!("  Requests/sec:\t{:.4}\n  \n", target.rate_rps));
    if let Some(each) = target.bytes_received.checked_div(target.requests) {
        text.push(format!("  Total data:\t{} bytes\n", target.bytes_received));
        text.push(format!("  Size/request:\t{each} bytes\n"));
    }
    text.concat()
}

fn distributions(counted: &TargetOutcome) -> String {
    let mut text = vec!["\nResponse time histogram:\n".to_owned()];
    let bars = bars(&counted.counters.latency);
    let most = bars.iter().map(|(_, count)| *count).max().unwrap_or(0);
    for (end, count) in bars {
        text.push(format!("  {:.3} [{count}]\t|{}\n", end / 1e9, bar(count, most, BAR, most / 2)));
    }
    text.push("\n\nLatency distribution:\n".to_owned());
    let everyone = everyone(counted);
    for percent in [10, 25, 50, 75, 90, 95, 99].into_iter().filter(|_| everyone.count() > 0) {
        text.push(format!("  {percent}% in {} secs\n", seconds(at(&everyone, percent * 1_000))));
    }
    text.push("\nDetails (average, fastest, slowest):\n".to_owned());
    text.push(connecting(&counted.connect));
    text.concat()
}

/// Of connections. The parts of an exchange are not measured one by one.
fn connecting(connect: &Histogram) -> String {
    if connect.count() == 0 {
        return String::new();
    }
    let Spread { min, mean, max, .. } = Spread::of(connect.bins());
    let [mean, min, max] = [mean, min, max].map(|value_ns| value_ns / 1e9);
    format!("  DNS+dialup:\t{mean:.4} secs, {min:.4} secs, {max:.4} secs\n")
}

/// What requests came to.
fn ends(measurement: &Measurement, target: &TargetReport) -> String {
    let statuses: BTreeMap<u16, u64> = statuses(&measurement.outcome.records);
    let mut text = vec!["\nStatus code distribution:\n".to_owned()];
    text.extend(statuses.iter().map(|(code, count)| format!("  [{code}]\t{count} responses\n")));
    let errors = errors_by_kind(target);
    if !errors.is_empty() {
        text.push("\nError distribution:\n".to_owned());
        let url = &target.url;
        let rows = errors.iter().map(|(kind, count)| {
            let word = if *kind == "timeout" { "Client.Timeout exceeded" } else { *kind };
            format!("  [{count}]\tGet \"{url}\": {word}\n")
        });
        text.extend(rows);
    }
    text.push("\n\n\n".to_owned());
    text.concat()
}

/// A line for each answer; cells of what is not measured are empty.
fn csv(measurement: &Measurement) -> String {
    let mut records: Vec<_> =
        measurement.outcome.records.iter().filter(|record| record.status > 0).collect();
    records.sort_by_key(|record| record.done_ns);
    let mut text = vec![
        "response-time,DNS+dialup,DNS,Request-write,Response-delay,Response-read,status-code,offset\n"
            .to_owned(),
    ];
    text.extend(records.into_iter().map(|record| {
        let took = seconds(record.done_ns.saturating_sub(record.intended_ns));
        format!("{took},,,,,,{},{}\n", record.status, seconds(record.sent_ns))
    }));
    text.concat()
}

fn seconds(value_ns: u64) -> String {
    format!("{:.4}", float(value_ns) / 1e9)
}

#[cfg(test)]
mod tests {
    use super::super::alike::ENDLESS;
    use super::*;

    fn hey(words: &str) -> Result<Vec<String>, String> {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            hey: Hey,
        }
        let words = words.split(' ').map(str::to_owned).collect();
        let words = ["hey".to_owned()].into_iter().chain(spelled(words));
        let line = <Line as clap::Parser>::try_parse_from(words).map_err(|bad| bad.to_string())?;
        line.hey.translate()
    }

    #[test]
    fn its_flags_become_ours() {
        let ours = hey("-n 100 -c 5 -q 10 -m post -d=-x -a u:p http://127.0.0.1:1/").expect("fine");
        for word in [
            "--requests=100",
            "--connections=5",
            "--rate=50",
            "--method=POST",
            "--body=-x",
            "--timeout=20s",
            "--header=Authorization: Basic dTpw",
            "--header=Content-Type: text/html",
            "--header=Accept-Encoding: gzip",
        ] {
            assert!(ours.iter().any(|ours| ours == word), "{word} is not in {ours:?}");
        }
        let ours = hey("-z 3s --c 5 -disable-keepalive -disable-compression -host a -H accept-encoding:br -T a/b -t 0 -cpus 9 http://127.0.0.1:1/").expect("fine");
        for word in ["--duration=3s", "--warmup=0", "--no-keepalive", "--host=a", "--threads=5"] {
            assert!(ours.iter().any(|ours| ours == word), "{word} is not in {ours:?}");
        }
        assert!(!ours.iter().any(|word| word.starts_with("--requests") || word.contains("gzip")));
        assert!(ours.contains(&format!("--timeout={ENDLESS}")));
    }

    #[test]
    fn what_cannot_be_done_is_refused_in_a_sentence() {
        for (words, sentence) in [
            ("-h2 http://127.0.0.1:1/", "--h2: HTTP/1.1 is all"),
            ("-x a:1 http://127.0.0.1:1/", "-x: no proxies"),
            ("-n 4 -c 5 http://127.0.0.1:1/", "-n 4 cannot be less than -c 5"),
            ("-q 0.1 -c 3 http://127.0.0.1:1/", "a rate is a whole number"),
            ("-d @x http://127.0.0.1:1/", "-D FILE"),
            ("-nonsense 1 http://127.0.0.1:1/", "--nonsense"),
        ] {
            let refusal = hey(words).expect_err(words);
            assert!(refusal.contains(sentence), "{refusal}");
        }
    }

    #[test]
    fn distributions_have_the_lines_of_hey() {
        let mut counted = TargetOutcome::default();
        counted.counters.latency.record(1_000_000);
        counted.counters.latency.record_many(11_000_000, 9);
        let text = distributions(&counted);
        assert!(text.starts_with("\nResponse time histogram:\n  0.001 [1]\t|■■■■\n"), "{text}");
        assert!(text.contains(&format!("\n  0.011 [9]\t|{}\n", "■".repeat(40))), "{text}");
        assert!(text.contains("\nLatency distribution:\n  10% in 0.0010 secs\n"), "{text}");
        assert!(text.contains("\n  99% in 0.0110 secs\n"), "{text}");
    }
}
