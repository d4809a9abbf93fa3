//! The keys of header fields in an environ: `HTTP_ACCEPT` for `Accept` (RFC 3875 section 4.1.18).

use std::collections::HashMap;

use pyo3::prelude::*;
use pyo3::types::PyString;

/// Names kept at most. Clients choose names, so their memory has to be bounded.
const NAMES_MAX: usize = 1_024;

/// What becomes of a header field.
#[derive(Debug)]
pub(crate) enum Key {
    /// It is set under this key, and joined with earlier ones of the same name by this separator.
    Join(Py<PyString>, &'static str),
    /// It is set under this key; the last one counts.
    Last(Py<PyString>),
    /// It is not passed on.
    Drop,
}

/// Keys by the name as received.
#[derive(Debug, Default)]
pub(crate) struct Names {
    keys: HashMap<Box<[u8]>, Key>,
}

impl Names {
    /// Calls `use_key` with the key of `name`.
    #[inline]
    pub(crate) fn with<T>(
        &mut self,
        python: Python<'_>,
        name: &[u8],
        use_key: impl FnOnce(&Key) -> T,
    ) -> T {
        if let Some(key) = self.keys.get(name) {
            return use_key(key);
        }
        let key = Key::new(python, name);
        if self.keys.len() == NAMES_MAX {
            return use_key(&key);
        }
        use_key(self.keys.entry(name.into()).or_insert(key))
    }
}

impl Key {
    fn new(python: Python<'_>, name: &[u8]) -> Self {
        let upper = name.to_ascii_uppercase();
        match upper.as_slice() {
            b"CONTENT-TYPE" => Self::Last(key(python, "CONTENT_TYPE")),
            b"CONTENT-LENGTH" => Self::Last(key(python, "CONTENT_LENGTH")),
            // The body has lost its coding when the application is called (RFC 9112 section 7.1.3).
            b"TRANSFER-ENCODING" => Self::Drop,
            // `X_Forwarded_For` would become the key of `X-Forwarded-For`, past every proxy that
            // removes the latter.
            upper if upper.contains(&b'_') => Self::Drop,
            upper => {
                let dashed = upper.iter().map(|&byte| if byte == b'-' { '_' } else { byte.into() });
                let name = key(python, &format!("HTTP_{}", dashed.collect::<String>()));
                // Cookies are pairs with semicolons in between (RFC 6265 section 5.4).
                Self::Join(name, if upper == b"COOKIE" { "; " } else { "," })
            }
        }
    }
}

fn key(python: Python<'_>, name: &str) -> Py<PyString> {
    PyString::intern(python, name).unbind()
}
