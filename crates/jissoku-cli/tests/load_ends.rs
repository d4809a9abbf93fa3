//! How `jissoku load` ends early: with what was measured before, and soon.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Output, Stdio};
use std::thread::spawn;

use jissoku_os::clock;

const HELLO: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHello";

fn load(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_jissoku"));
    command.arg("load").args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A server that answers this many requests, on any number of connections, and then is gone.
fn server(requests: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let url = format!("http://{}/", listener.local_addr().expect("it is bound"));
    spawn(move || {
        let mut left = requests;
        while left > 0 {
            let (mut stream, _) = listener.accept().expect("it connects");
            let mut request = [0; 4096];
            while left > 0 && stream.read(&mut request).is_ok_and(|size| size > 0) {
                stream.write_all(HELLO).expect("it listens");
                left -= 1;
            }
        }
    });
    url
}

fn text(output: &[u8]) -> String {
    String::from_utf8_lossy(output).into_owned()
}

#[test]
fn a_series_keeps_what_was_measured_before_the_server_went_away() {
    let url = server(250);
    let done: Output = load(&["-n", "100", "-c", "1", "--repeat", "5", "--timeout", "1s", &url])
        .output()
        .expect("it runs");
    let (said, table) = (text(&done.stderr), text(&done.stdout));
    assert_ne!(done.status.code(), Some(0), "{said}");
    assert!(table.lines().count() >= 3, "{table}{said}");
}

/// Interrupts a measurement, and checks that what was measured before is reported.
fn check_interrupted(mut process: Child, mut stderr: impl Read) {
    interrupt(process.id());
    let (mut table, mut said) = (String::new(), String::new());
    process.stdout.take().expect("a pipe").read_to_string(&mut table).expect("text");
    stderr.read_to_string(&mut said).expect("text");
    assert_eq!(process.wait().expect("it ends").code(), Some(130), "{said}");
    assert!(!table.trim().is_empty(), "{said}");
    assert!(said.contains("after"), "{said}");
}

#[test]
fn an_interrupted_series_keeps_what_was_measured() {
    let url = server(usize::MAX);
    let arguments = ["-d", "300ms", "-R", "200", "-c", "1", "--repeat", "9999", &url];
    let mut process = load(&arguments).spawn().expect("it starts");
    // One measurement takes less than this, whatever else the machine does.
    std::thread::park_timeout(std::time::Duration::from_secs(4));
    let stderr = process.stderr.take().expect("a pipe");
    check_interrupted(process, stderr);
}

#[test]
fn an_interrupted_search_says_what_was_found() {
    let url = server(usize::MAX);
    let search = ["--search", "p50<10s", "-R", "500", "--step", "geom:1.01"];
    let mut process =
        load(&search).args(["-d", "300ms", "-c", "1", &url]).spawn().expect("it starts");
    let mut stderr = BufReader::new(process.stderr.take().expect("a pipe"));
    let mut first = String::new();
    stderr.read_line(&mut first).expect("a step is measured");
    assert!(first.starts_with("500 requests/s: "), "{first}");
    check_interrupted(process, stderr);
}

#[test]
fn ctrl_c_ends_connecting_at_once() {
    // The accept queue is full, so that further connections wait.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let url = format!("http://{}/", listener.local_addr().expect("it is bound"));
    let timeout_s = 100;
    let timeout = format!("{timeout_s}s");
    let start_ns = clock::monotonic_ns();
    let mut process = load(&["-c", "10000", "-d", "30s", "--timeout", &timeout, &url])
        .spawn()
        .expect("it starts");
    std::thread::park_timeout(std::time::Duration::from_secs(1));
    interrupt(process.id());
    assert_eq!(process.wait().expect("it ends").code(), Some(130));
    assert!(clock::monotonic_ns() - start_ns < timeout_s * 1_000_000_000);
}

#[test]
fn files_that_cannot_be_written_are_known_before_a_request_is_sent() {
    for option in ["--hdr", "--hlog", "--raw-log", "--timeseries", "-o", "--format=json"] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        listener.set_nonblocking(true).expect("it can be set");
        let url = format!("http://{}/", listener.local_addr().expect("it is bound"));
        let path = "/nonexistent/file";
        let words = if option.starts_with("--format") {
            vec![format!("{option}={path}")]
        } else {
            vec![option.to_owned(), path.to_owned()]
        };
        let done = load(&["-n", "10", "-c", "1", &url]).args(&words).output().expect("it runs");
        assert_eq!(done.status.code(), Some(1), "{option}: {}", text(&done.stderr));
        assert!(text(&done.stderr).contains("cannot write"), "{option}");
        assert!(listener.accept().is_err(), "{option}");
    }
    let done =
        load(&["-n", "1", "--repeat", "2", "--format", "csv", "http://127.0.0.1:1/"]).output();
    let done = done.expect("it runs");
    assert_eq!(
        (done.status.code(), text(&done.stderr).contains("a series supports")),
        (Some(2), true)
    );
}

#[test]
fn a_file_is_not_left_behind_empty_and_keeps_its_content_until_there_are_results() {
    let folder = std::env::temp_dir().join(format!("jissoku-load-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("it can be made");
    let (new, old) = (folder.join("new.json"), folder.join("old.json"));
    std::fs::write(&old, "earlier").expect("it can be written");
    for file in [&new, &old] {
        let format = format!("--format=json={}", file.display());
        let done = load(&["-n", "1", "-c", "1", "http://127.0.0.1:1/", &format])
            .output()
            .expect("it runs");
        assert_eq!(done.status.code(), Some(1));
    }
    assert!(!new.exists());
    assert_eq!(std::fs::read_to_string(&old).expect("it is there"), "earlier");
    std::fs::remove_dir_all(&folder).expect("it is ours");
}

/// Sends SIGINT, as Ctrl-C does.
fn interrupt(pid: u32) {
    let sent = Command::new("kill").args(["-INT", &pid.to_string()]).status().expect("it runs");
    assert!(sent.success());
}
