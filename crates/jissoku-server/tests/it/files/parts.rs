//! Ranges of files over a socket; parsing is tested in `jissoku_http::range`.

use super::{Dir, bodiless, get, get_with, large, long_ago};
use crate::client::Answer;

/// A file for each kind of storage: behind its head, in memory, and on disk.
const FILES: [(&str, usize); 3] =
    [("small.bin", 500), ("medium.bin", 20_000), ("large.bin", 1_000_000)];

fn folder() -> Dir {
    let folder = Dir::new();
    folder.write("small.bin", &large()[..500]);
    for (name, _) in FILES {
        folder.age(name, long_ago());
    }
    folder
}

/// The parts of a multipart answer: its Content-Range and its bytes.
fn parts(answer: &Answer) -> Vec<(String, Vec<u8>)> {
    let content_type = answer.field("Content-Type").expect("a type");
    let boundary = content_type.strip_prefix("multipart/byteranges; boundary=").expect("parts");
    let delimiter = format!("\r\n--{boundary}").into_bytes();
    let body = [b"\r\n", &*answer.body].concat();
    let starts: Vec<usize> = (0..body.len())
        .filter(|&at| body[at..].starts_with(&delimiter))
        .map(|at| at + delimiter.len())
        .collect();
    let (last, firsts) = starts.split_last().expect("an end");
    assert_eq!(&body[*last..], b"--\r\n");
    let read = |(at, &start): (usize, &usize)| {
        let part = &body[start..starts[at + 1] - delimiter.len()];
        let head_end = part.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
        let head = str::from_utf8(&part[..head_end]).expect("a head is text");
        assert!(head.contains("\r\nContent-Type: application/octet-stream\r\n"), "{head:?}");
        let range = head.split("\r\nContent-Range: bytes ").nth(1).expect("a range");
        let range = range.split("\r\n").next().expect("a line").to_owned();
        (range, part[head_end..].to_vec())
    };
    firsts.iter().enumerate().map(read).collect()
}

#[test]
fn a_single_range_is_sent_as_it_is() {
    let folder = folder();
    let target = folder.serve();
    for (name, size) in FILES {
        let check = |range: &str, first: usize, last: usize| {
            let line = format!("Range: bytes={range}\r\n");
            let answer = get_with(&target, &format!("/{name}"), &line);
            let expected = format!("bytes {first}-{last}/{size}");
            assert_eq!((answer.status, answer.field("Content-Range")), (206, Some(&*expected)));
            assert!(answer.body == large()[first..=last], "{name} {range}");
            assert_eq!(answer.field("Content-Type"), Some("application/octet-stream"));
            assert!(answer.field("ETag").is_some() && answer.field("Last-Modified").is_some());
        };
        check("0-0", 0, 0);
        check("10-19", 10, 19);
        check("100-", 100, size - 1);
        check("-100", size - 100, size - 1);
        check("0-99999999", 0, size - 1);
        check("1-2,3-4", 1, 4);
    }
}

#[test]
fn several_parts_have_a_boundary() {
    let folder = folder();
    let target = folder.serve();
    for (name, size) in FILES {
        let line = "Range: bytes=0-9, 300-309, 20-29, 9999999-\r\n";
        let answer = get_with(&target, &format!("/{name}"), line);
        assert_eq!((answer.status, answer.field("Content-Range")), (206, None));
        let expected = [(0, 9), (300, 309), (20, 29)].map(|(first, last): (usize, usize)| {
            (format!("{first}-{last}/{size}"), large()[first..=last].to_vec())
        });
        assert_eq!(parts(&answer), expected, "{name}");
    }
    let line = "Range: bytes=0-0,2-2\r\n";
    let boundary = |answer: Answer| answer.field("Content-Type").expect("a type").to_owned();
    let one = boundary(get_with(&target, "/small.bin", line));
    let other = boundary(get_with(&target, "/small.bin", line));
    assert_ne!(one, other, "a boundary is not predictable");
}

#[test]
fn an_unsatisfiable_range_is_refused_with_the_size() {
    let folder = folder();
    let target = folder.serve();
    for (name, size) in FILES {
        let answer = get_with(&target, &format!("/{name}"), "Range: bytes=1000000-\r\n");
        let expected = format!("bytes */{size}");
        assert_eq!((answer.status, answer.field("Content-Range")), (416, Some(&*expected)));
    }
}

#[test]
fn an_invalid_range_is_ignored() {
    let folder = folder();
    let target = folder.serve();
    let whole = |lines: &str| {
        let answer = get_with(&target, "/small.bin", lines);
        assert_eq!((answer.status, answer.body.len()), (200, 500), "{lines:?}");
        assert_eq!(answer.field("Accept-Ranges"), Some("bytes"));
    };
    whole("Range: lines=0-1\r\n");
    whole("Range: bytes=5-1\r\n");
    whole("Range: bytes=0-1\r\nRange: bytes=4-5\r\n");
    whole("Range: bytes=0-9,20-29,5-14\r\n");
    let request =
        "HEAD /small.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\nRange: bytes=0-1\r\n\r\n";
    let answer = bodiless(&target, request);
    assert_eq!((answer.status, answer.field("Content-Length")), (200, Some("500")));
}

#[test]
fn a_range_is_sent_only_if_if_range_matches() {
    let folder = folder();
    let target = folder.serve();
    for (name, _) in FILES {
        let path = format!("/{name}");
        let tag = get(&target, &path).field("ETag").expect("a tag").to_owned();
        let status =
            |lines: &str| get_with(&target, &path, &format!("Range: bytes=0-1\r\n{lines}")).status;
        assert_eq!(status(&format!("If-Range: {tag}\r\n")), 206);
        assert_eq!(status("If-Range: \"other\"\r\n"), 200);
        assert_eq!(status(&format!("If-Range: W/{tag}\r\n")), 200);
        assert_eq!(status("If-Range: Sun, 06 Nov 1994 08:49:37 GMT\r\n"), 206);
        assert_eq!(status("If-Range: Sun, 06 Nov 1994 08:49:38 GMT\r\n"), 200);
        assert_eq!(status("If-Match: \"other\"\r\n"), 412);
        let with_if_range = "Range: bytes=1000000-\r\nIf-Range: \"other\"\r\n";
        assert_eq!(get_with(&target, &path, with_if_range).status, 200);
    }
}

#[test]
fn ranges_in_a_pipeline_are_in_order() {
    let folder = folder();
    let target = folder.serve();
    let mut client = target.connect();
    let ask = |name: &str, range: &str| {
        format!("GET /{name} HTTP/1.1\r\nHost: a\r\nRange: bytes={range}\r\n\r\n")
    };
    for _ in 0..4 {
        client.send(
            &(ask("large.bin", "5-900000")
                + &ask("small.bin", "1-3")
                + &ask("medium.bin", "0-0,-1")),
        );
    }
    for _ in 0..4 {
        assert!(client.answer().body == large()[5..=900_000]);
        assert_eq!(client.answer().body, large()[1..=3]);
        assert_eq!(parts(&client.answer()).len(), 2);
    }
}
