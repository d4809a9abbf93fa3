use super::*;
use crate::limits::Limits;

fn read(bytes: &[u8]) -> Head {
    let head = HeadReader::default().read(bytes, &Limits::DEFAULT);
    head.expect("the head is in order").expect("the head is complete")
}

#[test]
fn a_head_holds_places_in_the_bytes() {
    let bytes = b"PATCH /a?b HTTP/1.1\r\nHost: h\r\nA: b c \r\n\r\nrest";
    let head = read(bytes);
    assert_eq!(head.method, Method::Patch);
    assert_eq!(head.method_name.of(bytes), b"PATCH");
    assert_eq!(head.target.of(bytes), b"/a?b");
    assert_eq!(head.fields.of(bytes), b"Host: h\r\nA: b c \r\n");
    assert_eq!(&bytes[head.size as usize..], b"rest");
    let fields: Vec<_> = head.fields(bytes).collect();
    assert_eq!(fields, [(&b"Host"[..], &b"h"[..]), (b"A", b"b c")]);
}

#[test]
fn the_host_of_an_absolute_target_is_that_of_the_request() {
    let check = |target: &str, expected: &str| {
        let bytes = format!("GET {target} HTTP/1.1\r\nA: b\r\nhOsT: a:1\r\n\r\n");
        let host = read(bytes.as_bytes()).host(bytes.as_bytes());
        assert_eq!(host, Some(expected.as_bytes()), "{target}");
    };
    check("/http://b/", "a:1");
    check("http://b:2/c", "b:2");
    check("http://b?c", "b");
    let bytes = b"GET / HTTP/1.0\r\n\r\n";
    assert_eq!(read(bytes).host(bytes), None);
}

#[test]
fn every_form_of_a_target_has_its_path() {
    let check = |target: &str, expected: &str| {
        let method = if target == "*" { "OPTIONS" } else { "GET" };
        let bytes = format!("{method} {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        let path = read(bytes.as_bytes()).path_and_query(bytes.as_bytes());
        assert_eq!(String::from_utf8_lossy(path), expected, "{target}");
    };
    check("/", "/");
    check("/a/b?c=/d", "/a/b?c=/d");
    check("http://h/a?b", "/a?b");
    check("HTTPS://h:1/a", "/a");
    check("http://h", "/");
    check("*", "*");
}

#[test]
fn known_methods_are_case_sensitive() {
    let method =
        |name: &str| read(format!("{name} / HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).method;
    assert_eq!(method("GET"), Method::Get);
    assert_eq!(method("HEAD"), Method::Head);
    assert_eq!(method("DELETE"), Method::Delete);
    assert_eq!(method("get"), Method::Other);
    assert_eq!(method("GETX"), Method::Other);
}
