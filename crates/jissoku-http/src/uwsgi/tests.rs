use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use proptest::prelude::*;

use super::*;
use crate::forward::{ClientFields, ForwardedHost, PathEdit, RequestEdit, write_request_head};
use crate::framing::Body;
use crate::head::{HeadReader, Method, Version};
use crate::limits::Limits;
use crate::reject::Reject;

const LIMITS: &Limits = &Limits::DEFAULT;

/// A packet of these variables.
fn packet(variables: &[(&str, &str)]) -> Vec<u8> {
    let mut list = Vec::new();
    for text in variables.iter().flat_map(|(name, value)| [name, value]) {
        list.extend(u16::try_from(text.len()).expect("a short text").to_le_bytes());
        list.extend(text.as_bytes());
    }
    let size = u16::try_from(list.len()).expect("a short packet").to_le_bytes();
    [&[0, size[0], size[1], 0], &*list].concat()
}

fn head(variables: &[(&str, &str)]) -> Result<UwsgiHead, Reject> {
    let bytes = packet(variables);
    let packet = read(&bytes, LIMITS)?.expect("it is complete");
    assert_eq!(packet.size, bytes.len());
    packet.to_head(LIMITS)
}

/// The request target of a GET with these variables.
fn target(variables: &[(&str, &str)]) -> Result<String, Reject> {
    let head = head(&[&[("REQUEST_METHOD", "GET")], variables].concat())?;
    Ok(String::from_utf8_lossy(head.head.target.of(&head.text)).into_owned())
}

#[test]
fn a_packet_becomes_a_head() {
    let found = head(&[
        ("REQUEST_METHOD", "POST"),
        ("REQUEST_URI", "/a%20b?c=d"),
        ("PATH_INFO", "/a b"),
        ("QUERY_STRING", "c=d"),
        ("SERVER_PROTOCOL", "HTTP/2.0"),
        ("CONTENT_TYPE", "text/plain"),
        ("CONTENT_LENGTH", "3"),
        ("REMOTE_ADDR", "192.0.2.1"),
        ("HTTP_HOST", "example.org"),
        ("HTTP_CONNECTION", "keep-alive"),
        ("HTTP_EXPECT", "100-continue"),
        ("HTTP_CONTENT_LENGTH", "3"),
        ("HTTP_TRANSFER_ENCODING", "chunked"),
        ("HTTP_X_ONE", "1"),
    ]);
    let UwsgiHead { head, text } = found.expect("a valid packet");
    assert_eq!((head.method, head.body), (Method::Post, Body::Length(3)));
    assert_eq!((head.version, head.keeps_alive), (Version::Http10, false));
    assert!(!head.expects_continue);
    let expected = "POST /a%20b?c=d HTTP/1.1\r\nhost: example.org\r\nexpect: 100-continue\r\n\
        x-one: 1\r\ncontent-type: text/plain\r\ncontent-length: 3\r\n\r\n";
    assert_eq!(String::from_utf8_lossy(&text), expected);
}

#[test]
fn a_target_is_that_of_the_client_unless_it_was_rewritten() {
    let uri = ("REQUEST_URI", "/a/%62?x=1");
    assert_eq!(target(&[uri]), Ok("/a/%62?x=1".into()));
    assert_eq!(target(&[uri, ("PATH_INFO", "/a/b")]), Ok("/a/%62?x=1".into()));
    assert_eq!(target(&[uri, ("PATH_INFO", "/b")]), Ok("/b".into()));
    let rewritten = [uri, ("PATH_INFO", "/a/b"), ("QUERY_STRING", "y")];
    assert_eq!(target(&rewritten), Ok("/a/b?y".into()));
    assert_eq!(target(&[("PATH_INFO", "/\u{e9} \r\n%?#")]), Ok("/%C3%A9%20%0D%0A%25%3F%23".into()));
    assert_eq!(target(&[("PATH_INFO", "")]), Ok("/".into()));
    assert_eq!(target(&[]), Err(Reject::TargetInvalid));
    let all = [("REQUEST_METHOD", "OPTIONS"), ("REQUEST_URI", "*"), ("PATH_INFO", "*")];
    assert_eq!(head(&all).map(|head| head.head.target.of(&head.text).to_vec()), Ok(b"*".to_vec()));
    assert_eq!(target(&[("REQUEST_URI", "*")]), Err(Reject::TargetInvalid));
    assert_eq!(target(&[("REQUEST_URI", "x")]), Err(Reject::TargetInvalid));
    let injected = [("PATH_INFO", "/"), ("QUERY_STRING", "a HTTP/1.1\r\nX: y")];
    assert_eq!(target(&injected), Err(Reject::TargetInvalid));
}

#[test]
fn a_script_name_is_in_the_target_once() {
    let with = |script, path| {
        let variables = packet(&[("SCRIPT_NAME", script), ("PATH_INFO", path)]);
        let packet = read(&variables, LIMITS).expect("valid").expect("complete");
        let (script, path) = packet.variables.script_and_path();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut target = Vec::new();
        target::write(&packet.variables, &mut target).expect("a target");
        (text(script), text(path.expect("it was sent")), text(&target))
    };
    let expected = |script: &str, path: &str, target: &str| {
        (script.to_owned(), path.to_owned(), target.to_owned())
    };
    assert_eq!(with("/app", "/app/x"), expected("/app", "/x", "/app/x"));
    assert_eq!(with("/app", "/x"), expected("/app", "/x", "/app/x"));
    assert_eq!(with("/app/", "/app"), expected("/app", "", "/app"));
    assert_eq!(with("/app", "/apple"), expected("/app", "/apple", "/app/apple"));
    assert_eq!(with("", "/x"), expected("", "/x", "/x"));
    assert_eq!(with("/", "/x"), expected("", "/x", "/x"));
}

#[test]
fn text_that_would_change_the_head_is_refused() {
    let with = |name, value| {
        head(&[("REQUEST_METHOD", "GET"), ("PATH_INFO", "/"), (name, value)]).map(drop)
    };
    assert_eq!(with("HTTP_A", "b\r\nX: y"), Err(Reject::ControlByte));
    assert_eq!(with("HTTP_A", "b\0"), Err(Reject::ControlByte));
    assert_eq!(with("HTTP_A: b\r\nC", "d"), Err(Reject::FieldNameInvalid));
    assert_eq!(with("HTTP_", "d"), Err(Reject::FieldNameInvalid));
    assert_eq!(with("REQUEST_METHOD", "GET / HTTP/1.1\r\nX:"), Err(Reject::MethodInvalid));
    assert_eq!(with("REQUEST_METHOD", ""), Err(Reject::MethodInvalid));
    assert_eq!(with("CONTENT_LENGTH", "-1"), Err(Reject::ContentLengthInvalid));
    assert_eq!(with("CONTENT_LENGTH", "9999999"), Err(Reject::BodyTooLong));
    assert_eq!(with("HTTP_HOST", "a b"), Err(Reject::HostInvalid));
    assert_eq!(with("HTTP_HOST", ""), Ok(()));
    assert_eq!(head(&[("PATH_INFO", "/")]).map(drop), Err(Reject::PacketInvalid));
}

#[test]
fn a_packet_with_other_lengths_is_refused() {
    assert_eq!(read(b"GET / HTTP/1.1\r\n", LIMITS), Err(Reject::PacketInvalid));
    assert_eq!(read(&[0, 255, 255], LIMITS), Err(Reject::PacketTooLong));
    assert_eq!(read(&[0, 1, 0, 0, 1], LIMITS), Err(Reject::PacketInvalid));
    assert_eq!(read(&[0, 4, 0, 0, 1, 0, 65, 1], LIMITS), Err(Reject::PacketInvalid));
    assert_eq!(read(&[0, 4, 0, 0, 200, 0, 65, 1], LIMITS), Err(Reject::PacketInvalid));
    assert_eq!(read(&[5, 0, 0, 0], LIMITS).map(|found| found.is_some()), Ok(true));
    let many = packet(&[("A", ""); 301]);
    assert_eq!(read(&many, LIMITS), Err(Reject::PacketTooLong));
    let fields = [&[("REQUEST_METHOD", "GET"), ("PATH_INFO", "/")][..], &[("HTTP_A", "b"); 101]];
    assert_eq!(head(&fields.concat()).map(drop), Err(Reject::FieldsTooMany));
}

#[test]
fn without_a_length_there_is_no_body() {
    let line = [("REQUEST_METHOD", "POST"), ("PATH_INFO", "/")];
    let body = |more: &[_]| head(&[&line, more].concat()).expect("a valid packet").head.body;
    assert_eq!(body(&[]), Body::Empty);
    assert_eq!(body(&[("CONTENT_LENGTH", "")]), Body::Empty);
    assert_eq!(body(&[("CONTENT_LENGTH", "7")]), Body::Length(7));
    let chunked = [("HTTP_HOST", "a"), ("HTTP_TRANSFER_ENCODING", "chunked")];
    assert_eq!(body(&chunked), Body::Chunked);
    assert_eq!(body(&[chunked[0], chunked[1], ("CONTENT_LENGTH", "7")]), Body::Length(7));
}

#[test]
fn https_is_what_the_front_end_says() {
    let is_secure = |variables: &[_]| Variables::new(&packet(variables)[4..]).is_secure();
    assert!(is_secure(&[("HTTPS", "on")]));
    assert!(is_secure(&[("HTTPS", ""), ("REQUEST_SCHEME", "https")]));
    assert!(!is_secure(&[("HTTPS", "off"), ("REQUEST_SCHEME", "https")]));
    assert!(!is_secure(&[("REQUEST_SCHEME", "http")]));
    assert!(!is_secure(&[]));
}

const CLIENT: PacketOrigin = PacketOrigin {
    client: Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 4321)),
    is_secure: false,
};

/// The variables of a forwarded head, as lines.
fn written(text: &str, origin: PacketOrigin) -> Vec<String> {
    let mut output = b"..".to_vec();
    assert_eq!(write(text.as_bytes(), origin, &mut output), Ok(()));
    let packet = read(&output[2..], LIMITS).expect("valid").expect("complete");
    assert_eq!(packet.size, output.len() - 2);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    packet.variables.iter().map(|(name, value)| text(name) + "=" + &text(value)).collect()
}

#[test]
fn a_forwarded_head_becomes_a_packet() {
    let text = "POST /a%20b?c=%64 HTTP/1.1\r\nHost: example.org:8080\r\nCookie: a=1\r\nX-One: 1\r\n\
        Content-Type: text/plain\r\nx-one: 2, 3\r\ncookie: b=2\r\nX-Empty: \r\n\
        Content-Length: 3\r\n\r\n";
    let expected = [
        "QUERY_STRING=c=%64",
        "REQUEST_METHOD=POST",
        "REQUEST_URI=/a%20b?c=%64",
        "SCRIPT_NAME=",
        "PATH_INFO=/a b",
        "SERVER_PROTOCOL=HTTP/1.1",
        "CONTENT_TYPE=text/plain",
        "CONTENT_LENGTH=3",
        "REQUEST_SCHEME=http",
        "SERVER_NAME=example.org",
        "SERVER_PORT=8080",
        "REMOTE_ADDR=192.0.2.1",
        "REMOTE_PORT=4321",
        "HTTP_HOST=example.org:8080",
        "HTTP_COOKIE=a=1; b=2",
        "HTTP_X_ONE=1,2, 3",
        "HTTP_X_EMPTY=",
    ];
    assert_eq!(written(text, CLIENT), expected);
}

#[test]
fn a_packet_says_who_the_client_is() {
    let has = |text: &str, origin, expected: &[&str], absent: &[&str]| {
        let lines = written(&format!("GET / HTTP/1.1\r\n{text}\r\n"), origin);
        for line in expected {
            assert!(lines.iter().any(|other| other == line), "{line} in {lines:?}");
        }
        for name in absent {
            assert!(!lines.iter().any(|line| line.starts_with(name)), "{name} in {lines:?}");
        }
    };
    let secure = PacketOrigin { client: None, is_secure: true };
    let https = ["REQUEST_SCHEME=https", "HTTPS=on", "SERVER_NAME=h", "SERVER_PORT=443"];
    has("Host: h\r\n", secure, &https, &["REMOTE_"]);
    let lengths = ["CONTENT_LENGTH=", "CONTENT_TYPE=", "QUERY_STRING=", "SERVER_PORT=80"];
    has("Host: h:\r\n", CLIENT, &lengths, &["HTTPS", "HTTP_CONTENT"]);
    let unknown: SocketAddr = "[::ffff:192.0.2.9]:0".parse().expect("an address");
    let mapped = PacketOrigin { client: Some(unknown), is_secure: false };
    has(
        "Host: [::1]:81\r\n",
        mapped,
        &["REMOTE_ADDR=192.0.2.9", "SERVER_NAME=[::1]"],
        &["REMOTE_PORT"],
    );
    has("Host: [::1]\r\n", CLIENT, &["SERVER_NAME=[::1]", "SERVER_PORT=80"], &[]);
    has("", CLIENT, &["SERVER_NAME=", "SERVER_PORT=80"], &["HTTP_"]);
}

#[test]
fn a_packet_holds_64_kib() {
    let with = |size| {
        let text = format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "a".repeat(size));
        let mut output = Vec::new();
        write(text.as_bytes(), PacketOrigin::default(), &mut output).map(|()| output.len())
    };
    let fixed = with(0).expect("it is small");
    let room = usize::from(u16::MAX) + 4 - fixed;
    assert_eq!(with(room), Ok(usize::from(u16::MAX) + 4));
    assert_eq!(with(room + 1), Err(PacketTooLarge));
    assert_eq!(with(70_000), Err(PacketTooLarge));
}

/// A plain definition of the fields of a packet: in lower case, joined by name.
fn joined(fields: impl Iterator<Item = (String, String)>) -> BTreeMap<String, String> {
    let mut all = BTreeMap::<String, Vec<String>>::new();
    for (name, value) in fields {
        all.entry(name.to_lowercase()).or_default().push(value);
    }
    let join = |(name, values): (String, Vec<String>)| {
        let separator = if name == "cookie" { "; " } else { "," };
        // Of empty values at the end, the reader of fields drops the space.
        (name, values.join(separator).trim().to_owned())
    };
    all.into_iter().map(join).collect()
}

proptest! {
    #[test]
    fn what_is_read_from_a_packet_is_the_forwarded_head(
        fields in prop::collection::vec(("[A-Za-z][A-Za-z.-]{0,5}|Cookie|Accept", "[!-~]{0,12}"), 0..9),
        target in "/[!-\"$->@-~]{0,20}([?][!-\"$-~]{0,9})?",
        size in prop::option::of(0_u16..1000),
    ) {
        let lines: Vec<_> =
            fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let lines = lines.concat();
        let length = size.map(|size| format!("Content-Length: {size}\r\n")).unwrap_or_default();
        let request = format!("PUT {target} HTTP/1.1\r\nHost: h\r\n{lines}{length}\r\n");
        let Ok(Some(received)) = HeadReader::default().read(request.as_bytes(), LIMITS) else {
            return Ok(());
        };
        let edit = RequestEdit {
            via: Some("jissoku"),
            client_fields: ClientFields::Drop,
            client: Some("192.0.2.1"),
            is_secure: false,
            host: ForwardedHost::Client,
            upstream_host: "up",
            collected_size: None,
            passes: None,
            has_trailers: false,
            own_field: None,
            path: PathEdit::default(),
            removed: None,
        };
        let mut text = Vec::new();
        if write_request_head(&received, request.as_bytes(), &edit, &mut text).is_err() {
            return Ok(());
        }
        let forwarded = HeadReader::default().read(&text, LIMITS).expect("valid").expect("whole");
        let mut output = Vec::new();
        prop_assert_eq!(write(&text, CLIENT, &mut output), Ok(()));
        let packet = read(&output, LIMITS).expect("valid").expect("complete");
        let found = packet.to_head(LIMITS).expect("a request");
        prop_assert_eq!(found.head.method, forwarded.method);
        prop_assert_eq!(found.head.target.of(&found.text), target.as_bytes());
        prop_assert_eq!(found.head.body, forwarded.body);
        let pairs = |head: &crate::Head, text: &[u8]| {
            let text_of = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let pairs: Vec<_> =
                head.fields(text).map(|(name, value)| (text_of(name), text_of(value))).collect();
            joined(pairs.into_iter())
        };
        prop_assert_eq!(pairs(&found.head, &found.text), pairs(&forwarded, &text));
    }

    #[test]
    fn cuts_do_not_matter(variables in prop::collection::vec(
        (prop_oneof![Just("REQUEST_METHOD"), Just("PATH_INFO"), Just("HTTP_HOST"), Just("HTTP_X")],
            "[a-z/]{0,9}"), 0..6), tail in "[ -~]{0,9}", damage in any::<(u16, Option<u8>)>()) {
        let variables: Vec<_> =
            variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let mut bytes = packet(&variables);
        let size = bytes.len();
        bytes.extend(tail.as_bytes());
        if let (at, Some(byte)) = damage {
            bytes[usize::from(at) % size] = byte;
        }
        let whole = read(&bytes, LIMITS);
        let first = (0..=bytes.len()).map(|size| read(&bytes[..size], LIMITS)).find(|found| *found != Ok(None));
        prop_assert_eq!(first.unwrap_or(Ok(None)), whole);
        if let Ok(Some(packet)) = whole
            && let Ok(UwsgiHead { head, text }) = packet.to_head(LIMITS)
        {
            prop_assert_eq!(head.size as usize, text.len());
        }
    }
}

#[test]
fn a_field_is_added_to_a_packet() {
    let text = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n";
    let mut packet = Vec::new();
    write(text, PacketOrigin::default(), &mut packet).expect("it is small");
    let size = packet.len();
    packet.extend_from_slice(b"body");
    let mut output = b"before".to_vec();
    let added = add_field(&packet, size, ("X-Deadline-Ms", "250"), &mut output);
    assert_eq!(added, Ok(()));
    let output = output.strip_prefix(b"before").expect("it was there");
    let found = read(output, &Limits::DEFAULT).expect("it is in order").expect("it is whole");
    assert_eq!(&output[found.size..], b"body");
    assert_eq!(found.variables.get(b"HTTP_X_DEADLINE_MS"), Some(&b"250"[..]));
    assert_eq!(found.variables.get(b"HTTP_HOST"), Some(&b"h"[..]));
    // The largest packet has no room.
    let mut large = Vec::new();
    let fill = |size| format!("GET / HTTP/1.1\r\nZ: {}\r\n\r\n", "z".repeat(size));
    write(fill(0).as_bytes(), PacketOrigin::default(), &mut large).expect("it is small");
    let room = usize::from(u16::MAX) + 4 - large.len();
    large.clear();
    write(fill(room).as_bytes(), PacketOrigin::default(), &mut large).expect("it just fits");
    let too_large = add_field(&large, large.len(), ("A", ""), &mut Vec::new());
    assert_eq!(too_large, Err(PacketTooLarge));
}
