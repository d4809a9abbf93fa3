use proptest::prelude::*;

use super::*;
use crate::forwarded::{ForwardedFields, XForwarded};
use crate::head::{Head, HeadReader, Version};
use crate::limits::Limits;
use crate::response_reader::{ResponseBody, ResponseEvent, ResponseReader};

const EDIT: RequestEdit<'_> = RequestEdit {
    via: Some("jissoku"),
    client_fields: ClientFields::Drop,
    client: Some("192.0.2.1"),
    is_secure: false,
    host: ForwardedHost::Client,
    upstream_host: "up:9001",
    collected_size: None,
    passes: None,
    has_trailers: true,
    own_field: None,
    path: PathEdit { cut_size: 0, prefix: "" },
    removed: None,
};

fn read(bytes: &[u8]) -> Head {
    let head = HeadReader::default().read(bytes, &Limits::DEFAULT);
    head.expect("the head is valid").expect("the head is complete")
}

fn forward(request: &str, edit: &RequestEdit<'_>) -> Result<String, ForwardError> {
    let mut output = Vec::new();
    write_request_head(&read(request.as_bytes()), request.as_bytes(), edit, &mut output)?;
    // Whatever is forwarded can be read.
    assert_eq!(read(&output).size as usize, output.len());
    Ok(String::from_utf8_lossy(&output).into_owned())
}

const ADDED: &str = "Via: 1.1 jissoku\r\nX-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: http\r\n";

#[test]
fn a_field_is_added_behind_those_of_the_head_and_not_taken_from_a_client() {
    let edit = RequestEdit { own_field: Some("X-Deadline-Ms"), ..EDIT };
    let request = "GET / HTTP/1.1\r\nHost: h\r\nx-deadline-ms: 9\r\nA: b\r\nX-DEADLINE-MS: 8\r\n\
        Connection: X-Deadline-Ms\r\n\r\n";
    let head = forward(request, &edit).expect("it can be forwarded");
    let expected = format!("GET / HTTP/1.1\r\nHost: h\r\nA: b\r\n{ADDED}X-Forwarded-Host: h\r\n");
    assert_eq!(head, format!("{expected}\r\n"));
    let (size, request) = (head.len(), head + "the\r\n\r\nbody");
    let mut output = Vec::new();
    add_field(request.as_bytes(), size, ("X-Deadline-Ms", "250"), &mut output);
    let whole = format!("{expected}X-Deadline-Ms: 250\r\n\r\nthe\r\n\r\nbody");
    assert_eq!(String::from_utf8(output).as_deref(), Ok(whole.as_str()));
}

#[test]
fn a_path_is_passed_without_its_start_and_behind_a_prefix() {
    let line_of = |target: &str, cut_size: usize, prefix: &'static str| {
        let edit = RequestEdit { path: PathEdit { cut_size, prefix }, via: None, ..EDIT };
        let request = format!("GET {target} HTTP/1.1\r\nHost: h\r\nX-Forwarded-Prefix: /x\r\n\r\n");
        let head = forward(&request, &edit).expect("it can be forwarded");
        let has = |line: &str| head.lines().any(|other| other == line);
        assert_eq!(has(&format!("X-Forwarded-Prefix: {}", &target[..cut_size])), cut_size > 0);
        assert!(!has("X-Forwarded-Prefix: /x"));
        head.lines().next().unwrap_or_default().to_owned()
    };
    for (target, cut_size, prefix, expected) in [
        ("/api/a%2Fb?c=/api", 4, "", "/a%2Fb?c=/api"),
        ("/api", 4, "", "/"),
        ("/api?q", 4, "", "/?q"),
        ("/api?q", 4, "/v2", "/v2?q"),
        ("/api/", 4, "/v2", "/v2/"),
        ("/a", 0, "/v2", "/v2/a"),
        ("/", 0, "", "/"),
    ] {
        let line = line_of(target, cut_size, prefix);
        assert_eq!(line, format!("GET {expected} HTTP/1.1"), "{target}");
    }
}

#[test]
fn other_x_forwarded_fields_are_dropped_unless_a_trusted_proxy_sets_them() {
    const OTHERS: &str = "X-Forwarded-Port: 1\r\nX-FORWARDED-SSL: on\r\nx-forwarded-user: root\r\n\
        X-Forwarded-: 1\r\nX-Forwarded-Server: s\r\nX-Forwarded-Scheme: https\r\n\
        X-Forwarded-Prefix: /outer\r\n";
    let request = format!("GET /api/a HTTP/1.1\r\nHost: h\r\n{OTHERS}X-Forwarded: 1\r\n\r\n");
    let kept_by = |client_fields: ClientFields, cut_size: usize| {
        let path = PathEdit { cut_size, prefix: "" };
        let edit = RequestEdit { client_fields, path, ..EDIT };
        let head = forward(&request, &edit).expect("it can be forwarded");
        let lines = head.lines().map(str::to_ascii_lowercase);
        lines.filter(|line| line.starts_with("x-forwarded")).collect::<Vec<_>>()
    };
    let own = ["x-forwarded-for: 192.0.2.1", "x-forwarded-proto: http", "x-forwarded-host: h"];
    let dropped = [&["x-forwarded: 1"], own.as_slice()].concat();
    assert_eq!(kept_by(ClientFields::Drop, 0), dropped);
    for kind in [ForwardedFields::Forwarded, ForwardedFields::default()] {
        assert_eq!(kept_by(ClientFields::Append(kind), 0), dropped);
    }
    let others = XForwarded { others: true, ..XForwarded::default() };
    let trusted = ClientFields::Append(ForwardedFields::XForwarded(others));
    assert_eq!(kept_by(trusted, 0).len(), OTHERS.lines().count() + dropped.len());
    // What both have removed.
    let behind = kept_by(trusted, 4);
    assert!(behind.contains(&"x-forwarded-prefix: /outer/api".to_owned()), "{behind:?}");
    assert_eq!(behind.len(), OTHERS.lines().count() + dropped.len());
}

#[test]
fn a_request_is_written_anew() {
    let check = |request: &str, expected: &str| {
        let expected = format!("{expected}{ADDED}X-Forwarded-Host: h\r\n\r\n");
        assert_eq!(forward(&format!("{request}\r\n"), &EDIT), Ok(expected), "{request:?}");
    };
    check(
        "GET /a%2f?b HTTP/1.1\r\nHost: h\r\nA:  b c \r\nB:\r\nA: d\r\nC: e\r\n",
        "GET /a%2f?b HTTP/1.1\r\nHost: h\r\nA: b c\r\nB: \r\nA: d\r\nC: e\r\n",
    );
    // Fields of this connection, and those that could be taken for others.
    check(
        "GET / HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, X-Mine\r\nX-Mine: 1\r\nx-mine: 2\r\n\
         Keep-Alive: 5\r\nTE: gzip\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\nProxy: x\r\n\
         Proxy-Connection: x\r\nProxy-Authorization: x\r\nX_Y: 1\r\nTrailer: x\r\n\
         Expect: 100-continue\r\nLast: 1\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\nLast: 1\r\n",
    );
    // The fields that are added cannot be named.
    check(
        "GET / HTTP/1.1\r\nConnection: X-Forwarded-For, Via, close\r\nHost: h\r\n\
         X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: evil\r\n\
         Forwarded: for=6.6.6.6\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\n",
    );
    check(
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n",
    );
    check(
        "OPTIONS * HTTP/1.1\r\nHost: h\r\nMax-Forwards: 3\r\nA: b\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: h\r\nA: b\r\nMax-Forwards: 2\r\n",
    );
    check(
        "GET / HTTP/1.1\r\nHost: h\r\nTE: trailers, gzip\r\nA: b\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\nA: b\r\nTE: trailers\r\nConnection: TE\r\n",
    );
    let edit = RequestEdit { has_trailers: false, ..EDIT };
    let without = forward("GET / HTTP/1.1\r\nHost: h\r\nTE: trailers\r\n\r\n", &edit);
    assert_eq!(
        without,
        Ok(format!("GET / HTTP/1.1\r\nHost: h\r\n{ADDED}X-Forwarded-Host: h\r\n\r\n"))
    );
}

#[test]
fn bodies_keep_their_framing_or_get_a_length() {
    let chunked = "PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: Chunked\r\n\r\n";
    let streamed = forward(chunked, &EDIT).expect("it is forwarded");
    assert!(streamed.ends_with("\r\nTransfer-Encoding: chunked\r\n\r\n"), "{streamed}");
    let collected = RequestEdit { collected_size: Some(12), ..EDIT };
    let collected = forward(chunked, &collected).expect("it is forwarded");
    assert!(collected.ends_with("\r\nContent-Length: 12\r\n\r\n"), "{collected}");
    assert!(!collected.contains("Transfer-Encoding"), "{collected}");
}

#[test]
fn old_clients_are_forwarded_with_a_host_and_their_version_in_via() {
    let expected = "GET / HTTP/1.1\r\nA: b\r\nHost: up:9001\r\nVia: 1.0 jissoku\r\n\
        X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: http\r\n\r\n";
    assert_eq!(forward("GET / HTTP/1.0\r\nA: b\r\n\r\n", &EDIT), Ok(expected.to_owned()));
}

#[test]
fn fields_of_a_trusted_client_are_appended_to() {
    let edit = RequestEdit {
        client_fields: ClientFields::Append(ForwardedFields::XForwarded(XForwarded::ALL)),
        is_secure: true,
        ..EDIT
    };
    let request = "GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 6.6.6.6\r\n\
        X-Forwarded-Proto: http\r\nVia: 1.1 other\r\n\r\n";
    let expected = "GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 6.6.6.6\r\n\
        X-Forwarded-Proto: http\r\nVia: 1.1 other\r\nVia: 1.1 jissoku\r\n\
        X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Host: h\r\n\r\n";
    assert_eq!(forward(request, &edit), Ok(expected.to_owned()));
    let scheme = XForwarded { scheme: true, ..XForwarded::default() };
    let client_fields = ClientFields::Append(ForwardedFields::XForwarded(scheme));
    let request = "GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 6.6.6.6\r\n\
        X-Forwarded-Proto: https\r\nX-Forwarded-Host: evil\r\n\r\n";
    let expected = "GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-Proto: https\r\n\
        Via: 1.1 jissoku\r\nX-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Host: h\r\n\r\n";
    assert_eq!(forward(request, &RequestEdit { client_fields, ..EDIT }), Ok(expected.to_owned()));
    let own = RequestEdit { host: ForwardedHost::Upstream, via: None, client: None, ..EDIT };
    let expected = "GET / HTTP/1.1\r\nHost: up:9001\r\nX-Forwarded-Proto: http\r\n\
        X-Forwarded-Host: h\r\n\r\n";
    assert_eq!(forward("GET / HTTP/1.1\r\nHost: h\r\n\r\n", &own), Ok(expected.to_owned()));
}

#[test]
fn some_requests_are_not_forwarded() {
    let check = |lines: &str, error| {
        let request = format!("{lines}\r\nHost: h\r\n\r\n");
        assert_eq!(forward(&request, &EDIT), Err(error), "{lines}");
    };
    for name in ["host", "Content-Length", "transfer-encoding", "Cookie", "a, Authorization"] {
        check(&format!("GET / HTTP/1.1\r\nConnection: {name}"), ForwardError::ConnectionOption);
    }
    check("GET /a#b HTTP/1.1", ForwardError::Fragment);
    check("GET / HTTP/1.1\r\nVia: 1.0 other, 1.1 Jissoku (x)", ForwardError::Loop);
    check("OPTIONS * HTTP/1.1\r\nMax-Forwards: 0", ForwardError::MaxForwards);
    assert!(forward("GET / HTTP/1.1\r\nHost: h\r\nMax-Forwards: 0\r\n\r\n", &EDIT).is_ok());
}

fn forward_response(response: &str, version: Version) -> (String, String) {
    let step = ResponseReader::new(false).step(response.as_bytes()).expect("it is valid");
    let (ResponseEvent::Head(head) | ResponseEvent::Interim(head)) = step.event else {
        panic!("{step:?} is not a head");
    };
    let mut output = b"..".to_vec();
    let framing = ClientFraming::new(head.body, version, false);
    let size = write_response_head(&head, response.as_bytes(), framing, None, &mut output);
    let text = String::from_utf8_lossy(&output[2..]).into_owned();
    (text[..size].to_owned(), text[size..].to_owned())
}

#[test]
fn a_response_is_written_anew() {
    let check = |response: &str, version, line: &str, rest: &str| {
        let seen = forward_response(response, version);
        assert_eq!(seen, (line.to_owned(), rest.to_owned()), "{response:?}");
    };
    check(
        "HTTP/1.0 404\r\nServer: a\r\nConnection: close, x\r\nX: 1\r\nKeep-Alive: 1\r\n\
         Set-Cookie: a\r\nSet-Cookie: b\r\nContent-Length: 3\r\n\r\n",
        Version::Http11,
        "HTTP/1.1 404 \r\n",
        "Server: a\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nContent-Length: 3\r\n\r\n",
    );
    let chunked = "HTTP/1.1 200 Fine\r\nTransfer-Encoding: chunked\r\nTrailer: x\r\nA: b\r\n\r\n";
    let line = "HTTP/1.1 200 Fine\r\n";
    check(chunked, Version::Http11, line, "A: b\r\nTransfer-Encoding: chunked\r\n\r\n");
    check(chunked, Version::Http10, line, "A: b\r\n\r\n");
    let no_length = "HTTP/1.1 204 No Content\r\nContent-Length: 3\r\nA: b\r\n\r\n";
    check(no_length, Version::Http11, "HTTP/1.1 204 No Content\r\n", "A: b\r\n\r\n");
    // What a 304 announces is about another response (RFC 9110 section 8.6).
    let unchanged = "HTTP/1.1 304 No\r\nContent-Length: 3\r\nETag: x\r\n\r\n";
    let rest = "Content-Length: 3\r\nETag: x\r\n\r\n";
    check(unchanged, Version::Http11, "HTTP/1.1 304 No\r\n", rest);
    let hints = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
    check(hints, Version::Http11, "HTTP/1.1 103 Early Hints\r\n", "Link: </a>\r\n\r\n");
    assert_eq!(
        ClientFraming::new(ResponseBody::UntilClose, Version::Http11, true),
        ClientFraming::Chunked
    );
}

/// Field lines with names that may be special, in odd but valid forms.
fn field() -> impl Strategy<Value = (String, String, String)> {
    let name = prop_oneof![
        "[A-Za-z][A-Za-z0-9-]{0,8}",
        Just("Accept".to_owned()),
        Just("Connection".to_owned()),
        Just("X_Y".to_owned()),
        Just("keep-alive".to_owned()),
        Just("Via".to_owned()),
        Just("x-forwarded-for".to_owned()),
    ];
    (name, "[ -~]{0,12}", "[ \t]{0,2}").prop_filter("Host and framing are fixed", |(name, ..)| {
        let special = ["host", "content-length", "transfer-encoding", "expect"];
        !special.iter().any(|special| name.eq_ignore_ascii_case(special))
    })
}

/// What has to become of the fields: the plain definition that the writer is compared with.
fn edited(fields: &[(String, String, String)]) -> Vec<(String, String)> {
    let is = |name: &str, other: &str| name.eq_ignore_ascii_case(other);
    let options: Vec<String> = fields
        .iter()
        .filter(|(name, ..)| is(name, "connection"))
        .flat_map(|(_, value, _)| value.split(',').map(|option| option.trim().to_lowercase()))
        .collect();
    let own = ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "forwarded"];
    let hops = [
        "connection",
        "keep-alive",
        "te",
        "trailer",
        "upgrade",
        "proxy",
        "http2-settings",
        "proxy-connection",
        "proxy-authorization",
    ];
    let kept = fields.iter().filter(|(name, ..)| {
        let name = name.to_lowercase();
        let is_listed = own.contains(&&*name) || hops.contains(&&*name);
        !is_listed && !name.contains('_') && !options.contains(&name)
    });
    kept.map(|(name, value, _)| (name.clone(), value.trim().to_owned())).collect()
}

proptest! {
    #[test]
    fn what_is_read_from_a_forwarded_head_is_the_edited_head(
        fields in prop::collection::vec(field(), 0..8),
        target in "/[!-\"$-~]{0,20}",
    ) {
        let lines = fields.iter().map(|(name, value, space)| format!("{name}:{space}{value}\r\n"));
        let request = format!("GET {target} HTTP/1.1\r\nHost: h\r\n{}\r\n", lines.collect::<String>());
        let bytes = request.as_bytes();
        let mut output = Vec::new();
        let edit = RequestEdit { client: None, ..EDIT };
        if let Err(error) = write_request_head(&read(bytes), bytes, &edit, &mut output) {
            prop_assert!(matches!(error, ForwardError::ConnectionOption | ForwardError::Loop));
            return Ok(());
        }
        let mut expected = vec![("Host".to_owned(), "h".to_owned())];
        expected.extend(edited(&fields));
        let own = [("Via", "1.1 jissoku"), ("X-Forwarded-Proto", "http"), ("X-Forwarded-Host", "h")];
        expected.extend(own.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let ours = read(&output);
        let seen: Vec<_> =
            ours.fields(&output).map(|(name, value)| (text(name), text(value))).collect();
        prop_assert_eq!(&seen, &expected);
        prop_assert_eq!(ours.target.of(&output), target.as_bytes());
        let mut room = [httparse::EMPTY_HEADER; 32];
        let mut theirs = httparse::Request::new(&mut room);
        prop_assert_eq!(theirs.parse(&output), Ok(httparse::Status::Complete(output.len())));
        let seen: Vec<_> = theirs.headers.iter()
            .map(|field| (field.name.to_owned(), text(field.value))).collect();
        prop_assert_eq!(seen, expected);
    }
}

#[test]
fn an_upgrade_is_offered_for_websocket_only() {
    let edit = RequestEdit { passes: Some(HopField::Upgrade), ..EDIT };
    let offers = |request: &str, edit: &RequestEdit<'_>| {
        let mut output = Vec::new();
        let offer =
            write_request_head(&read(request.as_bytes()), request.as_bytes(), edit, &mut output);
        let text = String::from_utf8_lossy(&output).into_owned();
        let upgrades = offer.expect("it is forwarded").upgrades;
        assert_eq!(
            text.contains("\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"),
            upgrades,
            "{text}"
        );
        assert_eq!(text.contains("pgrade"), upgrades, "{text}");
        upgrades
    };
    let ask = |line: &str, fields: &str| format!("{line}\r\nHost: h\r\n{fields}\r\n\r\n");
    let get = "GET / HTTP/1.1";
    let fields = "Connection: keep-alive, Upgrade\r\nUpgrade: WebSocket";
    assert!(offers(&ask(get, fields), &edit));
    assert!(!offers(&ask(get, fields), &EDIT));
    for (line, fields) in [
        ("POST / HTTP/1.1", fields),
        ("GET / HTTP/1.0", fields),
        (get, "Upgrade: websocket"),
        (get, "Connection: Upgrade"),
        (get, "Connection: Upgrade\r\nUpgrade: h2c"),
        (get, "Connection: Upgrade\r\nUpgrade: websocket, h2c"),
        (get, "Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 1"),
    ] {
        assert!(!offers(&ask(line, fields), &edit), "{line} {fields}");
    }
}

#[test]
fn trailers_are_written_without_those_for_framing() {
    let mut output = Vec::new();
    let lines = b"X-Sum:  1\r\nContent-Length: 3\r\nHost: h\r\ngrpc-status: 0\r\nA_B: c\r\n";
    write_trailers(lines, None, &mut output);
    let text = String::from_utf8_lossy(&output).into_owned();
    assert_eq!(text, "0\r\nX-Sum: 1\r\ngrpc-status: 0\r\n\r\n");
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n";
    let step = ResponseReader::new(false).step(chunked.as_bytes()).expect("it is valid");
    let ResponseEvent::Head(head) = step.event else { panic!("{step:?} is not a head") };
    let framing = ClientFraming::new(head.body, Version::Http11, true);
    assert_eq!(framing, ClientFraming::ChunkedWithTrailers);
    let mut output = Vec::new();
    write_response_head(&head, chunked.as_bytes(), framing, None, &mut output);
    let text = String::from_utf8_lossy(&output).into_owned();
    assert!(text.contains("\r\nTrailer: X-Sum\r\n"), "{text}");
}
