//! Conditional requests over a socket; all rules are in the tests of
//! `jissoku_http::condition`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime};

use jissoku_server::FilesOptions;

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

fn checked_each_time() -> FilesOptions {
    FilesOptions { revalidate: Duration::ZERO, ..FilesOptions::default() }
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
}

#[test]
fn a_copy_with_its_time_has_the_same_tag() {
    let (folder, copy) = (folder(), Dir::empty());
    let large = folder.public().join("large.bin");
    fs::copy(&large, copy.public().join("large.bin")).expect("it can be copied");
    copy.age("large.bin", long_ago());
    let (target, other) = (folder.serve_as(checked_each_time()), copy.serve());
    let tag = etag(&get(&target, "/large.bin"));
    assert!(tag.starts_with('"'), "{tag} is strong, as the file has not been written since");
    assert_eq!(etag(&get(&other, "/large.bin")), tag);
    fs::set_permissions(&large, fs::Permissions::from_mode(0o600)).expect("it is ours");
    assert_eq!(etag(&get(&target, "/large.bin")), tag, "another mode");
    fs::hard_link(&large, folder.public().join("backup")).expect("it can be linked");
    assert_eq!(etag(&get(&target, "/large.bin")), tag, "another link");
    folder.age("large.bin", long_ago() + Duration::from_nanos(1));
    assert_ne!(etag(&get(&target, "/large.bin")), tag, "another time");
    fs::File::options()
        .write(true)
        .open(&large)
        .and_then(|file| file.set_len(999_999))
        .expect("ours");
    folder.age("large.bin", long_ago());
    assert_ne!(etag(&get(&target, "/large.bin")), tag, "another size");
}

#[test]
fn a_time_that_package_managers_set_says_nothing() {
    let folder = Dir::new();
    let target = folder.serve_as(checked_each_time());
    let epoch = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
    for name in ["index.html", "large.bin"] {
        folder.age(name, epoch);
        let first = get(&target, &format!("/{name}"));
        assert_eq!(first.field("Last-Modified"), None);
        let size = first.body.len();
        folder.write("new", &vec![b'n'; size]);
        folder.age("new", epoch);
        fs::rename(folder.public().join("new"), folder.public().join(name)).expect("a new name");
        assert_ne!(etag(&get(&target, &format!("/{name}"))), etag(&first), "{name}");
    }
}

#[test]
fn a_large_file_that_has_just_changed_has_a_weak_tag() {
    let folder = Dir::new();
    let target = folder.serve();
    let answer = get(&target, "/large.bin");
    assert!(etag(&answer).starts_with("W/\""), "its times could hide a change");
    assert!(etag(&get(&target, "/medium.bin")).starts_with('"'), "its bytes have been read");
}
