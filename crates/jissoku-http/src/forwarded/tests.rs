use proptest::prelude::*;

use super::*;
use crate::head::HeadReader;
use crate::limits::Limits;

const ALL: ForwardedFields = ForwardedFields::XForwarded(XForwarded::ALL);

/// The client of a request with these lines; addresses of 10.0.0.0/8 and `fd00::/8` are trusted.
fn check(
    kind: ForwardedFields,
    lines: &[&str],
    expected: (Option<&str>, Option<bool>, Option<&str>),
) {
    let text = request_with(lines);
    let client = client_of_request(kind, &text);
    let address = client.address.map(|address| match address.port() {
        0 => address.ip().to_string(),
        _ => address.to_string(),
    });
    let host = client.host.map(|host| String::from_utf8_lossy(host).into_owned());
    assert_eq!((address.as_deref(), client.is_secure, host.as_deref()), expected, "{lines:?}");
}

fn request_with(lines: &[&str]) -> String {
    format!("GET / HTTP/1.1\r\nHost: h\r\n{}\r\n\r\n", lines.join("\r\n"))
}

fn client_of_request(kind: ForwardedFields, text: &str) -> ForwardedClient<'_> {
    let head = HeadReader::default().read(text.as_bytes(), &Limits::DEFAULT);
    let head = head.expect("a valid head").expect("a complete one");
    ForwardedClient::new(head.fields(text.as_bytes()), kind, is_trusted)
}

fn is_trusted(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.octets()[0] == 10,
        IpAddr::V6(address) => address.segments()[0] >> 8 == 0xfd,
    }
}

#[test]
fn the_rightmost_untrusted_address_is_the_client() {
    let client = |lines: &[&str], expected| {
        check(ALL, lines, (expected, None, None));
    };
    client(&["X-Forwarded-For: 192.0.2.1"], Some("192.0.2.1"));
    client(&["X-Forwarded-For: 203.0.113.9, 192.0.2.1"], Some("192.0.2.1"));
    client(&["X-Forwarded-For: 203.0.113.9, 192.0.2.1, 10.0.0.1"], Some("192.0.2.1"));
    client(&["X-Forwarded-For: 203.0.113.9", "x-forwarded-for: 192.0.2.1"], Some("192.0.2.1"));
    client(&["X-Forwarded-For: 10.0.0.2, 10.0.0.1"], Some("10.0.0.2"));
    client(&["X-Forwarded-For: 2001:db8::1, fd00::1"], Some("2001:db8::1"));
    client(&["X-Forwarded-For: 192.0.2.1:4000, [fd00::1]:80"], Some("192.0.2.1:4000"));
    client(&["X-Forwarded-For: ::ffff:192.0.2.1"], Some("192.0.2.1"));
    // What is no address was not appended by a proxy that is trusted.
    client(&["X-Forwarded-For: 192.0.2.1, unknown"], None);
    client(&["X-Forwarded-For: 192.0.2.1, unknown, 10.0.0.1"], Some("10.0.0.1"));
    client(&["X-Forwarded-For: "], None);
    client(&["Forwarded: for=192.0.2.1"], None);
    client(&["X-Forwarded_For: 192.0.2.1"], None);
}

#[test]
fn scheme_and_host_are_those_of_the_same_hop() {
    let check = |lines: &[&str], secure, host| {
        let lines: Vec<_> =
            [&["X-Forwarded-For: 203.0.113.9, 192.0.2.1, 10.0.0.1"], lines].concat();
        check(ALL, &lines, (Some("192.0.2.1"), secure, host));
    };
    check(&["X-Forwarded-Proto: https"], Some(true), None);
    check(&["X-Forwarded-Proto: HTTP"], Some(false), None);
    check(&["X-Forwarded-Proto: http, https, http"], Some(true), None);
    check(&["X-Forwarded-Proto: https, http"], Some(false), None);
    check(&["X-Forwarded-Proto: gopher"], None, None);
    check(&["X-Forwarded-Host: example.org:8443"], None, Some("example.org:8443"));
    check(&["X-Forwarded-Host: a, b, c"], None, Some("b"));
    check(&["X-Forwarded-Host: a/b"], None, None);
    check(&["X-Forwarded-Host: "], None, None);
}

#[test]
fn fields_that_proxies_do_not_set_do_not_count() {
    let lines = [
        "X-Forwarded-For: 203.0.113.9, 192.0.2.1",
        "X-Forwarded-Proto: https",
        "X-Forwarded-Host: a",
    ];
    check(ALL, &lines, (Some("192.0.2.1"), Some(true), Some("a")));
    check(ForwardedFields::default(), &lines, (Some("192.0.2.1"), Some(true), None));
    let none = XForwarded::default();
    let only = |which, expected| check(ForwardedFields::XForwarded(which), &lines, expected);
    only(XForwarded { address: true, ..none }, (Some("192.0.2.1"), None, None));
    only(XForwarded { scheme: true, ..none }, (None, Some(true), None));
    only(XForwarded { host: true, ..none }, (None, None, Some("a")));
    only(none, (None, None, None));
}

#[test]
fn elements_of_forwarded_are_read() {
    let check = |lines: &[&str], expected| check(ForwardedFields::Forwarded, lines, expected);
    let client = (Some("192.0.2.1"), None, None);
    check(&["Forwarded: for=192.0.2.1"], client);
    check(&["Forwarded: For=\"192.0.2.1\";by=10.0.0.1, for=10.0.0.1"], client);
    check(&["Forwarded: for=203.0.113.9", "Forwarded: for=192.0.2.1"], client);
    check(&["Forwarded: for=\"[2001:db8::1]:4711\""], (Some("[2001:db8::1]:4711"), None, None));
    check(
        &["Forwarded: for=192.0.2.1; proto=https ;host=\"a:80\", for=10.0.0.1;proto=http;host=b"],
        (Some("192.0.2.1"), Some(true), Some("a:80")),
    );
    // A separator in quotes separates nothing.
    check(&["Forwarded: ext=\"a,for=203.0.113.9;\\\",\";for=192.0.2.1"], client);
    check(&["Forwarded: for=192.0.2.1;for=203.0.113.9"], (None, None, None));
    check(&["Forwarded: for=_hidden"], (None, None, None));
    check(&["Forwarded: for=192.0.2.1, for=unknown"], (None, None, None));
    check(&["X-Forwarded-For: 192.0.2.1"], (None, None, None));
}

#[test]
fn an_open_quote_of_a_client_hides_no_address() {
    let none = (None, None, None);
    for line in [
        "Forwarded: for=203.0.113.9;ext=\", for=192.0.2.1",
        "Forwarded: for=203.0.113.9;\", for=192.0.2.1",
        "Forwarded: for=203.0.113.9;a\"b=c, for=192.0.2.1",
        "Forwarded: for=203.0.113.9;ext=\", for=\"[2001:db8::1]\"",
        "Forwarded: for=203.0.113.9;ext=\", for=\"[2001:db8::1]\";host=\"a:8\"",
        "Forwarded: for=203.0.113.9;ext=\"\\, for=\"[2001:db8::1]\";proto=http",
    ] {
        check(ForwardedFields::Forwarded, &[line], none);
    }
}

proptest! {
    /// With quotes, a client can at most hide itself behind the proxy.
    #[test]
    fn a_client_with_quotes_cannot_choose_its_address(
        sent in r#"(for=203\.0\.113\.9|ext=|[";,=\\ a]){0,12}"#,
        appended in prop_oneof![
            Just("for=192.0.2.1"),
            Just("for=\"192.0.2.1\""),
            Just("for=\"192.0.2.1\";host=\"a:8\";proto=http"),
        ],
    ) {
        let text = request_with(&[&format!("Forwarded: {sent}, {appended}")]);
        let address = client_of_request(ForwardedFields::Forwarded, &text).address;
        prop_assert!(address.is_none_or(|it| it.ip().to_string() == "192.0.2.1"), "{address:?}");
    }

    /// Whatever a client sends, the address that a trusted proxy appends is the one that counts.
    #[test]
    fn a_client_cannot_choose_its_address(
        sent in "[ -!#-~]{0,40}",
        kind in prop_oneof![Just(ALL), Just(ForwardedFields::Forwarded)],
        is_own_line in any::<bool>(),
    ) {
        let (name, appended) = match kind {
            ForwardedFields::XForwarded(_) => ("X-Forwarded-For", "192.0.2.1"),
            ForwardedFields::Forwarded => ("Forwarded", "for=192.0.2.1"),
        };
        let separator = if is_own_line { format!("\r\n{name}: ") } else { ", ".to_owned() };
        let line = format!("{name}: {sent}{separator}{appended}");
        check(kind, &[&line], (Some("192.0.2.1"), None, None));
    }
}
