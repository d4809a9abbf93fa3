//! `jissoku load`: the load generator.

mod arrival;
mod connect;
pub(crate) mod from;
pub(crate) mod help_groups;
mod judge;
pub(crate) mod measure;
mod output;
mod output_options;
mod plan;
pub(crate) mod progress;
pub(crate) mod returned;
mod runs;
mod search;
mod self_test;
mod series;
mod timeseries;
mod tls;
mod url_file;

use std::fs;
use std::mem;
use std::path::PathBuf;

use jissoku_load::report::Format;
use jissoku_load::{
    Address, ClockSource, Driver, Idle, MessageType, OnBusy, Order, Rate, Slo, Think, Verify,
};

use crate::units;
use crate::usage::print_error;
use arrival::ArrivalChoice;
use connect::ConnectArgs;
use judge::Criteria;
use output::Output;
use output_options::OutputOptions;
use search::Search;
use series::SeriesArgs;
use timeseries::Intervals;
use tls::TlsArgs;
use url_file::UrlFile;

/// Stands for the floor's URL in the plan of a self-test.
const PLACEHOLDER_URL: &str = "http://127.0.0.1/";

/// The limit of connections follows from other options.
const ON_BUSY: [(&str, OnBusy); 3] = [
    ("queue", OnBusy::Queue),
    ("open", OnBusy::Open { connections_max: 0 }),
    ("drop", OnBusy::Drop),
];
const MESSAGE_TYPES: [(&str, MessageType); 2] =
    [("text", MessageType::Text), ("binary", MessageType::Binary)];
const DRIVERS: [(&str, Driver); 3] =
    [("auto", Driver::Epoll), ("epoll", Driver::Epoll), ("uring", Driver::Uring)];
const IDLE: [(&str, Idle); 3] =
    [("block", Idle::Block), ("spin", Idle::Spin), ("hybrid", Idle::Hybrid)];
const CLOCKS: [(&str, ClockSource); 3] =
    [("tsc", ClockSource::Best), ("monotonic", ClockSource::Kernel), ("batch", ClockSource::Batch)];
const VERIFY: [(&str, Verify); 3] =
    [("none", Verify::None), ("length", Verify::Length), ("all", Verify::All)];

/// Duration of each step of --search, unless -d is given.
const SEARCH_STEP_NS: u64 = 3_000_000_000;

/// Sends requests, verifies every response, and measures times
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub(crate) struct Load {
    /// `http(s)://HOST:PORT/PATH` or `unix:/PATH.sock:/URI`; several targets are loaded
    /// concurrently. In URL, fields and body, {SEQ} is the number of the request and {RAND} a random
    /// number, in 10 digits; {SEQ:4} in 4
    #[arg(value_name = "URL", required_unless_present_any = ["self_test", "url_file"])]
    urls: Vec<Address>,
    /// Command line of wrk, wrk2, ab, hey, oha, bombardier or k6 run, in quotes: prints the equal one
    /// of jissoku load and what differs, and runs it
    #[arg(long, value_name = "COMMAND")]
    from: Option<String>,
    /// Open connections for each URL; several numbers are measured one after the other
    #[arg(short, long, value_name = "N,...", value_delimiter = ',', default_value = "64")]
    connections: Vec<usize>,
    /// Worker threads; auto is one for each of --cores, or half the available cores
    #[arg(short, long, value_name = "N|auto", value_parser = units::threads, default_value = "1")]
    threads: Threads,
    /// Length of the measurement window, such as 300ms, 10s or 1m30s [default: 10s]
    #[arg(short, visible_short_alias = 'z', long, value_parser = units::duration_ns, allow_hyphen_values = true)]
    duration: Option<u64>,
    /// Total number of requests for each URL [default: unlimited]
    #[arg(short = 'n', long, value_parser = units::count, allow_hyphen_values = true)]
    requests: Option<u64>,
    /// Requests per second for each URL (open loop), such as 20k, 0.2 or 30/m, or A:B to change
    /// linearly from A to B [default: closed loop]
    #[arg(short = 'R', long, value_parser = units::rates, allow_hyphen_values = true)]
    rate: Option<(Rate, Rate)>,
    /// Arrival process of the open loop: evenly spaced, Poisson, or from a file without -R: one
    /// time per line, in seconds since the start
    #[arg(long, value_name = "constant|poisson|trace:FILE", value_parser = arrival::arrival,
          default_value = "constant")]
    arrival: ArrivalChoice,
    /// What happens to a due request while all connections are busy
    #[arg(long, value_parser = units::word(ON_BUSY), default_value = "queue")]
    on_busy: OnBusy,
    /// Limit of connections for each URL with --on-busy open [default: 10 times -c]
    #[arg(long, value_name = "N")]
    max_connections: Option<usize>,
    /// Drop a due request that has waited this long for a connection [default: never]
    #[arg(long, value_parser = units::duration_ns)]
    deadline: Option<u64>,
    /// Load before the window, not counted [default: 300ms with -d, none with -n]
    #[arg(long, value_parser = units::duration_ns)]
    warmup: Option<u64>,
    #[command(flatten)]
    slices: SliceArgs,
    /// Request method
    #[arg(short, long, default_value = "GET")]
    method: String,
    /// Header field 'Name: value'; may be repeated
    #[arg(short = 'H', long = "header", value_name = "FIELD", value_parser = field)]
    headers: Vec<(String, String)>,
    /// Request body, or @FILE [default: none; 32 bytes with --websocket]
    #[arg(short, long, value_parser = text_or_file)]
    body: Option<Bytes>,
    /// Files with complete requests, sent cyclically on each connection; {PATH} and {HOST} are the
    /// URL's
    #[arg(long, value_name = "FILE,...", value_delimiter = ',',
          conflicts_with_all = ["method", "headers", "body", "http_1_0"])]
    raw: Vec<PathBuf>,
    /// File with a request per line: URL, or METHOD URL [BODY|@FILE]. Each request of a run is the
    /// next line; -c and -R count for each server in the file
    #[arg(long = "urls", value_name = "FILE", value_parser = url_file::read,
          conflicts_with_all = ["urls", "raw", "websocket"])]
    url_file: Option<UrlFile>,
    /// Send the requests of --urls in the order of the file, or draw each at random, from --seed
    #[arg(long, value_parser = units::word([("file", Order::Shared), ("random", Order::Random)]),
          default_value = "file", requires = "url_file")]
    order: Order,
    /// Make each connection a WebSocket, and send -b as a text or binary message in place of each
    /// request; the server is expected to send it back [default type: text]
    #[arg(long, value_parser = units::word(MESSAGE_TYPES), value_name = "TYPE", num_args = 0..=1,
          require_equals = true, default_missing_value = "text",
          conflicts_with_all = ["method", "raw", "http_1_0", "expect_status"])]
    websocket: Option<MessageType>,
    /// Requests in flight on one connection
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    pipeline: u16,
    /// Requests per connection, which is then replaced [default: unlimited]
    #[arg(short = 'r', long, value_name = "N", conflicts_with = "no_keepalive")]
    requests_per_conn: Option<u32>,
    /// Delay before the next request (closed loop): 5ms, or exponential: exp:5ms [default: none]
    #[arg(long, value_name = "TIME", value_parser = units::think)]
    think: Option<Think>,
    /// Spread the first requests of all connections over this time (closed loop)
    #[arg(long, value_name = "TIME", value_parser = units::duration_ns, default_value = "0")]
    ramp_up: u64,
    /// Send HTTP/1.0 requests [default: HTTP/1.1]
    #[arg(long = "http1.0")]
    http_1_0: bool,
    /// Use a connection for one request only
    #[arg(long, visible_alias = "disable-keepalive")]
    no_keepalive: bool,
    #[command(flatten)]
    connect: ConnectArgs,
    #[command(flatten)]
    tls: TlsArgs,
    #[command(flatten)]
    series: SeriesArgs,
    /// Timeout of a request
    #[arg(long, value_parser = units::duration_ns, default_value = "2s")]
    timeout: u64,
    /// Service level objective, such as 'p99<5ms,errors<0.1%': exit with 3 if it is violated
    #[arg(long, value_name = "OBJECTIVE")]
    slo: Option<Slo>,
    /// Find the highest rate that meets an objective, starting from -R [default: 1000], each step
    /// for -d [default: 3s]
    #[arg(long, value_name = "OBJECTIVE", value_parser = slo, conflicts_with_all = ["slo", "requests", "format", "hdr", "hlog", "timeseries", "raw_log", "events", "strict", "output", "latency", "histogram", "repeat", "sweep"])]
    search: Option<String>,
    /// Factor by which --search raises the rate while the objective is met [default: geom:2]
    #[arg(long, value_name = "geom:FACTOR", value_parser = search::step, requires = "search")]
    step: Option<u64>,
    /// First measure the load generator itself for a second, against the floor, on another core if
    /// there is one; without a URL, only that
    #[arg(long, conflicts_with = "search")]
    self_test: bool,
    /// Exit with 4 if a self-check fails
    #[arg(long)]
    strict: bool,
    /// human, json, csv, openmetrics, benchstat, github or quiet, to stdout or to =FILE; may be
    /// repeated [default: human]
    #[arg(long, value_name = "FORMAT[=FILE]", value_parser = output::output)]
    format: Vec<Output>,
    /// Write to this file what would go to stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print all percentiles below the report
    #[arg(short = 'L', long)]
    latency: bool,
    /// Print a histogram of latencies below the report
    #[arg(long)]
    histogram: bool,
    #[arg(short = 'q', hide = true, num_args = 0..=1, default_missing_value = "", value_parser = no_q)]
    q: Option<String>,
    /// Print one JSON object, as --format json
    #[arg(long)]
    json: bool,
    /// Write latencies as the percentile text of the `HdrHistogram` plotter
    #[arg(long, value_name = "FILE")]
    hdr: Option<PathBuf>,
    /// Write latencies per second as an `HdrHistogram` interval log
    #[arg(long, value_name = "FILE")]
    hlog: Option<PathBuf>,
    /// Write a line per interval of the window, as JSON, or as CSV to a FILE.csv [default interval:
    /// 1s]
    #[arg(long, value_name = "FILE[:INTERVAL]", value_parser = timeseries::intervals)]
    timeseries: Option<Intervals>,
    /// Write a line of CSV per request: due, sent and done times, status, outcome
    #[arg(long, value_name = "FILE")]
    raw_log: Option<PathBuf>,
    /// Seed of all random choices, such as the order of targets in each round [default: from the
    /// clock]
    #[arg(long)]
    seed: Option<u64>,
    /// Cores of the worker threads, such as 1 or 0,2-3 [default: any]
    #[arg(long, visible_alias = "cpus", value_name = "LIST", value_parser = units::cores)]
    cores: Option<CoreList>,
    /// Kernel interface of the event loop; auto is epoll
    #[arg(long, value_parser = units::word(DRIVERS), default_value = "auto")]
    driver: Driver,
    /// What workers do between events [default: spin with -R and several URLs, else block]
    #[arg(long, value_parser = units::word(IDLE))]
    idle: Option<Idle>,
    /// Clock: tsc is the CPU's counter if it is reliable, else the kernel's; batch reads it once
    /// per wait
    #[arg(long, value_parser = units::word(CLOCKS), default_value = "tsc")]
    clock: ClockSource,
    /// Process whose session's CPU time is measured; one for each URL, in their order
    #[arg(long, value_name = "PID")]
    watch: Vec<i32>,
    /// How bodies are verified [default: length, or all with --expect-body or --websocket]
    #[arg(long, value_parser = units::word(VERIFY))]
    verify: Option<Verify>,
    /// Accepted statuses, separated by commas [default: 200 to 399]
    #[arg(long, value_name = "STATUS", value_delimiter = ',')]
    expect_status: Vec<u16>,
    /// Expected size of bodies, in bytes [default: the first response's]
    #[arg(long, value_name = "SIZE", conflicts_with = "expect_body")]
    expect_len: Option<u64>,
    /// Expected body, or @FILE, or sha256:HEX [default: the first response's, or with --websocket
    /// the message]
    #[arg(long, value_name = "BODY", value_parser = text_or_file)]
    expect_body: Option<Bytes>,
    /// Report on stderr when the window opens and closes, with the time of the monotonic clock
    #[arg(long)]
    events: bool,
    /// Connect, print `armed` on stderr, and start at the time of the monotonic clock, in
    /// nanoseconds, that is a line of stdin: several load generators start together
    #[arg(long, conflicts_with_all = ["self_test", "search"])]
    armed: bool,
}

// Clap would treat a bare `Vec` as an argument that may be repeated.
type Bytes = Vec<u8>;
type CoreList = Vec<usize>;

// Likewise a bare `Option`, as an optional argument; `None` is auto here.
type Threads = Option<usize>;

impl Load {
    pub(crate) fn run(mut self) -> u8 {
        if let Some(file) = &self.url_file {
            self.urls = file.servers();
        }
        let ran = if self.urls.is_empty() { self.run_self_test() } else { self.run_plans() };
        ran.unwrap_or_else(|code| code)
    }

    /// Runs only the self-test. In `Ok` and `Err` is the process exit code; the error is already on
    /// stderr.
    fn run_self_test(mut self) -> Result<u8, u8> {
        if self.needs_url() {
            let refusal = "--self-test without a URL runs a closed loop for a second: -R, -n, -d and related \
                           options need a URL";
            return Err(print_error(refusal, 2));
        }
        self.urls.extend(PLACEHOLDER_URL.parse::<Address>());
        let options = self.output_options(false);
        let prepared = options.and_then(|options| Ok((options, self.plan()?)));
        let (options, plan) = prepared.map_err(|refusal| print_error(&refusal, 2))?;
        self_test::run_alone(&plan, &options)
    }

    /// Runs what is asked for. In `Ok` and `Err` is the process exit code; the error is already on
    /// stderr.
    fn run_plans(mut self) -> Result<u8, u8> {
        let (search, tests_itself, is_json) = (self.search(), self.self_test, self.json);
        let prepared = self.series.points(&self.connections).and_then(|points| {
            let output_options = self.output_options(!points.is_empty())?;
            Ok((points, output_options, self.plan()?))
        });
        let (points, mut output_options, plan) =
            prepared.map_err(|refusal| print_error(&refusal, 2))?;
        let signals = measure::catch_signals().map_err(|failure| failure.print("load"))?;
        if let Some(search) = search {
            return runs::run_search(search, plan, is_json, &signals);
        }
        output_options.self_test =
            tests_itself.then(|| self_test::run(&plan, &signals)).transpose()?;
        if points.is_empty() {
            runs::run_once(&plan, &output_options, &signals)
        } else {
            runs::run_series(&points, plan, &output_options, &signals)
        }
    }

    /// The search that is asked for; the plan is set up for its first step.
    fn search(&mut self) -> Option<Search> {
        let text = self.search.take()?;
        let slo = text.parse().ok()?;
        // A search takes whole numbers of requests per second.
        let first_rps = self.rate.map(|(from, _)| units::whole(from.rps().ceil()));
        self.rate.get_or_insert((Rate::per_second(1), Rate::per_second(1)));
        self.duration.get_or_insert(SEARCH_STEP_NS);
        Some(Search::new(slo, text, first_rps, self.step))
    }

    /// Whether an option is given that needs a URL.
    fn needs_url(&self) -> bool {
        let is_a_series = self.series.points(&self.connections).is_ok_and(|all| !all.is_empty());
        let has_limits = (self.rate, self.requests, self.duration) != (None, None, None);
        has_limits || is_a_series || self.slo.is_some() || self.writes_files()
    }

    fn writes_files(&self) -> bool {
        let files = [&self.hdr, &self.hlog, &self.raw_log];
        self.timeseries.is_some() || files.iter().any(|file| file.is_some())
    }

    /// Where and how results are written.
    fn output_options(&mut self, is_series: bool) -> Result<OutputOptions, String> {
        if is_series && (self.events || self.armed || self.writes_files()) {
            return Err(
                "--hdr, --hlog, --timeseries, --raw-log, --events and --armed require a single measurement"
                    .into(),
            );
        }
        let mut outputs = mem::take(&mut self.format);
        if self.json {
            outputs.push(Output::to_stdout(Format::Json));
        }
        if outputs.is_empty() {
            outputs.push(Output::to_stdout(Format::Human));
        }
        if let Some(file) = self.output.take() {
            output::redirect(&mut outputs, file)?;
        }
        Ok(OutputOptions {
            outputs,
            full_percentiles: self.latency,
            histogram: self.histogram,
            hlog: self.hlog.take(),
            events: self.events,
            armed: self.armed,
            criteria: Criteria { strict: self.strict, slo: self.slo.take() },
            self_test: None,
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
        Some(path) => fs::read(path).map_err(|error| format!("cannot read {path}: {error}")),
    }
}

/// It means different things in other tools.
fn no_q(_text: &str) -> Result<String, String> {
    Err("-q is a rate in one tool and quiet in another: use -R (total rate) or --format quiet"
        .into())
}

fn slo(text: &str) -> Result<String, String> {
    text.parse::<Slo>().map(|_| text.to_owned()).map_err(|bad| bad.to_string())
}

/// How several URLs are loaded one at a time.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct SliceArgs {
    /// Load the URLs one at a time, in time slices of about this length, in palindromic order (A B
    /// B A); a slice ends with its last response, and the window with a complete cycle (with -R, -t
    /// 1) [default: all at once]
    #[arg(long, value_name = "TIME", value_parser = units::duration_ns)]
    pub(super) slice: Option<u64>,
    /// With --slice: begin a slice each time this has passed since the start, whenever the one before
    /// it has ended [default: as soon as it has ended]
    #[arg(long, value_name = "TIME", value_parser = units::duration_ns)]
    pub(super) slot: Option<u64>,
    /// With --slice: send the first N requests of each slice without counting them [default: 0]
    #[arg(long, value_name = "N", value_parser = units::count, default_value = "0", hide_default_value = true)]
    pub(super) settle: u64,
    /// With --slice: open the window when each URL has been sent this many requests [default: 0]
    #[arg(long, value_name = "N", value_parser = units::count, default_value = "0", hide_default_value = true)]
    pub(super) warmup_requests: u64,
    /// Before the first request, measure the CPU usage of the --watch servers without load for this
    /// time [default: 0s]
    #[arg(long, value_name = "TIME", value_parser = units::duration_ns, default_value = "0", hide_default_value = true)]
    pub(super) idle_watch: u64,
}
