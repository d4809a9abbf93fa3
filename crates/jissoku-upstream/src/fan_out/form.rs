//! The media type of an answer: what the client's Accept names, or else what its route says.

/// The media type of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// `application/json`.
    #[default]
    Json,
    /// `application/x-ndjson`: a line for each part as it ends.
    Lines,
}

/// The forms by their media types.
const KNOWN: [(&[u8], Form); 2] =
    [(b"application/json", Form::Json), (b"application/x-ndjson", Form::Lines)];

impl Form {
    /// The first form that is named in a value of Accept. Weights are ignored.
    pub fn accepted(accept: &[u8]) -> Option<Self> {
        let mut names = accept.split(|&byte| byte == b',').map(|range| {
            let name = range.split(|&byte| byte == b';').next().unwrap_or_default();
            name.trim_ascii()
        });
        names.find_map(|name| {
            let mut known = KNOWN.iter();
            let found = known.find(|(media_type, _)| name.eq_ignore_ascii_case(media_type));
            found.map(|(_, form)| *form)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_known_type_decides() {
        let check = |accept: &str, expected| {
            assert_eq!(Form::accepted(accept.as_bytes()), expected, "{accept}");
        };
        check("", None);
        check("*/*", None);
        check("text/html, application/X-NDJSON;q=0.5, application/json", Some(Form::Lines));
        check("multipart/mixed, text/event-stream", None);
        check("application/json", Some(Form::Json));
    }
}
