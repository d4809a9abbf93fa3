//! The options of other load generators, and what stands for them here.

use super::tool::Meaning::{
    Copy, Count, Field, File, Flag, Ignored, IgnoredValue, No, Upload, Value,
};
use super::tool::{Default, Style, Tool};

const RATE: &str = "it limits the rate of each worker: write the total rate as jissoku load -R";
const TEXT: &str = "the report differs: see jissoku load --format, --hdr and --raw-log";
const PROXY: &str = "proxies are not supported; --connect-to sends requests elsewhere";
const HTTP_2: &str = "only HTTP/1.1 is supported";
const CLIENT_CERTIFICATE: &str = "client certificates are not supported";
const PASSWORD: &str = "write the header field: -H 'Authorization: ...'";
const STREAMED: &str = "streamed bodies are not supported";

const ERROR_STATUS: &str = "a response with a status of 400 or more is an error, and in no rate";
const NO_REDIRECTS: &str = "redirects are responses, and are not followed";
const AGENT: &str = "the fields User-Agent and Accept are not sent by default: add -H";
const FIELDS: &str =
    "the fields User-Agent, Accept-Encoding and Content-Type are not sent by default: add -H";

pub(super) const TOOLS: [Tool; 6] = [WRK, AB, HEY, OHA, BOMBARDIER, K6];

const WRK: Tool = Tool {
    names: &["wrk", "wrk2"],
    style: Style::Clustered,
    options: &[
        ("-c --connections", Count("-c")),
        ("-t --threads", Count("-t")),
        ("-d --duration", Copy("-d")),
        ("-R --rate", Copy("-R")),
        ("-H --header", Copy("-H")),
        ("-T --timeout", Copy("--timeout")),
        ("-L --latency", Ignored),
        ("-U --u_latency", Ignored),
        ("-B --batch_latency", Ignored),
        ("-s --script", No("Lua scripts are not supported; see jissoku load --raw and --urls")),
        ("-v --version", No("there is nothing to measure")),
    ],
    defaults: &[
        Default::new("-c", "10"),
        Default::new("-t", "2"),
        Default::new("-d", "10s"),
        Default::new("--timeout", "2s"),
        Default::new("--warmup", "0"),
        Default::new("--verify", "none"),
    ],
    trusts_all: true,
    duration_wins: false,
    differs: &[
        ERROR_STATUS,
        "percentiles include requests without a correct response, with the time that they waited",
        "no latency is corrected afterwards; with -R it counts from the time at which a request was due",
    ],
};

const AB: Tool = Tool {
    names: &["ab"],
    style: Style::Clustered,
    options: &[
        ("-n", Copy("-n")),
        ("-c", Copy("-c")),
        ("-t", Copy("-d")),
        ("-s", Copy("--timeout")),
        ("-k", Flag(&["--keepalive"])),
        ("-H", Copy("-H")),
        ("-C", Field("Cookie")),
        ("-T", Field("Content-Type")),
        ("-m", Copy("-m")),
        ("-i", Flag(&["-m", "HEAD"])),
        ("-p", Upload("POST")),
        ("-u", Upload("PUT")),
        ("-l", Flag(&["--verify", "none"])),
        ("-B", Copy("--local-addr")),
        ("-r", Ignored),
        ("-q", Ignored),
        ("-S", Ignored),
        ("-d", Ignored),
        ("-v", IgnoredValue),
        ("-A -P", No(PASSWORD)),
        ("-X", No(PROXY)),
        ("-w -x -y -z -g -e", No(TEXT)),
        ("-b", No("write --rcvbuf and --sndbuf")),
        ("-f -Z -E -I", No("TLS cannot be configured like this")),
        ("-h -V", No("there is nothing to measure")),
    ],
    defaults: &[
        Default::new("-n", "1").unless("-d"),
        // Its limit of requests with a limit of time.
        Default::new("-n", "50000"),
        Default::new("-c", "1"),
        Default::new("--timeout", "30s"),
        Default::new("--warmup", "0"),
        Default::switch("--no-keepalive").unless("--keepalive"),
        Default::switch("--http1.0"),
    ],
    trusts_all: true,
    duration_wins: false,
    differs: &[
        ERROR_STATUS,
        AGENT,
        "no Content-Type is sent with -p or -u unless -T gives one; ab sends text/plain",
        "a failed connection is counted and tried again, and ends nothing",
    ],
};

const HEY: Tool = Tool {
    names: &["hey"],
    style: Style::Go,
    options: &[
        ("-n", Copy("-n")),
        ("-c", Copy("-c")),
        ("-z", Copy("-d")),
        ("-t", Copy("--timeout")),
        ("-m", Copy("-m")),
        ("-H", Copy("-H")),
        ("-A", Field("Accept")),
        ("-T", Field("Content-Type")),
        ("-U", Field("User-Agent")),
        ("-d", Copy("-b")),
        ("-D", File("-b")),
        ("-host", Copy("--host")),
        ("-disable-keepalive", Flag(&["--no-keepalive"])),
        ("-disable-compression", Ignored),
        ("-disable-redirects", Ignored),
        ("-cpus", IgnoredValue),
        ("-q", No(RATE)),
        ("-o", No(TEXT)),
        ("-a", No(PASSWORD)),
        ("-x", No(PROXY)),
        ("-h2", No(HTTP_2)),
    ],
    defaults: &[
        Default::new("-n", "200").unless("-d"),
        Default::new("-c", "50"),
        Default::new("--timeout", "20s"),
        Default::new("--warmup", "0"),
    ],
    trusts_all: true,
    duration_wins: true,
    differs: &[ERROR_STATUS, NO_REDIRECTS, FIELDS, "-n is exact, and no multiple of -c"],
};

const OHA: Tool = Tool {
    names: &["oha"],
    style: Style::Clustered,
    options: &[
        ("-n", Count("-n")),
        ("-c", Copy("-c")),
        ("-z", Copy("-d")),
        ("-q", Copy("-R")),
        ("-t --timeout", Copy("--timeout")),
        ("-m --method", Copy("-m")),
        ("-H", Copy("-H")),
        ("-A", Field("Accept")),
        ("-T", Field("Content-Type")),
        ("-d", Copy("-b")),
        ("-D", File("-b")),
        ("-o --output", Copy("-o")),
        ("--host", Copy("--host")),
        ("--connect-to", Copy("--connect-to")),
        ("--unix-socket", Copy("--unix-socket")),
        ("--cacert", Copy("--cacert")),
        ("--insecure", Flag(&["--insecure"])),
        ("--disable-keepalive", Flag(&["--no-keepalive"])),
        ("--urls-from-file", Flag(&["--order", "random", "--urls"])),
        ("-j --json", Flag(&["--json"])),
        ("--output-format", Value(&[("text", &[]), ("json", &["--json"])], TEXT)),
        ("--http-version", Value(&[("1.1", &[]), ("1.0", &["--http1.0"])], HTTP_2)),
        ("--latency-correction --disable-compression --no-tui", Ignored),
        ("--no-color --disable-color --stats-success-breakdown --no-pre-lookup", Ignored),
        ("--fps -u --time-unit -r --redirect --connect-timeout", IgnoredValue),
        ("-p --http2", No(HTTP_2)),
        ("--db-url --debug --completions", No(TEXT)),
        ("-Z", No("write METHOD URL BODY into the lines of a file: --urls FILE")),
        ("-F --form", No("write the body and its field: -b and -H 'Content-Type: ...'")),
        ("--aws-session --aws-sigv4", No("requests are not signed")),
        ("--vsock-addr", No("only TCP and Unix sockets are supported")),
        ("--burst-delay --burst-rate", No("bursts are not supported; see --arrival trace:FILE")),
        ("--rand-regex-url", No("write {RAND} in the URL, or --urls FILE")),
        ("--max-repeat --dump-urls", No("write {RAND} in the URL, or --urls FILE")),
        (
            "-w --wait-ongoing-requests-after-deadline",
            No("requests in flight at the end are reported as such"),
        ),
        ("-a --basic-auth", No(PASSWORD)),
        ("-x --proxy --proxy-header --proxy-http-version --proxy-http2", No(PROXY)),
        ("--cert --key", No(CLIENT_CERTIFICATE)),
        ("--ipv4 --ipv6", No("write the address in the URL")),
    ],
    defaults: &[
        Default::new("-n", "200").unless("-d"),
        Default::new("-c", "50"),
        Default::new("--timeout", "1h"),
        Default::new("--warmup", "0"),
    ],
    trusts_all: false,
    duration_wins: true,
    differs: &[
        ERROR_STATUS,
        NO_REDIRECTS,
        FIELDS,
        "latency counts from the time at which a request was due, as with --latency-correction",
        "the time-out of a request includes its connection",
    ],
};

const BOMBARDIER: Tool = Tool {
    names: &["bombardier"],
    style: Style::Clustered,
    options: &[
        ("-c --connections", Count("-c")),
        ("-n --requests", Count("-n")),
        ("-d --duration", Copy("-d")),
        ("-r --rate", Copy("-R")),
        ("-t --timeout", Copy("--timeout")),
        ("-m --method", Copy("-m")),
        ("-H --header", Copy("-H")),
        ("-b --body", Copy("-b")),
        ("-f --body-file", File("-b")),
        ("-k --insecure", Flag(&["--insecure"])),
        ("-a --disableKeepAlives", Flag(&["--no-keepalive"])),
        ("-l --latencies", Ignored),
        ("-q --no-print", Ignored),
        ("--fasthttp --http1", Ignored),
        ("-p --print", IgnoredValue),
        ("-s --stream", No(STREAMED)),
        ("-o --format", No(TEXT)),
        ("--cert --key", No(CLIENT_CERTIFICATE)),
        ("--http2", No(HTTP_2)),
    ],
    defaults: &[
        Default::new("-c", "125"),
        Default::new("-d", "10s").unless("-n"),
        Default::new("--timeout", "2s"),
        Default::new("--warmup", "0"),
        Default::new("--verify", "none"),
    ],
    trusts_all: false,
    duration_wins: false,
    differs: &[
        ERROR_STATUS,
        AGENT,
        "with -r, latency counts from the time at which a request was due",
    ],
};

const K6: Tool = Tool {
    names: &["k6"],
    style: Style::Clustered,
    options: &[
        ("-u --vus", Copy("-c")),
        ("-d --duration", Copy("-d")),
        ("-i --iterations", Copy("-n")),
        ("--insecure-skip-tls-verify", Flag(&["--insecure"])),
        ("--user-agent", Field("User-Agent")),
        // Of a script with one request, an iteration is a request.
        ("--no-connection-reuse --no-vu-connection-reuse", Flag(&["--no-keepalive"])),
        ("--no-setup --no-teardown --no-thresholds --include-system-env-vars", Ignored),
        ("-q --quiet -v --verbose --no-color --no-summary --no-usage-report", Ignored),
        ("-l --linger -w --throw --discard-response-bodies", Ignored),
        ("--new-machine-readable-summary --profiling-enabled", Ignored),
        ("--log-output --log-format --console-output --traces-output", IgnoredValue),
        ("--summary-mode --summary-time-unit --system-tags --tag", IgnoredValue),
        ("--max-redirects --batch --batch-per-host --dns --features", IgnoredValue),
        ("-a --address --secret-source --compatibility-mode", IgnoredValue),
        ("--blacklist-ip --block-hostnames", IgnoredValue),
        ("-p --paused", No("a run begins at once")),
        ("-c --config", No("write its options on the command line")),
        ("-t --type", Value(&[("js", &[])], "only a script is read")),
        ("--min-iteration-duration", No("write the time between two requests as --think")),
        ("--http-debug", No("see --raw-log")),
        ("--local-ips", No("write the addresses as --local-addr")),
        (
            "--execution-segment --execution-segment-sequence",
            No("write the connections and the rate of the segment as -c and -R"),
        ),
        ("-s --stage", No("stages are not supported; -R A:B changes the rate linearly")),
        ("--rps", No("it limits the rate: write it as jissoku load -R")),
        ("-e --env", No("scripts are not run")),
        ("-o --out --summary-export --summary-trend-stats", No(TEXT)),
    ],
    defaults: &[
        Default::new("-c", "1"),
        Default::new("-n", "1").unless("-d"),
        Default::new("--timeout", "60s"),
        Default::new("--warmup", "0"),
        Default::new("--verify", "none"),
    ],
    trusts_all: false,
    duration_wins: false,
    differs: &[
        ERROR_STATUS,
        NO_REDIRECTS,
        AGENT,
        "of the script only the URL of http.get and the time of sleep are read; its options, checks and thresholds are not",
    ],
};
