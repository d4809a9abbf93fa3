//! Environs without caches: the strings that PEP 3333 and RFC 3875 require, one field at a time.

use std::collections::BTreeMap;

use jissoku_http::{Head, Version};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::text::percent_decoded;

type Strings = BTreeMap<String, String>;

fn latin1(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

/// The strings of an environ.
pub(super) fn strings_of(environ: &Bound<'_, PyDict>) -> Strings {
    let text = |value: &Bound<'_, PyAny>| Some(value.cast::<PyString>().ok()?.to_string());
    environ.iter().filter_map(|(key, value)| Some((text(&key)?, text(&value)?))).collect()
}

/// The strings that the environ of a head has to have.
pub(super) fn strings(head: &Head, bytes: &[u8], client: usize) -> Strings {
    let mut strings = Strings::new();
    let mut set = |key: &str, value: &str| strings.insert(key.to_owned(), value.to_owned());
    let target = latin1(head.target.of(bytes));
    let path_and_query = head.path_and_query(bytes);
    let end = path_and_query.iter().position(|&byte| byte == b'?');
    let (path, query) = path_and_query.split_at(end.unwrap_or(path_and_query.len()));
    let is_tcp = client < 2;
    set("REQUEST_METHOD", &latin1(head.method_name.of(bytes)));
    set("REQUEST_URI", &target);
    set("RAW_URI", &target);
    set("PATH_INFO", &latin1(&percent_decoded(path)));
    set("QUERY_STRING", &latin1(query.get(1..).unwrap_or_default()));
    set("SERVER_PROTOCOL", if head.version == Version::Http10 { "HTTP/1.0" } else { "HTTP/1.1" });
    set("SCRIPT_NAME", "");
    set("SERVER_NAME", if is_tcp { "127.0.0.1" } else { "localhost" });
    set("SERVER_PORT", if is_tcp { "8000" } else { "80" });
    set("SERVER_SOFTWARE", concat!("jissoku/", env!("CARGO_PKG_VERSION")));
    set("wsgi.url_scheme", "http");
    set("REMOTE_ADDR", ["127.0.0.1", "::1", ""][client]);
    if is_tcp {
        set("REMOTE_PORT", ["5000", "5001"][client]);
    }
    for (name, value) in head.fields(bytes) {
        let name = latin1(name).to_ascii_uppercase();
        let value = latin1(value);
        if name.contains('_') {
            continue;
        }
        if matches!(name.as_str(), "CONTENT-TYPE" | "CONTENT-LENGTH") {
            strings.insert(name.replace('-', "_"), value);
            continue;
        }
        let separator = if name == "COOKIE" { "; " } else { "," };
        let joined = strings.entry(format!("HTTP_{}", name.replace('-', "_")));
        joined.and_modify(|first| *first = format!("{first}{separator}{value}")).or_insert(value);
    }
    strings
}
