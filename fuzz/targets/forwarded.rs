//! Whatever a client sends in the fields that name it, the address that a trusted proxy appends is
//! the one that counts, or none.

#![no_main]

use jissoku_http::Limits;
use jissoku_http::forwarded::{ForwardedClient, ForwardedFields, XForwarded};
use jissoku_http::head::HeadReader;
use libfuzzer_sys::fuzz_target;

/// What a proxy appends.
const ELEMENTS: [&str; 3] =
    ["for=192.0.2.1", "for=\"192.0.2.1\"", "for=\"192.0.2.1\";host=\"a:8\";proto=http"];

fuzz_target!(|bytes: &[u8]| {
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
