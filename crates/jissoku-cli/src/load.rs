//! `jissoku load`: the stopwatch, alone.

mod arrival;
mod connect;
pub(crate) mod errand;
mod output;
mod plan;
mod progress;
mod search;
mod self_test;
mod series;
mod timeseries;
mod tls;
mod wishes;

use std::fs;
use std::io::{self, Write as _};
use std::mem;
use std::path::PathBuf;

use clap::ValueEnum;
use jissoku_load::report::Format;
use jissoku_load::{Address, Objective, Think};

use crate::units;
use arrival::ArrivalChoice;
use connect::ConnectFlags;
use errand::Curiosity;
use output::Output;
use search::Search;
use series::SeriesFlags;
use timeseries::Intervals;
use tls::TlsFlags;
use wishes::Wishes;

/// How long each rate is tried, unless -d says so.
const SEARCH_STEP_NS: u64 = 3_000_000_000;

/// Asks servers, checks every answer, and measures time.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub(crate) struct Load {
    /// `http(s)://HOST:PORT/PATH` or `unix:/PATH.sock:/URI`; several are driven side by side, as a duet
    #[arg(value_name = "URL", required_unless_present = "self_test")]
    urls: Vec<Address>,
    /// Open connections for each URL; several numbers are measured one after the other
    #[arg(short, long, value_name = "N,...", value_delimiter = ',', default_value = "64")]
    connections: Vec<usize>,
    /// Threads of the stopwatch; auto is one for each of --cores, or for every second core there is
    #[arg(short, long, value_name = "N|auto", value_parser = units::threads, default_value = "1")]
    threads: Threads,
    /// Length of the measurement [default: 10s]
    #[arg(short, visible_short_alias = 'z', long, value_parser = units::duration_ns, allow_hyphen_values = true)]
    duration: Option<u64>,
    /// Number of requests for each URL, exactly
    #[arg(short = 'n', long, value_parser = units::count, allow_hyphen_values = true)]
    requests: Option<u64>,
    /// Requests per second for each URL (open loop), or A:B from A to B; without it, closed loop
    #[arg(short = 'R', long, value_parser = units::rates, allow_hyphen_values = true)]
    rate: Option<(u64, u64)>,
    /// How the requests of the open loop lie in time: evenly, as from many users, or as a file says without
    /// -R: a line for each request, in seconds since the start
    #[arg(long, value_name = "constant|poisson|trace:FILE", value_parser = arrival::arrival,
          default_value = "constant")]
    arrival: ArrivalChoice,
    /// What becomes of a due request while every connection is busy
    #[arg(long, value_enum, default_value_t = BusyChoice::Queue)]
    on_busy: BusyChoice,
    /// Connections for each URL that --on-busy open may come to [default: 10 times -c]
    #[arg(long, value_name = "N")]
    max_connections: Option<usize>,
    /// Give up a due request that has waited so long for a connection
    #[arg(long, value_parser = units::duration_ns)]
    deadline: Option<u64>,
    /// Load before the measurement, not counted [default: 300ms with -d, none with -n]
    #[arg(long, value_parser = units::duration_ns)]
    warmup: Option<u64>,
    /// Request method
    #[arg(short, long, default_value = "GET")]
    method: String,
    /// Header field 'Name: value'; may be given several times
    #[arg(short = 'H', long = "header", value_name = "FIELD", value_parser = field)]
    headers: Vec<(String, String)>,
    /// Request body, or @FILE
    #[arg(short, long, value_parser = text_or_file)]
    body: Option<Bytes>,
    /// Files of whole requests, sent in rotation on each connection; {PATH} and {HOST} are the URL's
    #[arg(long, value_name = "FILE,...", value_delimiter = ',',
          conflicts_with_all = ["method", "headers", "body", "http_1_0"])]
    raw: Vec<PathBuf>,
    /// Requests in flight on one connection
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    pipeline: u16,
    /// Requests on one connection; then another takes its place
    #[arg(short = 'r', long, value_name = "N", conflicts_with = "no_keepalive")]
    requests_per_conn: Option<u32>,
    /// Wait between an answer and the next request (closed loop): always as long, or exp:5ms on average
    #[arg(long, value_name = "TIME", value_parser = units::think)]
    think: Option<Think>,
    /// Spread the first requests of all connections over so long (closed loop)
    #[arg(long, value_name = "TIME", value_parser = units::duration_ns, default_value = "0")]
    ramp_up: u64,
    /// Ask in HTTP/1.0
    #[arg(long = "http1.0")]
    http_1_0: bool,
    /// One connection for each request
    #[arg(long, visible_alias = "disable-keepalive")]
    no_keepalive: bool,
    #[command(flatten)]
    connect: ConnectFlags,
    #[command(flatten)]
    tls: TlsFlags,
    #[command(flatten)]
    series: SeriesFlags,
    /// After so long without its whole answer, a request has failed
    #[arg(long, value_parser = units::duration_ns, default_value = "2s")]
    timeout: u64,
    /// What is expected, such as 'p99<5ms,errors<0.1%': exit with 3 if it is broken
    #[arg(long, value_name = "OBJECTIVE")]
    slo: Option<Objective>,
    /// Look for the highest rate that meets an objective, from -R on, trying each for -d [default: 3s]
    #[arg(long, value_name = "OBJECTIVE", value_parser = objective, conflicts_with_all = ["slo", "requests", "format", "hdr", "hlog", "timeseries", "raw_log", "events", "strict", "output", "latency", "repeat", "sweep"])]
    search: Option<String>,
    /// By how much --search raises the rate as long as the objective is met [default: geom:2]
    #[arg(long, value_name = "geom:FACTOR", value_parser = search::step, requires = "search")]
    step: Option<u64>,
    /// First measure for a second what the stopwatch itself reaches, against the floor on a core of its own if
    /// there is one; without a URL, only that
    #[arg(long, conflicts_with = "search")]
    self_test: bool,
    /// Exit with 4 if a self-check fails
    #[arg(long)]
    strict: bool,
    /// human, json, csv, openmetrics, benchstat, github or quiet, to stdout or to =FILE; several may be given
    #[arg(long, value_name = "FORMAT[=FILE]", value_parser = output::output)]
    format: Vec<Output>,
    /// Write to this file what would go to stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print the full spectrum of latencies below the report for people
    #[arg(short = 'L', long)]
    latency: bool,
    #[arg(short = 'q', hide = true, num_args = 0..=1, default_missing_value = "", value_parser = no_q)]
    q: Option<String>,
    /// Write one JSON object, as --format json
    #[arg(long)]
    json: bool,
    /// Write the latencies as the percentile text of the `HdrHistogram` plotter
    #[arg(long, value_name = "FILE")]
    hdr: Option<PathBuf>,
    /// Write the latencies of each second as an interval log of `HdrHistogram`
    #[arg(long, value_name = "FILE")]
    hlog: Option<PathBuf>,
    /// Write a line of JSON for each interval of the window, or of CSV to a FILE.csv [default: 1s]
    #[arg(long, value_name = "FILE[:INTERVAL]", value_parser = timeseries::intervals)]
    timeseries: Option<Intervals>,
    /// Write every request as a line of CSV: when it was to be sent, was sent, was answered, and how
    #[arg(long, value_name = "FILE")]
    raw_log: Option<PathBuf>,
    /// Decides whose turn comes first in each round of a duet [default: from the clock]
    #[arg(long)]
    seed: Option<u64>,
    /// Cores for the threads, such as 1 or 0,2-3
    #[arg(long, visible_alias = "cpus", value_name = "LIST", value_parser = units::cores)]
    cores: Option<CoreList>,
    /// How threads learn what has come; auto is epoll
    #[arg(long, value_enum, default_value_t = DriverChoice::Auto)]
    driver: DriverChoice,
    /// What to do between events [default: spin in a paced duet, else block]
    #[arg(long, value_enum)]
    idle: Option<IdleChoice>,
    /// The clock: tsc is the processor's where it can be trusted; batch reads it once for all that came at once
    #[arg(long, value_enum, default_value_t = ClockChoice::Tsc)]
    clock: ClockChoice,
    /// Process whose session's CPU time is measured along; one for each URL, in their order
    #[arg(long, value_name = "PID")]
    watch: Vec<i32>,
    /// How closely bodies are looked at [default: length, or all with --expect-body]
    #[arg(long, value_enum)]
    verify: Option<VerifyChoice>,
    /// Right statuses, separated by commas [default: 200 to 399]
    #[arg(long, value_name = "STATUS", value_delimiter = ',')]
    expect_status: Vec<u16>,
    /// The right length of a body [default: the first answer's]
    #[arg(long, value_name = "SIZE", conflicts_with = "expect_body")]
    expect_len: Option<u64>,
    /// The right body, or @FILE, or sha256:HEX [default: the first answer's]
    #[arg(long, value_name = "BODY", value_parser = text_or_file)]
    expect_body: Option<Bytes>,
    /// Tell on stderr when the measurement's window opens and closes
    #[arg(long)]
    events: bool,
}

// Clap would take a bare `Vec` for an argument that may be given several times.
type Bytes = Vec<u8>;
type CoreList = Vec<usize>;

// The same goes for an `Option`, and an argument that may be left out; this one says auto.
type Threads = Option<usize>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DriverChoice {
    Auto,
    Epoll,
    Uring,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum IdleChoice {
    Block,
    Spin,
    Hybrid,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ClockChoice {
    Tsc,
    Monotonic,
    Batch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SwitchChoice {
    On,
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum BusyChoice {
    Queue,
    Open,
    Drop,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum VerifyChoice {
    None,
    Length,
    All,
}

impl Load {
    pub(crate) fn run(mut self) -> u8 {
        if self.urls.is_empty() {
            return self_test::alone(self);
        }
        let (search, tests_itself) = (self.search(), self.self_test);
        let prepared = self.series.points(&self.connections).and_then(|points| {
            let wishes = self.wishes(!points.is_empty())?;
            Ok((points, wishes, self.plan()?))
        });
        let (points, mut wishes, plan) = match prepared {
            Ok(prepared) => prepared,
            Err(refusal) => return complain(&refusal, 2),
        };
        let signals = match errand::catch() {
            Ok(signals) => signals,
            Err(code) => return code,
        };
        if let Some(search) = search {
            return search.run(plan, &signals);
        }
        let ceiling = tests_itself.then(|| self_test::run(&plan, &signals)).transpose();
        let ceiling = match ceiling {
            Ok(ceiling) => ceiling,
            Err(code) => return code,
        };
        wishes.ceiling = ceiling;
        if !points.is_empty() {
            return series::run(&points, plan, &wishes, &signals);
        }
        let curiosity = Curiosity {
            events: wishes.events,
            rows: wishes.timeseries.as_ref().map(|asked| (asked.length_ns, asked.layout)),
            log: wishes.hlog.is_some(),
        };
        let mut find = match errand::carry_out(&plan, &signals, curiosity) {
            Ok(find) => find,
            Err(code) => return code,
        };
        wishes.complete(&mut find.report);
        if let Err(refusal) = wishes.write(&find) {
            return complain(&format!("the report cannot be written: {refusal}"), 1);
        }
        if find.outcome.interrupted {
            return 130;
        }
        wishes.judge(&find.report)
    }

    /// What is to be looked for; the plan is one for its first step.
    fn search(&mut self) -> Option<Search> {
        let text = self.search.take()?;
        let objective = text.parse().ok()?;
        let first_rps = self.rate.map(|(from_rps, _)| from_rps);
        self.rate.get_or_insert((1, 1));
        self.duration.get_or_insert(SEARCH_STEP_NS);
        let step_percent = self.step.unwrap_or(search::STEP_PERCENT);
        Some(Search { objective, text, first_rps, step_percent, json: self.json })
    }

    /// Whether there is a flag that needs a server to go with it.
    fn asks_for_a_measurement(&self) -> bool {
        let is_a_series = self.series.points(&self.connections).is_ok_and(|all| !all.is_empty());
        let has_limits = (self.rate, self.requests, self.duration) != (None, None, None);
        has_limits || is_a_series || self.slo.is_some() || self.wants_files()
    }

    fn wants_files(&self) -> bool {
        let files = [&self.hdr, &self.hlog, &self.raw_log];
        self.timeseries.is_some() || files.iter().any(|file| file.is_some())
    }

    /// What is to be done with the outcome.
    fn wishes(&mut self, is_series: bool) -> Result<Wishes, String> {
        if is_series && (self.events || self.wants_files()) {
            return Err(
                "--hdr, --hlog, --timeseries, --raw-log and --events go with one measurement"
                    .into(),
            );
        }
        let mut outputs = mem::take(&mut self.format);
        if self.json {
            outputs.push(Output::plain(Format::Json));
        }
        if outputs.is_empty() {
            outputs.push(Output::plain(Format::Human));
        }
        if let Some(file) = self.output.take() {
            output::redirect(&mut outputs, file)?;
        }
        Ok(Wishes {
            outputs,
            spectrum: self.latency,
            hlog: self.hlog.take(),
            events: self.events,
            strict: self.strict,
            objective: self.slo.take(),
            ceiling: None,
            hdr: self.hdr.take(),
            raw_log: self.raw_log.clone(),
            timeseries: self.timeseries.take(),
        })
    }
}

fn field(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("write it as 'Name: value'")?;
    Ok((name.to_owned(), value.trim().to_owned()))
}

fn text_or_file(text: &str) -> Result<Bytes, String> {
    match text.strip_prefix('@') {
        None => Ok(text.as_bytes().to_vec()),
        Some(path) => fs::read(path).map_err(|error| format!("{path} cannot be read: {error}")),
    }
}

/// Other tools mean other things by it, so nobody gets one of them unawares.
fn no_q(_text: &str) -> Result<String, String> {
    Err("it is a rate in one tool and silence in another: use -R (total rate) or --format quiet"
        .into())
}

#[expect(clippy::cast_precision_loss, reason = "rates and counts stay below 2^53")]
fn float(value: u64) -> f64 {
    value as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "what is rounded here is positive, and the cast keeps to the largest number"
)]
fn whole(value: f64) -> u64 {
    value.round() as u64
}

fn objective(text: &str) -> Result<String, String> {
    text.parse::<Objective>().map(|_| text.to_owned()).map_err(|bad| bad.to_string())
}

pub(crate) fn complain(sentence: &str, code: u8) -> u8 {
    // There is nowhere left to say that stderr is closed.
    let _written = writeln!(io::stderr(), "jissoku load: {sentence}");
    code
}
