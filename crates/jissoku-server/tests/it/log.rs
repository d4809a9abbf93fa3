//! The access log of requests over a socket.

use std::fs;
use std::path::Path;
use std::time::Duration;

use jissoku_os::socket::Endpoint;
use jissoku_server::{AccessLog, Limits, LogFormat, Settings, TelemetryConfig};
use serde_json::Value;

use crate::client::{Target, contract, fresh_path, wait_until};

const PATIENCE: Duration = Duration::from_secs(30);

/// Serves the contract with a log in JSON, has `visit` use it, and returns what was logged.
fn observe(settings: Settings, visit: impl FnOnce(&Target)) -> Vec<Value> {
    let path = fresh_path();
    let log = AccessLog::open(&path, LogFormat::Json, |_| (), &<_>::default())
        .expect("a log can be opened");
    let telemetry = TelemetryConfig { log: Some(log.sink().clone()), metrics: None };
    let mut target = Target::start(Settings { telemetry, ..settings }, contract());
    visit(&target);
    target.stop();
    target.running.join();
    assert_eq!(log.finish(PATIENCE), Some(0));
    let lines = read(&path);
    fs::remove_file(&path).expect("it was created here");
    lines
}

fn read(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).expect("the file exists");
    text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
}

fn port() -> Settings {
    Settings::new(crate::client::free_port())
}

#[test]
fn every_response_has_a_line() {
    let lines = observe(port(), |target| {
        let mut client = target.connect();
        client.send("GET /?a HTTP/1.1\r\nHost: a\r\nReferer: r\r\nUser-Agent: u \"1\"\r\n\r\n");
        assert_eq!(client.answer().status, 200);
        client.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\nGET /none HTTP/1.0\r\n\r\n");
        assert_eq!(client.head().status, 200);
        assert_eq!(client.answer().status, 404);
    });
    let found: Vec<_> = lines
        .iter()
        .map(|line| (&line["method"], &line["target"], &line["status"], &line["body_size"]))
        .map(|(method, target, status, size)| format!("{method} {target} {status} {size}"))
        .collect();
    let expected = ["\"GET\" \"/?a\" 200 13", "\"HEAD\" \"/\" 200 0", "\"GET\" \"/none\" 404 10"];
    assert_eq!(found, expected);
    assert_eq!((&lines[0]["referer"], &lines[0]["user_agent"]), (&"r".into(), &"u \"1\"".into()));
    assert_eq!(lines[0]["peer"], "127.0.0.1");
    assert!(lines[0]["port"].is_u64() && lines[0]["port"] == lines[2]["port"]);
    assert_eq!((&lines[1]["user_agent"], &lines[2]["version"]), (&Value::Null, &"HTTP/1.0".into()));
}

#[test]
fn a_delayed_request_is_logged() {
    let lines = observe(port(), |target| {
        let mut client = target.connect();
        client
            .send("GET /delay?ms=20 HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
        client.answer();
        client.answer();
    });
    assert_eq!((&lines[0]["target"], &lines[1]["target"]), (&"/delay?ms=20".into(), &"/".into()));
    assert!(lines[0]["duration_ns"].as_u64() >= Some(20_000_000), "{}", lines[0]);
}

#[test]
fn a_request_with_a_body_is_logged() {
    let lines = observe(port(), |target| {
        let mut client = target.connect();
        client.send("POST /a HTTP/1.1\r\nHost: a\r\nUser-Agent: u\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
        assert_eq!(client.head().status, 100);
        client.send("abc");
        assert_eq!(client.answer().status, 404);
    });
    assert_eq!(lines.len(), 1);
    assert_eq!((&lines[0]["method"], &lines[0]["user_agent"]), (&"POST".into(), &"u".into()));
}

#[test]
fn a_rejected_request_is_logged_as_received() {
    let lines = observe(port(), |target| {
        for request in [
            "GET / HTTP/1.1\r\n\r\n",
            "\r\nGE\"T\x1b[2J\n",
            "POST /b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n",
        ] {
            assert_eq!(target.ask(request).status, 400);
        }
    });
    assert_eq!((&lines[0]["target"], &lines[0]["status"]), (&"/".into(), &400.into()));
    assert_eq!((&lines[1]["line"], &lines[1]["status"]), (&"GE\"T\u{1b}[2J".into(), &400.into()));
    assert_eq!((&lines[2]["target"], &lines[2]["body_size"]), (&"/b".into(), &12.into()));
}

#[test]
fn an_incomplete_head_that_times_out_is_logged() {
    // Long enough for the client to send, although it may be preempted after it has connected.
    let limits = Limits { head_ns_max: 1_000_000_000, ..Limits::DEFAULT };
    let lines = observe(Settings { limits, ..port() }, |target| {
        assert_eq!(target.ask("GET /slow HT").status, 408);
    });
    assert_eq!((&lines[0]["line"], &lines[0]["status"]), (&"GET /slow HT".into(), &408.into()));
}

#[test]
fn a_unix_socket_has_no_address_to_log() {
    let lines = observe(Settings::new(Endpoint::Unix(fresh_path())), |target| {
        assert_eq!(target.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n").status, 200);
    });
    assert_eq!((lines.len(), &lines[0]["peer"]), (1, &Value::Null));
}

#[test]
fn a_line_is_written_without_another_request() {
    let path = fresh_path();
    let log = AccessLog::open(&path, LogFormat::Common, |_| (), &<_>::default())
        .expect("a log can be opened");
    let telemetry = TelemetryConfig { log: Some(log.sink().clone()), metrics: None };
    let target = Target::start(Settings { telemetry, ..port() }, contract());
    let mut client = target.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    client.answer();
    wait_until("a line", || fs::metadata(&path).expect("the file exists").len() > 0);
    drop(target);
    assert_eq!(log.finish(PATIENCE), Some(0));
    fs::remove_file(&path).expect("it was created here");
}
