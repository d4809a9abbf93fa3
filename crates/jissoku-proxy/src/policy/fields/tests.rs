use jissoku_http::Limits;
use jissoku_http::head::HeadReader;
use proptest::prelude::*;

use super::*;
use crate::policy::routes::PathPattern;

const REQUEST: &[u8] = b"GET /t/one%0a/x?a=1&b HTTP/1.1\r\nHost: h:8\r\nX-Id: 7-a\r\n\r\n";

fn rules(texts: &[&str]) -> Result<FieldRules, String> {
    let mut rules = FieldRules::default();
    texts.iter().try_for_each(|text| rules.add(text, Side::Request, &["tenant"]))?;
    Ok(rules)
}

/// The header lines for a request with these bytes.
fn lines(rules: &FieldRules, request: &[u8], client: Option<&str>) -> Option<Vec<u8>> {
    let head = HeadReader::default().read(request, &Limits::DEFAULT).ok()??;
    let path = head.path_and_query(request).split(|byte| *byte == b'?').next()?;
    let pattern = PathPattern::parse("/t/{tenant}/**").unwrap();
    let captures = pattern.matches(path).unwrap_or_default();
    let mut fields = head.fields(request);
    let values = Values {
        head: &head,
        bytes: request,
        client,
        is_secure: true,
        host: None,
        request_id: fields.find(|(name, _)| *name == b"X-Id").map(|(_, value)| value),
        captures: &captures,
    };
    let mut output = Vec::new();
    rules.write(&values, &mut output);
    Some(output)
}

#[test]
fn variables_have_the_values_of_the_request() {
    for (text, expected) in [
        ("A: b", "A: b\r\n"),
        ("A:  b c \t", "A: b c\r\n"),
        ("A: {client}", "A: 192.0.2.1\r\n"),
        ("A: {scheme}://{host}{target}", "A: https://h:8/t/one%0a/x?a=1&b\r\n"),
        ("A: {method} {path} {query}", "A: GET /t/one%0a/x a=1&b\r\n"),
        ("A: [{tenant}]", "A: [one%0a]\r\n"),
        ("A: id={request_id}", "A: id=7-a\r\n"),
        ("A: {{client}}", "A: {client}\r\n"),
        ("+A: {{{host}}}", "A: {h:8}\r\n"),
        ("-A", ""),
    ] {
        let found = lines(&rules(&[text]).unwrap(), REQUEST, Some("192.0.2.1")).unwrap();
        assert_eq!(String::from_utf8_lossy(&found), expected, "{text}");
    }
}

#[test]
fn a_field_without_a_value_is_left_out() {
    let rules = rules(&["A: {client}", "B: {query} {request_id}", "C: x{query}"]).unwrap();
    let request = b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n";
    assert_eq!(lines(&rules, request, None).unwrap(), b"C: x\r\n");
}

#[test]
fn later_rules_replace_what_earlier_ones_set() {
    let rules = rules(&["A: 1", "+A: 2", "+B: 3", "a: 4", "+B: 5", "-C"]).unwrap();
    assert_eq!(lines(&rules, REQUEST, None).unwrap(), b"B: 3\r\na: 4\r\nB: 5\r\n");
    let removed = ["A", "a", "c", "B"].map(|name| rules.removed().has(name.as_bytes()));
    assert_eq!(removed, [true, true, true, false]);
}

#[test]
fn lines_without_variables_are_the_same_for_each_request() {
    for (texts, expected) in [
        (&["A: 1", "+A: 2", "-B"][..], Some("A: 1\r\nA: 2\r\n")),
        (&[], Some("")),
        (&["-B"], Some("")),
        (&["A: {path}"], None),
        (&["A: 1", "B: {path}"], None),
        (&["A: {path}", "A: {{path}}"], Some("A: {path}\r\n")),
        (&["A: {path}", "-a"], Some("")),
    ] {
        let rules = rules(texts).unwrap();
        assert_eq!(rules.constant(), expected, "{texts:?}");
        if let Some(expected) = expected {
            assert_eq!(lines(&rules, REQUEST, None).unwrap(), expected.as_bytes(), "{texts:?}");
        }
    }
}

#[test]
fn what_cannot_be_meant_is_refused() {
    for (text, why) in [
        ("", "write \"Name: value\""),
        ("A", "write \"Name: value\""),
        ("-A: b", "write \"Name: value\""),
        ("+A", "write \"Name: value\""),
        ("A:", "a field has a value"),
        ("A b: c", "is not the name of a field"),
        ("A\r\nB: c", "is not the name of a field"),
        (": c", "is not the name of a field"),
        ("A: b\r\nC: d", "no control characters"),
        ("A: b\0", "no control characters"),
        ("A: \u{7f}", "no control characters"),
        ("X_A: b", "write X-A"),
        ("A: {clinet}", "there is no variable {clinet}; did you mean \"client\"?"),
        ("A: {tenat}", "did you mean \"tenant\"?"),
        ("A: {", "a variable is {name}"),
        ("A: }", "a variable is {name}"),
        ("A: {}", "there is no variable {}"),
        ("Host: a", "`host` of [upstream.NAME] sets it"),
        ("-host", "`host` of [upstream.NAME] sets it"),
        ("Content-Length: 1", "the size of the body"),
        ("+content-LENGTH: 1", "the size of the body"),
        ("Transfer-Encoding: chunked", "concerns one connection"),
        ("Connection: X-A", "concerns one connection"),
        ("-Upgrade", "concerns one connection"),
        ("TE: trailers", "concerns one connection"),
        ("Trailer: A", "concerns one connection"),
        ("Expect: 100-continue", "concerns one connection"),
        ("Proxy: x", "concerns one connection"),
        ("Proxy-Authorization: x", "concerns one connection"),
        ("HTTP2-Settings: x", "concerns one connection"),
        ("-Via", "the gateway sets it"),
        ("X-Forwarded-For: {client}", "the gateway sets it"),
        ("Forwarded: x", "the gateway sets it"),
        ("-Max-Forwards", "the gateway sets it"),
    ] {
        let said = rules(&[text]).unwrap_err();
        assert!(said.contains(why), "{text}: {said}");
    }
    let of_response = |text: &str| FieldRules::default().add(text, Side::Response, &[]);
    for text in ["Date: x", "-Content-Length", "Transfer-Encoding: x", "-Connection", "Trailer: x"]
    {
        assert!(of_response(text).is_err(), "{text}");
    }
    assert!(of_response("-Via").is_ok() && of_response("Location: {target}").is_ok());
    let taken = FieldRules::default().add("A: {host}", Side::Request, &["host"]).unwrap_err();
    assert!(taken.contains("rename that of the path"), "{taken}");
}

/// Values with which a client tries to end a line, and to begin another or a body.
#[test]
fn no_value_splits_a_field() {
    const ALL: &str = "X-All: {client}|{host}|{method}|{path}|{query}|{scheme}|{target}|{tenant}|\
                       {request_id}";
    let rules = rules(&[ALL]).unwrap();
    let mut taken = 0;
    for end in
        ["\r\n", "\n", "\r", "\0", "%0d%0a", "%0D%0A", "\u{b}", "\u{85}", "\u{2028}", "\t", "\x7f"]
    {
        for request in [
            format!("GET /t/a{end}X-Evil:1/x HTTP/1.1\r\nHost: h\r\n\r\n"),
            format!("GET /t/a/x?{end}X-Evil:1 HTTP/1.1\r\nHost: h\r\n\r\n"),
            format!("GET / HTTP/1.1\r\nHost: h{end}X-Evil:1\r\n\r\n"),
            format!("GET{end}X-Evil:1 / HTTP/1.1\r\nHost: h\r\n\r\n"),
            format!("GET / HTTP/1.1\r\nHost: h\r\nX-Id: 1{end}X-Evil:1\r\n\r\n"),
        ] {
            let Some(found) = lines(&rules, request.as_bytes(), None) else { continue };
            taken += 1;
            check_one_line(&found);
        }
    }
    assert!(taken > 5, "few were parsed: {taken}");
}

/// One line, which is that of the rule.
fn check_one_line(found: &[u8]) {
    let text = found.strip_suffix(b"\r\n").expect("a line has an end");
    assert!(text.starts_with(b"X-All: "), "{found:?}");
    let is_control = |byte: &u8| matches!(byte, 0..=8 | 10..=0x1f | 0x7f);
    assert!(!text.iter().any(is_control), "{found:?}");
}

proptest! {
    #[test]
    fn whatever_is_parsed_is_one_line(
        target in prop::collection::vec(any::<u8>(), 0..24),
        host in prop::collection::vec(any::<u8>(), 0..12),
    ) {
        let rules = rules(&["X-All: {host}{target}{path}{query}{tenant}{scheme}"]).unwrap();
        let request = [
            b"GET /t/".as_slice(), &target, b" HTTP/1.1\r\nHost: ", &host, b"\r\n\r\n",
        ].concat();
        if let Some(found) = lines(&rules, &request, None) {
            check_one_line(&found);
        }
    }
}
