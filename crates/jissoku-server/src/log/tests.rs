//! Log records from a worker to a file, without sockets.

use std::fs;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use jissoku_http::{Event, Limits, RequestParser};

use super::*;

const PATIENCE: Duration = Duration::from_secs(30);
const REQUEST: &[u8] =
    b"GET /a?b HTTP/1.1\r\nHost: a\r\nreferer: http://b/\r\nUser-Agent: me\r\n\r\n";

fn fresh_path() -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("jissoku-log-{}-{number}", std::process::id()))
}

/// Waits until `is_so`, and fails after a limit that no test reaches.
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begin_ns = jissoku_os::clock::monotonic_ns();
    while !is_so() {
        let waited = Duration::from_nanos(jissoku_os::clock::monotonic_ns() - begin_ns);
        assert!(waited < PATIENCE, "timed out: {what}");
        thread::yield_now();
    }
}

fn silence(_: &str) {}

fn record(recorder: &mut Recorder, now_ns: u64) {
    let step = RequestParser::new().step(REQUEST, &Limits::DEFAULT).expect("it is in order");
    let Event::Head(head) = step.event else { panic!("it is whole") };
    let mut entry = recorder.open(None);
    recorder.begin(&mut entry, now_ns, &head, REQUEST);
    recorder.finish(&mut entry, ResponseInfo { status: 200, body_size: 3, now_ns });
    recorder.close(entry);
}

fn open(path: &Path, format: LogFormat) -> AccessLog {
    AccessLog::open(path, format, silence, &Arc::default()).expect("a log can be opened")
}

#[test]
fn every_record_is_written() {
    let path = fresh_path();
    let log = open(&path, LogFormat::Combined);
    let mut recorders = [log.sink().recorder(), log.sink().recorder()];
    for now_ns in 0..3_000 {
        for recorder in &mut recorders {
            record(recorder, now_ns);
        }
    }
    drop(recorders);
    assert_eq!(log.finish(PATIENCE), Some(0));
    let lines = fs::read_to_string(&path).expect("the file is there");
    assert_eq!(lines.lines().count(), 6_000);
    let end = "] \"GET /a?b HTTP/1.1\" 200 3 \"http://b/\" \"me\"";
    assert!(lines.lines().all(|line| line.starts_with("unix: - - [") && line.ends_with(end)));
    fs::remove_file(path).expect("it was made here");
}

#[test]
fn a_record_is_written_at_its_maximum_age() {
    let path = fresh_path();
    let log = open(&path, LogFormat::Common);
    let mut recorder = log.sink().recorder();
    assert_eq!(recorder.deadline_ns(), None);
    record(&mut recorder, 5);
    record(&mut recorder, 7);
    let due_ns = recorder.deadline_ns().expect("something waits");
    assert_eq!(due_ns, 5 + 100_000_000);
    recorder.wake(due_ns - 1);
    assert_eq!(recorder.deadline_ns(), Some(due_ns));
    recorder.wake(due_ns);
    assert_eq!(recorder.deadline_ns(), None);
    assert_eq!(log.finish(PATIENCE), Some(0));
    assert_eq!(fs::read_to_string(&path).expect("the file is there").lines().count(), 2);
    fs::remove_file(path).expect("it was made here");
}

#[test]
fn json_has_the_duration_of_a_request() {
    let path = fresh_path();
    let log = open(&path, LogFormat::Json);
    let mut recorder = log.sink().recorder();
    // The worker's time is constant within one wake-up.
    record(&mut recorder, jissoku_os::clock::monotonic_ns());
    drop(recorder);
    assert_eq!(log.finish(PATIENCE), Some(0));
    let line = fs::read_to_string(&path).expect("the file is there");
    let value: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    assert!(value["duration_ns"].as_u64().is_some_and(|duration_ns| duration_ns > 0), "{line}");
    fs::remove_file(path).expect("it was made here");
}

/// Creates a named pipe with `mkfifo`.
fn make_pipe(path: &Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status().expect("mkfifo runs");
    assert!(made.success());
    assert!(fs::metadata(path).expect("it is there").file_type().is_fifo());
}

#[test]
fn a_blocked_writer_loses_records_and_delays_no_worker() {
    let path = fresh_path();
    make_pipe(&path);
    let (opened, reader) = sync_channel(0);
    let place = path.clone();
    let thread = thread::spawn(move || {
        let file = File::open(place).expect("the pipe opens");
        opened.send(file).expect("the test waits for it");
    });
    let log = open(&path, LogFormat::Common);
    let mut reader = reader.recv_timeout(PATIENCE).expect("the reader opens");
    thread.join().expect("it has opened the pipe");
    let mut recorder = log.sink().recorder();
    let mut count = 0;
    // A pipe holds about 64 KiB, a batch some thousand records.
    while log.sink().lost() == 0 {
        record(&mut recorder, count);
        count += 1;
        assert!(count < 10_000_000, "records go nowhere");
    }
    drop(recorder);
    let reading = thread::spawn(move || {
        let mut lines = String::new();
        reader.read_to_string(&mut lines).map(|_| lines)
    });
    let lost = log.finish(PATIENCE).expect("the pipe is read now");
    let lines = reading.join().expect("it reads").expect("to the end");
    assert!(lost > 0);
    assert_eq!(lines.lines().count() as u64 + lost, count);
    fs::remove_file(path).expect("it was made here");
}

#[test]
fn a_full_disk_loses_records_and_is_reported() {
    static SAID: AtomicU32 = AtomicU32::new(0);
    let report: ErrorReporter = |text| {
        assert!(text.contains("lost 1 record"), "{text}");
        SAID.fetch_add(1, Ordering::Relaxed);
    };
    let log = AccessLog::open(Path::new("/dev/full"), LogFormat::Common, report, &Arc::default())
        .expect("it opens");
    let mut recorder = log.sink().recorder();
    record(&mut recorder, 0);
    drop(recorder);
    assert_eq!(log.finish(PATIENCE), Some(1));
    assert_eq!(SAID.load(Ordering::Relaxed), 1);
}

#[test]
fn a_renamed_file_is_reopened() {
    let path = fresh_path();
    let moved = path.with_extension("1");
    let log = open(&path, LogFormat::Common);
    let mut recorder = log.sink().recorder();
    record(&mut recorder, 0);
    recorder.wake(u64::MAX - 1);
    wait_until("a line", || fs::metadata(&path).expect("it is there").len() > 0);
    fs::rename(&path, &moved).expect("it can be moved");
    log.sink().reopen();
    wait_until("a new file", || path.exists());
    record(&mut recorder, 0);
    record(&mut recorder, 0);
    drop(recorder);
    assert_eq!(log.finish(PATIENCE), Some(0));
    for (path, count) in [(moved, 1), (path, 2)] {
        assert_eq!(fs::read_to_string(&path).expect("it is there").lines().count(), count);
        fs::remove_file(path).expect("it was made here");
    }
}

#[test]
fn an_unwritable_path_is_refused() {
    let error =
        AccessLog::open(Path::new("/nowhere/at/all"), LogFormat::Common, silence, &Arc::default());
    let error = error.expect_err("there is no such folder");
    assert!(error.contains("cannot write the access log /nowhere/at/all"), "{error}");
}
