//! Malicious paths.

use std::cell::RefCell;

use jissoku_server::FilesOptions;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::{Dir, get_with};
use crate::client::{Client, Target};

/// Segments of paths that try to leave the root.
const PIECES: &str = "(/|//|\\.|\\.\\.|%2e|%2E%2e|%2f|%5c|\\\\|%00|%|%25|%252e|%c0%ae|;|~|:|a|index\\.html|\
    sub%20dir|round|out\\.txt|secret\\.txt|\\.hidden|home\\.html|\\.well-known|medium\\.bin|\\*|etc/passwd){0,9}";

fn check(target: &Target, paths: impl Strategy<Value = String>, cases: u32) {
    let client: RefCell<Option<Client>> = RefCell::new(None);
    let mut runner = TestRunner::new(ProptestConfig { cases, ..ProptestConfig::default() });
    let outcome = runner.run(&paths, |path| {
        let mut client = client.borrow_mut();
        let client = client.get_or_insert_with(|| target.connect());
        client.send(&format!("GET /{path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let answer = client.answer();
        prop_assert!(matches!(answer.status, 200 | 301 | 404), "{} for {path:?}", answer.status);
        prop_assert!(answer.body != b"secret" && answer.body != b"hidden", "{path:?}");
        let location = answer.field("Location").unwrap_or("./");
        let segment = location.strip_prefix("./").or(location.strip_prefix("../"));
        let segment = segment.map(|segment| segment.strip_suffix('/').unwrap_or(segment));
        prop_assert!(
            segment.is_some_and(|segment| !segment.contains('/') && !segment.contains(':')),
            "{path:?} leads to {location:?}"
        );
        Ok(())
    });
    outcome.expect("no path leaves the root, and none is a server error");
}

#[test]
fn no_path_leaves_the_root_or_is_a_server_error() {
    let folder = Dir::new();
    let target = folder.serve();
    check(&target, PIECES, 1_000);
}

#[test]
fn listings_and_pages_do_not_leave_the_root() {
    let folder = Dir::new();
    folder.link("../../secret.txt", "sub dir/out.html");
    for is_spa in [false, true] {
        let options = FilesOptions { is_spa, has_clean_urls: true, ..FilesOptions::default() };
        let target = folder.serve_as(options);
        check(&target, PIECES, 500);
    }
    let options = FilesOptions {
        lists_folders: true,
        not_found: Some("home.html".to_owned()),
        ..FilesOptions::default()
    };
    let target = folder.serve_as(options);
    check(&target, PIECES, 500);
}

#[test]
fn names_need_not_be_utf8() {
    let folder = Dir::new();
    let target = folder.serve();
    let encode = |byte: &u8| format!("%{byte:02x}");
    let paths = prop::collection::vec(any::<u8>(), 0..300)
        .prop_map(move |bytes| bytes.iter().map(encode).collect::<Vec<_>>().concat());
    check(&target, paths, 500);
}

#[test]
fn more_names_than_are_cached_are_served() {
    let folder = Dir::new();
    let target = folder.serve();
    let mut client = target.connect();
    for number in 0..10_000 {
        client.send(&format!("GET /no/such/name/{number} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(client.answer().status, 404);
        if number % 1000 == 0 {
            assert_eq!(get_with(&target, "/", "").text(), "<p>home");
        }
    }
}
