//! Media types, sizes and names, and no file outside the root.

use std::path::Path;
use std::time::Duration;

use jissoku_lab::fixtures::Contract;
use jissoku_server::{Files, FilesOptions};

use super::{Dir, bodiless, get, get_with, large};
use crate::client::Target;

#[test]
fn files_have_their_media_types() {
    let folder = Dir::new();
    let target = folder.serve();
    let check = |path: &str, content_type: &str, body: &[u8]| {
        let answer = get(&target, path);
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(answer.field("Content-Type"), Some(content_type), "{path}");
        assert_eq!(answer.body, body, "{path}");
    };
    check("/", "text/html; charset=utf-8", b"<p>home");
    check("/?query", "text/html; charset=utf-8", b"<p>home");
    check("/index.html", "text/html; charset=utf-8", b"<p>home");
    check("/home.html", "text/html; charset=utf-8", b"<p>home");
    check("/round/index.html", "text/html; charset=utf-8", b"<p>home");
    check("/medium.bin", "application/octet-stream", &large()[..20_000]);
    check("/empty.css", "text/css; charset=utf-8", b"");
    check("/large.bin", "application/octet-stream", &large());
    check("/sub%20dir/", "text/html; charset=utf-8", b"<p>sub");
    check("/sub%20dir/a+b.txt", "text/plain; charset=utf-8", "あ".as_bytes());
    check("/./x/../sub%20dir//a%2bb.txt", "text/plain; charset=utf-8", "あ".as_bytes());
}

#[test]
fn a_charset_is_claimed_only_for_a_text_that_was_read_to_its_end() {
    let folder = Dir::new();
    let ascii = vec![b'a'; 100_000];
    folder.write("utf8.txt", &[&ascii[..], "あ".as_bytes()].concat());
    folder.write("latin1.txt", &[&ascii[..], b"\xe4"].concat());
    folder.write("declared.html", &[&b"<meta charset=sjis>"[..], &ascii].concat());
    folder.write("huge.txt", &ascii.repeat(11));
    let target = folder.serve();
    let check = |path: &str, expected| {
        assert_eq!(get(&target, path).field("Content-Type"), Some(expected), "{path}");
    };
    check("/utf8.txt", "text/plain; charset=utf-8");
    check("/latin1.txt", "text/plain");
    check("/declared.html", "text/html");
    check("/huge.txt", "text/plain");
}

#[test]
fn a_compressed_svg_image_has_its_coding() {
    let folder = Dir::new();
    folder.write("a.svgz", b"\x1f\x8bzipped");
    folder.write("a.svgz.br", b"not for browsers");
    folder.write("large.SVGZ", &[&b"\x1f\x8b"[..], &large()].concat());
    folder.write("plain.svgz", b"<svg/>");
    let target = folder.serve();
    let check = |path: &str, coding| {
        let answer = get_with(&target, path, "Accept-Encoding: br\r\n");
        assert_eq!(answer.field("Content-Type"), Some("image/svg+xml"), "{path}");
        assert_eq!(answer.field("Content-Encoding"), coding, "{path}");
    };
    check("/a.svgz", Some("gzip"));
    check("/large.SVGZ", Some("gzip"));
    check("/plain.svgz", None);
}

#[test]
fn nothing_hidden_or_outside_is_served() {
    let folder = Dir::new();
    let target = folder.serve();
    let paths = [
        "/.hidden",
        "/%2ehidden",
        "/out.txt",
        "/../secret.txt",
        "/%2e%2e/secret.txt",
        "/..%2fsecret.txt",
        "/sub%20dir/../../secret.txt",
        "/index.html/",
        "/%00",
        "/%zz",
        "/nothing",
        "//etc/passwd",
        "/sub%20dir/..%5c..%5csecret.txt",
    ];
    for path in paths {
        assert_eq!(get(&target, path).status, 404, "{path}");
    }
}

#[test]
fn a_directory_without_a_slash_is_redirected() {
    let folder = Dir::new();
    let target = folder.serve();
    let answer = get(&target, "/sub%20dir");
    assert_eq!(answer.status, 301);
    assert_eq!(answer.field("Location"), Some("./sub%20dir/"));
    // Relative to whatever was asked for, so that no path can name another host.
    assert_eq!(get(&target, "//sub%20dir").field("Location"), Some("./sub%20dir/"));
    assert_eq!(get(&target, "/sub%20dir?a=b").field("Location"), Some("./sub%20dir/?a=b"));
}

#[test]
fn other_methods_than_get_and_head_are_refused() {
    const ALLOW: Option<&str> = Some("GET, HEAD, OPTIONS");
    let folder = Dir::new();
    let target = folder.serve();
    let answer = target.ask("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx");
    assert_eq!((answer.status, answer.field("Allow")), (405, ALLOW));
    for path in ["*", "/index.html"] {
        let request = format!("OPTIONS {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let answer = bodiless(&target, &request);
        assert_eq!((answer.status, answer.field("Allow")), (204, ALLOW));
        assert_eq!(answer.field("Content-Length"), None);
    }
    for (path, size) in [("large.bin", "1000000"), ("medium.bin", "20000"), ("", "7")] {
        let request = format!("HEAD /{path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        assert_eq!(bodiless(&target, &request).field("Content-Length"), Some(size));
    }
}

#[test]
fn large_files_in_a_pipeline_are_complete() {
    let folder = Dir::new();
    let target = folder.serve();
    let mut client = target.connect();
    client.send(
        &"GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(8),
    );
    for _ in 0..8 {
        assert!(client.answer().body == large(), "the bytes differ");
        assert_eq!(client.answer().body, b"<p>home");
    }
}

#[test]
fn the_contract_serves_files_below_its_own_path() {
    let folder = Dir::new();
    let files = folder.open(FilesOptions::default());
    let target = Target::serve(Contract::new(Some(files), Duration::ZERO, 0));
    assert_eq!(get(&target, "/files/large.bin").body, large());
    assert_eq!(get(&target, "/files/../files/large.bin").status, 404);
    assert_eq!(get(&target, "/large.bin").status, 404);
    assert_eq!(get(&target, "/files/out.txt").status, 404);
    assert_eq!(get(&target, "/").text(), "Hello, World!");
}

#[test]
fn a_missing_directory_is_named() {
    let outcome = Files::open(Path::new("/nowhere/at/all"), FilesOptions::default());
    let why = outcome.expect_err("there is no such folder");
    assert!(why.starts_with("cannot read /nowhere/at/all: "), "{why}");
}
