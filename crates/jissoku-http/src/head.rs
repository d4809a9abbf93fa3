//! Request heads. A [`Head`] holds spans of the parsed bytes, and no copies.

pub(crate) mod field_line;
mod header_flags;
mod host;
mod origin_form;
mod reader;
mod request_head;
mod request_line;

pub(crate) use field_line::trim;
pub use field_line::{Fields, is_field_name, is_field_value};
pub use header_flags::HeaderFlags;
pub(crate) use host::is_valid_and_not_empty as is_host_and_not_empty;
pub use reader::HeadReader;
pub use request_head::Head;
pub(crate) use request_line::span;
pub use request_line::{Method, Span, Version};

#[cfg(test)]
mod tests {
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
    fn names_and_values_cannot_end_a_line() {
        assert!(is_field_name(b"X-A_1") && is_field_value(b"a\tb \xe9") && is_field_value(b""));
        for name in [&b""[..], b"a b", b"a:", b"a\n", b"\xe9"] {
            assert!(!is_field_name(name), "{name:?}");
        }
        for value in [&b"a\r\nb: c"[..], b"a\n", b"\0", b"\x7f"] {
            assert!(!is_field_value(value), "{value:?}");
        }
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
}
