//! The keys of header fields in an environ: `HTTP_ACCEPT` for `Accept` (RFC 3875 section 4.1.18).

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::hash::Hasher;
use crate::text::latin1;

/// Maximum number of cached names, a power of two. Clients choose names, so their memory is
/// bounded.
const NAMES_MAX: usize = 512;

/// Maximum size of a cached value.
const VALUE_SIZE_MAX: usize = 256;

/// Names that applications look up.
const COMMON: [&str; 32] = [
    "ACCEPT",
    "ACCEPT_CHARSET",
    "ACCEPT_ENCODING",
    "ACCEPT_LANGUAGE",
    "AUTHORIZATION",
    "CACHE_CONTROL",
    "CONNECTION",
    "CONTENT_LENGTH",
    "CONTENT_TYPE",
    "COOKIE",
    "DNT",
    "FORWARDED",
    "HOST",
    "IF_MATCH",
    "IF_MODIFIED_SINCE",
    "IF_NONE_MATCH",
    "IF_RANGE",
    "ORIGIN",
    "PRAGMA",
    "RANGE",
    "REFERER",
    "SEC_FETCH_DEST",
    "SEC_FETCH_MODE",
    "SEC_FETCH_SITE",
    "UPGRADE_INSECURE_REQUESTS",
    "USER_AGENT",
    "X_FORWARDED_FOR",
    "X_FORWARDED_HOST",
    "X_FORWARDED_PROTO",
    "X_REAL_IP",
    "X_REQUESTED_WITH",
    "X_REQUEST_ID",
];

/// How a header field is added to an environ.
#[derive(Debug)]
enum Key {
    /// It is set under this key, and joined with earlier ones of the same name by this separator.
    Join(Py<PyString>, &'static str),
    /// It is set under this key; the last one counts.
    Last(Py<PyString>),
    /// It is omitted.
    Drop,
}

/// A header name, and the last value that was received with it.
#[derive(Debug)]
struct Name {
    /// As first received.
    bytes: Box<[u8]>,
    key: Key,
    value_bytes: Vec<u8>,
    value: Option<Py<PyString>>,
    /// The request that it was last used for.
    request: u64,
}

/// The names that were received recently. A name has one possible slot, where it replaces another
/// name.
#[derive(Debug)]
pub(crate) struct Names {
    hasher: Hasher,
    slots: Box<[Option<Name>]>,
    request: u64,
}

impl Names {
    pub(crate) fn new(hasher: Hasher) -> Self {
        Self { hasher, slots: (0..NAMES_MAX).map(|_| None).collect(), request: 0 }
    }

    /// Adds the header fields of one request to its environ, which contains none yet.
    pub(crate) fn set_fields<'a>(
        &mut self,
        environ: &Bound<'_, PyDict>,
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) -> PyResult<()> {
        self.request += 1;
        for (name, value) in fields {
            self.set_field(environ, name, value)?;
        }
        Ok(())
    }

    fn set_field(
        &mut self,
        environ: &Bound<'_, PyDict>,
        name: &[u8],
        value: &[u8],
    ) -> PyResult<()> {
        let python = environ.py();
        let slot = self.hasher.slot_of_name(name, NAMES_MAX);
        let Some(slot) = self.slots.get_mut(slot) else { return Ok(()) };
        let is_known = slot.as_ref().is_some_and(|known| known.is(name));
        if !is_known {
            *slot = Some(Name::new(python, name));
        }
        let Some(known) = slot else { return Ok(()) };
        // A name that was evicted may have been set earlier in this request.
        let is_first = is_known && known.request != self.request;
        known.request = self.request;
        let value = known.value(python, value);
        match &known.key {
            Key::Drop => Ok(()),
            Key::Last(key) => environ.set_item(key, value),
            Key::Join(key, _) if is_first => environ.set_item(key, value),
            Key::Join(key, separator) => join(environ, key, separator, value),
        }
    }
}

/// Appends a value to those that were set under the same key.
pub(crate) fn join(
    environ: &Bound<'_, PyDict>,
    key: &Py<PyString>,
    separator: &str,
    value: Bound<'_, PyString>,
) -> PyResult<()> {
    match environ.get_item(key)? {
        None => environ.set_item(key, value),
        Some(first) => environ.set_item(key, first.add(separator)?.add(value)?),
    }
}

impl Name {
    fn new(python: Python<'_>, name: &[u8]) -> Self {
        Self {
            bytes: name.into(),
            key: Key::new(python, name),
            value_bytes: Vec::new(),
            value: None,
            request: 0,
        }
    }

    #[inline]
    fn is(&self, name: &[u8]) -> bool {
        *self.bytes == *name || self.bytes.eq_ignore_ascii_case(name)
    }

    /// A string of a value; the same one as long as the same value is received.
    #[inline]
    fn value<'py>(&mut self, python: Python<'py>, bytes: &[u8]) -> Bound<'py, PyString> {
        if let Some(value) = &self.value
            && *self.value_bytes == *bytes
        {
            return value.bind(python).clone();
        }
        let value = latin1(python, bytes);
        if bytes.len() <= VALUE_SIZE_MAX {
            self.value_bytes.clear();
            self.value_bytes.extend_from_slice(bytes);
            self.value = Some(value.clone().unbind());
        }
        value
    }
}

impl Key {
    fn new(python: Python<'_>, name: &[u8]) -> Self {
        let upper = name.to_ascii_uppercase();
        match upper.as_slice() {
            b"CONTENT-TYPE" => Self::Last(key(python, "CONTENT_TYPE")),
            b"CONTENT-LENGTH" => Self::Last(key(python, "CONTENT_LENGTH")),
            // The body is decoded when the application is called (RFC 9112 section 7.1.3).
            b"TRANSFER-ENCODING" => Self::Drop,
            // `X_Forwarded_For` would become the key of `X-Forwarded-For`, past every proxy that
            // removes the latter.
            upper if upper.contains(&b'_') => Self::Drop,
            upper => {
                let dashed = upper.iter().map(|&byte| if byte == b'-' { '_' } else { byte.into() });
                let name = key(python, &format!("HTTP_{}", dashed.collect::<String>()));
                // Cookies are pairs separated by semicolons (RFC 6265 section 5.4).
                Self::Join(name, if upper == b"COOKIE" { "; " } else { "," })
            }
        }
    }
}

fn key(python: Python<'_>, name: &str) -> Py<PyString> {
    // String literals of an application are interned, so that comparing with an interned key takes
    // one instruction. Interned names of a client's choice would never be freed by some versions of
    // CPython.
    let is_common = COMMON.contains(&name.strip_prefix("HTTP_").unwrap_or(name));
    let string = if is_common { PyString::intern } else { PyString::new };
    string(python, name).unbind()
}
