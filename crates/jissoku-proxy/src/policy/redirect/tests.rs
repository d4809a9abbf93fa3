use jissoku_http::Limits;
use jissoku_http::head::HeadReader;
use proptest::prelude::*;

use super::*;
use crate::policy::fields::Side;
use crate::policy::routes::PathPattern;

fn parse(text: &str) -> Result<Redirect, String> {
    Redirect::parse(text, &["tenant"], 308)
}

/// The location for a request with these bytes; `None` if it is refused, here or by the parser.
fn location(redirect: &Redirect, target: &[u8], host: &[u8]) -> Option<Vec<u8>> {
    let request = [b"GET ", target, b" HTTP/1.1\r\nHost: ", host, b"\r\n\r\n"].concat();
    let head = HeadReader::default().read(&request, &Limits::DEFAULT).ok()??;
    let path = head.path_and_query(&request).split(|byte| *byte == b'?').next()?;
    let captures = PathPattern::parse("/{tenant}/**").unwrap().matches(path).unwrap_or_default();
    let (bytes, client, host) = (request.as_slice(), None, None);
    let values = Values {
        head: &head,
        bytes,
        client,
        is_secure: false,
        host,
        request_id: None,
        captures: &captures,
    };
    let lines = redirect.lines(&values)?;
    let end = lines.iter().position(|byte| *byte == b'\r')?;
    let text = lines.get(..end)?.strip_prefix(b"Location: ")?;
    assert!(lines[end..].starts_with(b"\r\n"));
    assert!(!text.iter().any(|byte| matches!(byte, 0..=0x20 | 0x7f)), "{text:?}");
    Some(text.to_vec())
}

#[test]
fn a_location_has_the_parts_of_the_request() {
    for (text, target, host, expected) in [
        ("https://{host}{target}", "/a%20b?c", "h:8", "https://h:8/a%20b?c"),
        ("https://{hostname}{target}", "/a?c", "h:8", "https://h/a?c"),
        ("https://{hostname}:8443{target}", "/", "[::1]:80", "https://[::1]:8443/"),
        ("https://{hostname}/", "/x", "[::1]", "https://[::1]/"),
        ("https://www.example.org{path}", "//evil/x?y", "h", "https://www.example.org//evil/x"),
        ("{scheme}://h.example:81/{tenant}", "/t/x", "h", "http://h.example:81/t"),
        ("https://h", "/t", "x", "https://h"),
        ("/new{target}", "/old?x", "h", "/new/old?x"),
        ("{path}/", "/old", "h", "/old/"),
        ("/{tenant}/new", "/t/x", "h", "/t/new"),
    ] {
        let found = location(&parse(text).unwrap(), target.as_bytes(), host.as_bytes()).unwrap();
        assert_eq!(String::from_utf8_lossy(&found), expected, "{text}");
    }
    let mut fields = FieldRules::default();
    fields.add("Cache-Control: max-age=60", Side::Response, &[]).unwrap();
    let redirect = Redirect { fields, ..parse("/x").unwrap() };
    assert_eq!(location(&redirect, b"/", b"h").unwrap(), b"/x");
}

#[test]
fn a_host_that_a_client_could_choose_is_refused() {
    for text in [
        "https://{tenant}.example.org/",
        "https://{tenant}",
        "https://www.{tenant}/",
        "https://www.example.org{query}",
        "https://www.example.org{tenant}",
        "https://www.example.org.{host}/",
        "https://{host}.example.org/",
        "https://{host}{query}",
        "https://{host}@example.org/",
        "https://user@example.org/",
        "https://{host}:{tenant}/",
        "https://{host}:8443/",
        "https://{hostname}:0/",
        "https://{hostname}:/",
        "https://{client}/",
        "https:///x",
        "https:/x",
        "https://",
        "https://h\\x",
        "https://h/a b",
        "https://h/\r\nA: b",
        "https://h?{target}",
        "//evil.example/",
        "/{target}",
        "/{path}",
        "\\\\evil.example",
        "javascript:alert(1)",
        "{scheme}:{target}",
        "{tenant}://h/",
        "{host}{target}",
        "ftp://h/",
        "",
        "x",
    ] {
        assert!(parse(text).is_err(), "{text}");
    }
}

/// No request leads to another host than that of the configuration.
#[test]
fn no_request_opens_a_redirect() {
    let targets = [
        "//evil.example",
        "///evil.example",
        "/\\evil.example",
        "/\\/evil.example",
        "\\\\evil.example",
        "/%5cevil.example",
        "/%2fevil.example",
        "/%0d%0aLocation:%20//evil",
        "/\t/evil.example",
        "/.//evil.example",
        "/@evil.example",
        "/?//evil.example",
        "http://evil.example/x",
        "//evil.example/%2e%2e",
        "//evil.example\\@h",
    ];
    for text in ["{target}", "{path}", "{path}/", "/{tenant}/x", "/{tenant}", "{target}x"] {
        let redirect = parse(text).unwrap();
        for target in targets {
            let Some(found) = location(&redirect, target.as_bytes(), b"h") else { continue };
            let is_path = found.first() == Some(&b'/');
            assert!(is_path && !matches!(found.get(1), Some(b'/' | b'\\')), "{text} {target}");
        }
    }
    for text in ["https://www.example.org{target}", "https://www.example.org/x{path}?{query}"] {
        let redirect = parse(text).unwrap();
        for target in targets.into_iter().filter(|target| target.starts_with('/')) {
            let Some(found) = location(&redirect, target.as_bytes(), b"h") else { continue };
            let rest = found.strip_prefix(b"https://www.example.org".as_slice());
            assert!(rest.is_some_and(|rest| rest.starts_with(b"/")), "{text} {target}");
        }
    }
    let redirect = parse("https://{host}{target}").unwrap();
    for host in [
        "user@evil.example",
        "h:80@evil.example",
        "h/evil.example",
        "h\\evil.example",
        "h?x",
        "h#x",
        "h x",
        "h%2eexample",
        "h:80:90",
        "h:",
        ":80",
        "[::1",
        "[::1]x",
        "[x]",
        "",
        "h,evil.example",
        "h\u{e9}",
    ] {
        assert_eq!(location(&redirect, b"/", host.as_bytes()), None, "{host}");
    }
}

proptest! {
    #[test]
    fn whatever_is_parsed_stays_on_its_host(
        target in prop::collection::vec(any::<u8>(), 0..16),
        host in prop::collection::vec(any::<u8>(), 0..8),
    ) {
        let target = [b"/", target.as_slice()].concat();
        if let Some(found) = location(&parse("{target}").unwrap(), &target, &host) {
            prop_assert!(!matches!(found.get(1), Some(b'/' | b'\\')));
        }
        if let Some(found) = location(&parse("https://{host}{target}").unwrap(), b"/", &host) {
            let name = &found[b"https://".len()..found.len() - 1];
            prop_assert!(name.iter().all(|it| it.is_ascii_alphanumeric() || b"-._:[]".contains(it)));
        }
    }
}
