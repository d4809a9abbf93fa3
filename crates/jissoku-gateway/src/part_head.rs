//! What is kept of the head of a part's response, in a gathered one.

use jissoku_http::response_reader::ResponseHead;

/// The fields that a gathered response shows of a part.
const SHOWN: [&str; 8] = [
    "cache-control",
    "content-encoding",
    "content-language",
    "content-type",
    "etag",
    "last-modified",
    "location",
    "retry-after",
];

/// What an exchange has that is one of a part.
#[derive(Debug, Default)]
pub(crate) struct PartHead {
    /// The fields of its response, until they are collected.
    pub(crate) fields: Option<Vec<(&'static str, String)>>,
}

impl PartHead {
    pub(crate) fn keep(&mut self, head: &ResponseHead, bytes: &[u8]) {
        let shown = head.fields(bytes).filter_map(|(name, value)| {
            let known = SHOWN.iter().find(|known| name.eq_ignore_ascii_case(known.as_bytes()))?;
            Some((*known, String::from_utf8_lossy(value).into_owned()))
        });
        self.fields = Some(shown.collect());
    }
}
