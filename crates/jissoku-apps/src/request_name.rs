//! What the report of an error has of the target of its request.

use std::fmt::{self, Write};
use std::sync::Arc;

use jissoku_http::Head;

/// Bytes of method and path that are kept.
const SIZE_MAX: usize = 126;

/// The method and the beginning of the path of a request, without its query, which may have secrets.
///
/// It is copied and moved with each request, and read at an error only.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestName(Option<Arc<Text>>);

#[derive(Debug)]
struct Text {
    bytes: [u8; SIZE_MAX],
    size: u8,
    is_cut: bool,
}

impl Text {
    fn new(method: &[u8], path: &[u8]) -> Self {
        let mut text = Self { bytes: [0; SIZE_MAX], size: 0, is_cut: false };
        for part in [method, b" ", path] {
            let start = usize::from(text.size);
            let size = part.len().min(SIZE_MAX - start);
            text.bytes[start..start + size].copy_from_slice(&part[..size]);
            text.size += u8::try_from(size).unwrap_or_default();
            text.is_cut |= size < part.len();
        }
        text
    }

    fn is(&self, method: &[u8], path: &[u8]) -> bool {
        let rest = self.bytes[..usize::from(self.size)].strip_prefix(method);
        !self.is_cut && rest.and_then(|rest| rest.strip_prefix(b" ")) == Some(path)
    }
}

/// The names of the requests of a worker. Where a request has ended before the next one starts, all
/// of them are in the same memory.
#[derive(Debug, Default)]
pub(crate) struct RequestNames {
    last: Option<Arc<Text>>,
}

impl RequestNames {
    /// That of a request with this head.
    pub(crate) fn name(&mut self, head: &Head, bytes: &[u8]) -> RequestName {
        let (method, target) = (head.method_name.of(bytes), head.path_and_query(bytes));
        let end = target.iter().position(|&byte| byte == b'?').unwrap_or(target.len());
        let path = &target[..end];
        match &mut self.last {
            Some(last) if last.is(method, path) => {}
            Some(last) => match Arc::get_mut(last) {
                Some(last) => *last = Text::new(method, path),
                None => *last = Arc::new(Text::new(method, path)),
            },
            None => self.last = Some(Arc::new(Text::new(method, path))),
        }
        RequestName(self.last.clone())
    }
}

impl fmt::Display for RequestName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(text) = &self.0 else { return Ok(()) };
        write!(formatter, "{}", Escaped(&text.bytes[..usize::from(text.size)]))?;
        if text.is_cut { formatter.write_str("...") } else { Ok(()) }
    }
}

/// Bytes as text: visible ASCII as it is, and other bytes as in a URL.
pub(crate) struct Escaped<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|&byte| match byte {
            b' '..=b'~' => formatter.write_char(char::from(byte)),
            _ => write!(formatter, "%{byte:02X}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use jissoku_http::{Event, Limits, RequestParser};
    use proptest::prelude::*;

    use super::*;

    fn name(names: &mut RequestNames, target: &str) -> RequestName {
        let bytes = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        let step = RequestParser::new().step(bytes.as_bytes(), &Limits::default());
        match step.expect("a valid head").event {
            Event::Head(head) => names.name(&head, bytes.as_bytes()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn queries_are_left_out_and_long_paths_are_cut() {
        let mut names = RequestNames::default();
        assert_eq!(name(&mut names, "/a?token=b").to_string(), "GET /a");
        assert_eq!(name(&mut names, "/%41").to_string(), "GET /%41");
        let long = "x".repeat(300);
        let expected = format!("GET /{}...", &long[..SIZE_MAX - "GET /".len()]);
        assert_eq!(name(&mut names, &format!("/{long}")).to_string(), expected);
        assert_eq!(RequestName::default().to_string(), "");
    }

    proptest! {
        /// Requests share memory, but none has the name of another one, in whatever order they end.
        #[test]
        fn each_request_keeps_its_own_name(
            steps in prop::collection::vec((0..4_usize, "/[a-z]{0,3}(\\?[a-z]{0,2})?"), 0..40)
        ) {
            let mut names = RequestNames::default();
            let mut running: [Option<(RequestName, String)>; 4] = Default::default();
            for (place, target) in steps {
                running[place] = if running[place].is_some() {
                    None
                } else {
                    let path = target.split('?').next().unwrap_or_default();
                    Some((name(&mut names, &target), format!("GET {path}")))
                };
                for (name, expected) in running.iter().flatten() {
                    prop_assert_eq!(&name.to_string(), expected);
                }
            }
        }
    }
}
