//! Precompressed files beside their files. Their content is never decoded, so here it is any text.

use std::fs;
use std::time::Duration;

use jissoku_server::FilesOptions;

use super::{Dir, bodiless, get, get_with, long_ago};
use crate::client::{Answer, Target};

fn folder() -> Dir {
    let folder = Dir::new();
    for (name, body) in [("app.js", "plain"), ("app.js.gz", "as gzip"), ("app.js.br", "as brotli")]
    {
        folder.write(name, body.as_bytes());
        folder.age(name, long_ago());
    }
    folder
}

fn ask(target: &Target, accepted: &str) -> Answer {
    get_with(target, "/app.js", &format!("Accept-Encoding: {accepted}\r\n"))
}

#[test]
fn the_client_gets_its_preferred_coding() {
    let folder = folder();
    let target = folder.serve();
    let check = |accepted: &str, coding: Option<&str>, body: &str| {
        let answer = ask(&target, accepted);
        assert_eq!((answer.status, answer.field("Content-Encoding")), (200, coding), "{accepted}");
        assert_eq!(answer.text(), body);
        assert_eq!(answer.field("Content-Type"), Some("text/javascript; charset=utf-8"));
        assert_eq!(answer.field("Vary"), Some("Accept-Encoding"));
    };
    check("gzip, deflate, br, zstd", Some("br"), "as brotli");
    check("gzip;q=1, br;q=0.5", Some("gzip"), "as gzip");
    check("zstd", None, "plain");
    check("identity;q=0, zstd", None, "plain");
    check("", None, "plain");
    let two_lines = "Accept-Encoding: gzip;q=0.5\r\nAccept-Encoding: br;q=0.4\r\n";
    assert_eq!(get_with(&target, "/app.js", two_lines).text(), "as gzip");
    let plain = get(&target, "/app.js");
    assert_eq!((plain.text(), plain.field("Vary")), ("plain", Some("Accept-Encoding")));
    assert_eq!(get(&target, "/").field("Vary"), None);
}

#[test]
fn every_coding_has_its_own_tag_and_ranges() {
    let folder = folder();
    let target = folder.serve();
    let tag = |accepted| ask(&target, accepted).field("ETag").expect("a tag").to_owned();
    let (plain, gzip, brotli) = (tag(""), tag("gzip"), tag("br"));
    assert!(plain != gzip && gzip != brotli && brotli != plain);
    let known = |accepted: &str, tag: &str| {
        let lines =
            format!("Accept-Encoding: {accepted}\r\nIf-None-Match: {tag}\r\nConnection: close\r\n");
        let mut client = target.connect();
        client.send(&format!("GET /app.js HTTP/1.1\r\nHost: a\r\n{lines}\r\n"));
        let answer = client.head();
        assert_eq!(answer.field("Vary"), Some("Accept-Encoding"));
        answer.status
    };
    assert_eq!(known("gzip", &gzip), 304);
    assert_eq!(known("gzip", &brotli), 200);
    assert_eq!(known("br", &plain), 200);
    let part = get_with(&target, "/app.js", "Accept-Encoding: br\r\nRange: bytes=3-\r\n");
    assert_eq!((part.status, part.text()), (206, "brotli"));
    assert_eq!(part.field("Content-Encoding"), Some("br"));
    assert_eq!(part.field("Content-Range"), Some("bytes 3-8/9"));
}

#[test]
fn a_coding_older_than_its_file_is_not_sent() {
    let folder = folder();
    folder.age("app.js", long_ago() + Duration::from_secs(1));
    folder.age("app.js.br", long_ago() + Duration::from_secs(1));
    let target = folder.serve();
    assert_eq!(ask(&target, "gzip").text(), "plain");
    assert_eq!(ask(&target, "br").text(), "as brotli");
}

#[test]
fn codings_can_be_disabled() {
    let folder = folder();
    let target = folder.serve_as(FilesOptions { uses_coded: false, ..FilesOptions::default() });
    let answer = ask(&target, "br");
    assert_eq!((answer.text(), answer.field("Vary")), ("plain", None));
    assert_eq!(get(&target, "/app.js.br").text(), "as brotli");
}

#[test]
fn codings_of_an_index_are_served() {
    let folder = folder();
    folder.write("index.html.zst", b"as zstd");
    let target = folder.serve();
    assert_eq!(get_with(&target, "/", "Accept-Encoding: zstd\r\n").text(), "as zstd");
    let request =
        "HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAccept-Encoding: zstd\r\n\r\n";
    assert_eq!(bodiless(&target, request).field("Content-Length"), Some("7"));
}

#[test]
fn precompressed_files_may_be_added_and_removed() {
    let folder = folder();
    let options = FilesOptions { revalidate: Duration::ZERO, ..FilesOptions::default() };
    let target = folder.serve_as(options);
    for _ in 0..5 {
        assert_eq!(ask(&target, "br").text(), "as brotli");
        fs::remove_file(folder.public().join("app.js.br")).expect("it can be removed");
        assert_eq!(ask(&target, "br").text(), "plain");
        folder.write("app.js.br", b"as brotli");
        assert_eq!(ask(&target, "br").text(), "as brotli");
        folder.write("app.js", b"new");
        folder.age("app.js", long_ago() + Duration::from_hours(24 * 365 * 100));
        assert_eq!(ask(&target, "br").text(), "new", "what is coded is older");
        folder.write("app.js", b"plain");
        folder.age("app.js", long_ago());
    }
}

#[test]
fn a_new_coding_is_found_after_the_search_interval() {
    let folder = folder();
    fs::remove_file(folder.public().join("app.js.br")).expect("it can be removed");
    let target = folder
        .serve_as(FilesOptions { revalidate: Duration::from_millis(1), ..FilesOptions::default() });
    let mut client = target.connect();
    let mut ask = || {
        client.send("GET /app.js HTTP/1.1\r\nHost: a\r\nAccept-Encoding: br\r\n\r\n");
        client.answer()
    };
    assert_eq!(ask().text(), "plain");
    folder.write("app.js.br", b"as brotli");
    assert!((0..1_000_000).any(|_| ask().text() == "as brotli"), "it is there by now");
}
