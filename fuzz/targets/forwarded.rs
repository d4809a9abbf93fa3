//! Whatever a client sends in the fields that name it, the address that a trusted proxy appends is
//! the one that counts, or none; and of a client that is not trusted, none of them reaches a server.

#![no_main]

use jissoku_http::Limits;
use jissoku_http::forward::{
    ClientFields, FieldNames, ForwardedHost, PathEdit, RequestEdit, write_request_head,
};
use jissoku_http::forwarded::{ForwardedClient, ForwardedFields, XForwarded};
use jissoku_http::head::HeadReader;
use libfuzzer_sys::fuzz_target;

/// What a proxy appends.
const ELEMENTS: [&str; 3] =
    ["for=192.0.2.1", "for=\"192.0.2.1\"", "for=\"192.0.2.1\";host=\"a:8\";proto=http"];

/// A forwarded head has the fields of the gateway alone, and a path below the prefix.
fn check_forwarded(sent: &[u8]) {
    let text = [b"GET /api/x HTTP/1.1\r\nHost: h\r\n", sent, b"\r\n\r\n"].concat();
    let Ok(Some(head)) = HeadReader::default().read(&text, &Limits::DEFAULT) else { return };
    let mut removed = FieldNames::default();
    removed.add("X-Secret");
    let edit = RequestEdit {
        via: None,
        client_fields: ClientFields::Drop,
        client: None,
        is_secure: false,
        host: ForwardedHost::Client,
        upstream_host: "up",
        collected_size: None,
        passes: None,
        has_trailers: true,
        own_field: None,
        path: PathEdit { cut_size: 4, prefix: "/v2" },
        removed: Some(&removed),
    };
    let mut output = Vec::new();
    if write_request_head(&head, &text, &edit, &mut output).is_err() {
        return;
    }
    let forwarded = HeadReader::default().read(&output, &Limits::DEFAULT);
    let forwarded = forwarded.expect("it is valid").expect("it is complete");
    assert_eq!(forwarded.path_and_query(&output), b"/v2/x");
    for (name, value) in forwarded.fields(&output) {
        let name = name.to_ascii_lowercase();
        assert!(name != b"x-secret" && name != b"forwarded");
        if name.starts_with(b"x-forwarded-") {
            let own: [(&[u8], &[u8]); 3] = [
                (b"x-forwarded-proto", b"http"),
                (b"x-forwarded-host", b"h"),
                (b"x-forwarded-prefix", b"/api"),
            ];
            assert!(own.contains(&(name.as_slice(), value)));
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    check_forwarded(bytes);
    let Some((&first, sent)) = bytes.split_first() else { return };
    let is_list = first & 1 == 0;
    let separator: &str = if first & 2 == 0 { ", " } else { "\r\nForwarded: " };
    let element = ELEMENTS[usize::from(first >> 2) % ELEMENTS.len()];
    let (kind, name, separator, appended) = if is_list {
        let kind = ForwardedFields::XForwarded(XForwarded::ALL);
        (kind, "X-Forwarded-For", separator.replace("Forwarded", "X-Forwarded-For"), "192.0.2.1")
    } else {
        (ForwardedFields::Forwarded, "Forwarded", separator.to_owned(), element)
    };
    // One field: another one would be one that the proxy passes on.
    if sent.contains(&b'\n') {
        return;
    }
    let start = format!("GET / HTTP/1.1\r\nHost: h\r\n{name}: ");
    let end = format!("{separator}{appended}\r\n\r\n");
    let text = [start.as_bytes(), sent, end.as_bytes()].concat();
    let Ok(Some(head)) = HeadReader::default().read(&text, &Limits::DEFAULT) else { return };
    let client = ForwardedClient::new(head.fields(&text), kind, |address| address.is_loopback());
    let address = client.address.map(|address| address.ip().to_string());
    if is_list {
        assert_eq!((address.as_deref(), client.is_secure, client.host), (Some("192.0.2.1"), None, None));
    } else {
        assert!(address.is_none_or(|address| address == "192.0.2.1"));
        assert!(matches!(client.host, None | Some(b"a:8")));
        assert_ne!(client.is_secure, Some(true));
    }
});
