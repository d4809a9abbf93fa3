//! The programs `jissoku load`, with its self-test and its output for GitHub, and the command lines of others.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

fn jissoku(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_jissoku"));
    command.args(arguments).output().expect("it starts")
}

fn json(arguments: &[&str]) -> Value {
    let output = jissoku(arguments);
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("it is JSON")
}

/// A server to be measured; dropping it stops it.
struct Served {
    process: Child,
    url: String,
}

impl Served {
    fn start() -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_jissoku"))
            .args(["floor", "serve", "--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the floor starts");
        let mut said = String::new();
        let output = process.stdout.take().expect("it says where");
        BufReader::new(output).read_line(&mut said).expect("it says where");
        let url = said.trim().strip_prefix("listening on ").expect("a URL").to_owned();
        Self { process, url }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.process.kill().expect("it is ours");
        self.process.wait().expect("it ends");
    }
}

#[test]
fn the_self_test_alone_reports_its_limit() {
    let report = json(&["load", "--self-test", "-c", "3", "-p", "2", "--json"]);
    assert_eq!(report["schema"], "jissoku.self-test/1");
    let found = &report["self_test"];
    assert_eq!((&found["connections"], &found["pipeline"]), (&3.into(), &2.into()));
    assert!(
        found["rate_rps"].as_f64() > Some(0.0) && found["cpu_ns_per_request"].as_f64() > Some(0.0)
    );
    assert!(found["overhead_ns_p99"].as_u64() >= found["overhead_ns_p50"].as_u64());
    assert_eq!(found["used_fraction"], Value::Null);
    for wrong in [&["-R", "9"][..], &["-d", "1s"], &["--repeat", "2"], &["--hdr", "x"]] {
        let output = jissoku(&[&["load", "--self-test"], wrong].concat());
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("need a URL"), "{output:?}");
    }
}

#[test]
fn a_report_has_the_used_share_of_its_ceiling() {
    let served = Served::start();
    let asked = ["load", "--histogram", "--self-test", "-R", "500", "-n", "100", "-c", "2"];
    let files = ["--format", "human", "--format", "json=/dev/stderr"];
    let output = jissoku(&[&asked[..], &files, &[&served.url]].concat());
    assert!(output.status.success(), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stderr).expect("it is JSON");
    let rate_of = |report: &Value| report["rate_rps"].as_f64().expect("a rate");
    let used = report["self_test"]["used_fraction"].as_f64().expect("a part");
    assert!((used - rate_of(&report) / rate_of(&report["self_test"])).abs() < 1e-9);
    let page = String::from_utf8_lossy(&output.stdout);
    assert!(
        page.contains("Limit of the load generator here: ") && page.contains(" used"),
        "{page}"
    );
    let (_, bars) = page.split_once("\nLatency histogram of ").expect("it is below the report");
    let counts = bars.lines().skip(1).map(|line| line.split_whitespace().nth(2));
    let counts =
        counts.map(|count| count.and_then(|count| count.parse::<u64>().ok()).expect("a count"));
    assert_eq!(counts.sum::<u64>(), 100);
    assert!(report["requests"] == 100 && page.contains("Offered: 500 requests/s"), "{page}");
}

#[test]
fn what_failed_stands_beside_the_step_on_github() {
    let served = Served::start();
    let report = |actions: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_jissoku"));
        command.args(["load", "-n", "20", "-c", "2", "--format", "github", "--slo", "p50<1ns"]);
        command.arg(&served.url).env("GITHUB_ACTIONS", actions).env_remove("GITHUB_STEP_SUMMARY");
        let output = command.output().expect("it starts");
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let (there, elsewhere) = (report("true"), report("false"));
    assert!(there.contains("\n::error title=jissoku load::"), "{there}");
    assert!(elsewhere.contains("### Load") && !elsewhere.contains("::error"), "{elsewhere}");
}

#[test]
fn errors_name_the_verb_that_was_called() {
    for (url, options, code, words) in [
        ("ftp://x", &["-c1", "-t1"][..], 2, "ftp://x"),
        ("http://127.0.0.1:1/", &["-c1", "-t2"], 2, "give -t at most 1"),
        ("unix:/nowhere/at/all.sock:/", &["-c1", "-t1"], 1, "/nowhere/at/all.sock"),
    ] {
        let output = jissoku(&[&["load", url][..], options].concat());
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.starts_with("jissoku load: "), "{error}");
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn another_load_generators_command_line_is_run_and_its_equal_shown_first() {
    let served = Served::start();
    let line = format!("ab -k -n 20 -c 2 {}", served.url);
    let output = jissoku(&["load", "--from", &line, "--json"]);
    assert!(output.status.success(), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert_eq!((&report["requests"], &report["connections"]), (&20.into(), &2.into()));
    let shown = String::from_utf8_lossy(&output.stderr);
    let equal = format!(
        "jissoku load -n 20 -c 2 --timeout 30s --warmup 0 --http1.0 {} --json\n",
        served.url
    );
    assert!(shown.starts_with(&equal), "{shown}");
    assert!(shown.contains("\n  unlike ab: "), "{shown}");
    for (line, why) in
        [("wrk -d soon http://h/", "soon"), ("wrk -c1 -t2 http://h/", "give -t at most 1")]
    {
        let refused = jissoku(&["load", "--from", line]);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(String::from_utf8_lossy(&refused.stderr).contains(why), "{refused:?}");
    }
    let refused = jissoku(&["load", "--from", "ab -X p:1 http://127.0.0.1:1/"]);
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(2), 0));
    let error = "jissoku load: --from ab: -X: proxies are not supported; --connect-to sends requests elsewhere\n";
    assert_eq!(String::from_utf8_lossy(&refused.stderr), error);
}

#[test]
fn the_requests_of_a_file_go_to_their_servers() {
    let (one, other) = (Served::start(), Served::start());
    let file = std::env::temp_dir().join(format!("jissoku-urls-{}", std::process::id()));
    let lines = format!("{0}a\nPOST {1}b {{}}\n# {1}c\nHEAD {0}d\n", one.url, other.url);
    std::fs::write(&file, lines).expect("it can be written");
    let name = file.to_string_lossy();
    let output = jissoku(&[
        "load",
        "--urls",
        &name,
        "-c1",
        "-n4",
        "--expect-status",
        "200,404,405",
        "--json",
    ]);
    let malformed = std::fs::write(&file, "http://127.0.0.1:1/\n127.0.0.1/x\n");
    let refused = jissoku(&["load", "--urls", &name]);
    let removed = std::fs::remove_file(&file);
    assert!(output.status.success() && malformed.is_ok() && removed.is_ok(), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let specs = |target: usize| {
        let specs = report["targets"][target]["request_specs"].as_array().expect("a list");
        specs.iter().map(|spec| spec["name"].as_str().expect("text")).collect::<Vec<_>>()
    };
    assert_eq!((specs(0), specs(1)), (vec!["GET /a", "HEAD /d"], vec!["POST /b"]));
    assert_eq!(report["targets"][0]["request_specs"][1]["requests"], 2);
    assert_eq!(report["targets"][1]["url"], other.url);
    let error = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(2) && error.contains("line 2"), "{error}");
}
