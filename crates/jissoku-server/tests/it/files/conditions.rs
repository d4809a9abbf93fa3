//! Conditional requests over a socket; all rules are in the tests of
//! `jissoku_http::condition`.

use std::time::{Duration, SystemTime};

use super::{Dir, bodiless, get, get_with, long_ago};
use crate::client::{Answer, Target};

const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

fn folder() -> Dir {
    let folder = Dir::new();
    for name in ["index.html", "medium.bin", "large.bin"] {
        folder.age(name, long_ago());
    }
    folder
}

/// A 304 or another response without a body.
fn ask(target: &Target, path: &str, line: &str) -> Answer {
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{line}\r\n\r\n");
    bodiless(target, &request)
}

fn etag(answer: &Answer) -> String {
    answer.field("ETag").expect("a tag").to_owned()
}

#[test]
fn a_matching_representation_is_not_sent_again() {
    let folder = folder();
    let target = folder.serve();
    for path in ["/", "/medium.bin", "/large.bin"] {
        let first = get(&target, path);
        assert_eq!(first.field("Last-Modified"), Some(DATE), "{path}");
        let tag = etag(&first);
        for line in [
            format!("If-None-Match: {tag}"),
            format!("If-None-Match: \"other\", {tag}"),
            "If-None-Match: *".to_owned(),
            format!("If-Modified-Since: {DATE}"),
        ] {
            let answer = ask(&target, path, &line);
            assert_eq!(answer.status, 304, "{path} with {line}");
            assert!(answer.field("ETag").is_some() && answer.field("Date").is_some());
            assert_eq!(answer.field("Content-Length"), None);
        }
        let answer = get_with(&target, path, "If-None-Match: \"other\"\r\n");
        assert_eq!((answer.status, answer.body.len()), (200, first.body.len()));
    }
    target.end();
}

#[test]
fn a_failed_precondition_is_answered_with_412() {
    let folder = folder();
    let target = folder.serve();
    let tag = etag(&get(&target, "/"));
    let status = |line: &str| get_with(&target, "/", &format!("{line}\r\n")).status;
    assert_eq!(status(&format!("If-Match: {tag}")), 200);
    assert_eq!(status("If-Match: \"other\""), 412);
    assert_eq!(status(&format!("If-Unmodified-Since: {DATE}")), 200);
    assert_eq!(status("If-Unmodified-Since: Sun, 06 Nov 1994 08:49:36 GMT"), 412);
    target.end();
}

#[test]
fn a_connection_persists_after_a_response_without_a_body() {
    let folder = folder();
    let target = folder.serve();
    let mut client = target.connect();
    let known = "GET / HTTP/1.1\r\nHost: a\r\nIf-None-Match: *\r\n\r\n";
    client.send(&format!(
        "{known}OPTIONS / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"
    ));
    assert_eq!(client.head().status, 304);
    assert_eq!(client.head().status, 204);
    assert_eq!(client.answer().text(), "<p>home");
    target.end();
}

#[test]
fn dates_in_the_future_are_replaced_or_ignored() {
    let folder = Dir::new();
    folder.age("index.html", SystemTime::UNIX_EPOCH + Duration::from_secs(253_402_300_799));
    let target = folder.serve();
    let answer = get(&target, "/");
    let modified = answer.field("Last-Modified").expect("a date").as_bytes();
    let date = answer.field("Date").expect("a date").as_bytes();
    let parse = |date| jissoku_http::date::parse(date, 0).expect("a date");
    assert!(parse(modified) <= parse(date));
    let line = "If-Modified-Since: Fri, 31 Dec 9999 23:59:59 GMT\r\n";
    assert_eq!(get_with(&target, "/", line).status, 200);
    target.end();
}

#[test]
fn a_large_file_that_has_just_changed_has_a_weak_tag() {
    let folder = Dir::new();
    let target = folder.serve();
    let answer = get(&target, "/large.bin");
    assert!(etag(&answer).starts_with("W/\""), "its times could hide a change");
    assert!(etag(&get(&target, "/medium.bin")).starts_with('"'), "its bytes have been read");
    target.end();
}
