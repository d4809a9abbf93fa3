//! The form of a gathered response, by the client's Accept.

/// The media type of a gathered response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// `application/json`.
    Json,
    /// `multipart/mixed` of `application/http`.
    Multipart,
    /// `application/x-ndjson`: a line for each part as it ends.
    Lines,
}

impl Form {
    /// Whether the client may mean the parts by its Accept.
    pub(crate) fn is_default(self) -> bool {
        self == Self::Json
    }
}

/// The first form that is named in a value of Accept; JSON if there is none. Weights are ignored.
pub(crate) fn negotiate(accept: Option<&[u8]>) -> Form {
    let known: [(&[u8], Form); 3] = [
        (b"application/json", Form::Json),
        (b"multipart/mixed", Form::Multipart),
        (b"application/x-ndjson", Form::Lines),
    ];
    let ranges = accept.unwrap_or_default().split(|&byte| byte == b',');
    let names = ranges.map(|range| {
        let name = range.split(|&byte| byte == b';').next().unwrap_or_default();
        name.trim_ascii()
    });
    let mut forms = names.filter_map(|name| {
        known.iter().find(|(media_type, _)| name.eq_ignore_ascii_case(media_type))
    });
    forms.next().map_or(Form::Json, |(_, form)| *form)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_known_type_decides() {
        let check = |accept: &str, expected| {
            assert_eq!(negotiate(Some(accept.as_bytes())), expected, "{accept}");
        };
        check("*/*", Form::Json);
        check("text/html, application/X-NDJSON;q=0.5, application/json", Form::Lines);
        check("multipart/mixed", Form::Multipart);
        check("application/json", Form::Json);
        assert_eq!(negotiate(None), Form::Json);
    }
}
