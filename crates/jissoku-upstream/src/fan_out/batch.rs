//! The requests of a batch: `[{"id", "method", "path", "headers", "body", "required"}]`.
//!
//! What a client writes here becomes the heads of requests, so it is checked byte by byte, and
//! fields that frame a message, concern a connection or select a part of a response are refused.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::value::RawValue;

/// Parts of one batch at most, unless its route permits fewer.
pub const BATCH_PARTS_MAX: usize = 32;

/// Bytes of one part's body at most: it is kept until its response has begun.
const BODY_SIZE_MAX: usize = 64 * 1024;

/// Bytes of a part's path at most.
const PATH_SIZE_MAX: usize = 8 * 1024;

/// What a route permits in a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchPolicy {
    /// Methods of parts.
    pub methods: Vec<String>,
    /// Parts at most.
    pub parts_max: usize,
}

impl Default for BatchPolicy {
    fn default() -> Self {
        let methods = ["GET", "HEAD"].map(str::to_owned).to_vec();
        Self { methods, parts_max: BATCH_PARTS_MAX }
    }
}

/// One request of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchItem {
    /// Its name in the answer; by default its place, counted from 0.
    pub id: String,
    /// GET by default.
    pub method: String,
    /// Path and query, without a fragment.
    pub path: String,
    /// Fields, besides those of the batch itself.
    pub fields: Vec<(String, String)>,
    /// The body; empty if there is none.
    pub body: Vec<u8>,
    /// Whether the answer is worthless without it.
    pub is_required: bool,
}

/// Why a text is no batch, as one sentence for the client: 400.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchError(String);

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Reads a batch.
///
/// # Errors
///
/// It is not in the form above, or asks for what `policy` does not permit.
pub fn read_batch(text: &[u8], policy: &BatchPolicy) -> Result<Vec<BatchItem>, BatchError> {
    let refuse = |why: String| Err(BatchError(why));
    let members: Vec<BTreeMap<String, &RawValue>> = match serde_json::from_slice(text) {
        Ok(members) => members,
        Err(error) => return refuse(format!("a batch is a JSON list of objects: {error}")),
    };
    if members.is_empty() || members.len() > policy.parts_max {
        let (count, most) = (members.len(), policy.parts_max);
        return refuse(format!("a batch has 1 to {most} parts, not {count}"));
    }
    let mut items: Vec<BatchItem> = Vec::with_capacity(members.len());
    for (index, members) in members.iter().enumerate() {
        let item = item(index, members, policy)
            .map_err(|why| BatchError(format!("part {index}: {why}")))?;
        if items.iter().any(|other| other.id == item.id) {
            return refuse(format!("two parts have the id {:?}", item.id));
        }
        items.push(item);
    }
    Ok(items)
}

fn item(
    index: usize,
    members: &BTreeMap<String, &RawValue>,
    policy: &BatchPolicy,
) -> Result<BatchItem, String> {
    let mut item = BatchItem {
        id: index.to_string(),
        method: "GET".to_owned(),
        path: String::new(),
        fields: Vec::new(),
        body: Vec::new(),
        is_required: false,
    };
    let mut body_type = None;
    for (name, value) in members {
        match name.as_str() {
            "id" => item.id = id(value)?,
            "method" => item.method = string(name, value)?,
            "path" => item.path = string(name, value)?,
            "headers" => item.fields = fields(value)?,
            "required" => {
                item.is_required = serde_json::from_str(value.get())
                    .map_err(|_| "required is true or false".to_owned())?;
            }
            "body" => (item.body, body_type) = body(value),
            "body_base64" => {
                let text = string(name, value)?;
                item.body = STANDARD.decode(text).map_err(|error| format!("{name}: {error}"))?;
            }
            other => return Err(format!("it has no member {other:?}")),
        }
    }
    if !policy.methods.contains(&item.method) {
        return Err(format!("the method is {}", policy.methods.join(" or ")));
    }
    if !is_target(&item.path) {
        return Err("path is a path with or without a query, from its slash on".to_owned());
    }
    if item.body.len() > BODY_SIZE_MAX {
        return Err(format!("the body is larger than {BODY_SIZE_MAX} bytes"));
    }
    let has_type = item.fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    if let Some(body_type) = body_type.filter(|_| !has_type) {
        item.fields.push(("Content-Type".to_owned(), body_type.to_owned()));
    }
    Ok(item)
}

fn string(name: &str, value: &RawValue) -> Result<String, String> {
    serde_json::from_str(value.get()).map_err(|_| format!("{name} is a string"))
}

/// A string, or a number as it is written.
fn id(value: &RawValue) -> Result<String, String> {
    let is_number = value.get().starts_with(|first: char| first.is_ascii_digit() || first == '-');
    if is_number { Ok(value.get().to_owned()) } else { string("id", value) }
}

/// A string as it is, every other value as JSON; and the type that this gives it.
fn body(value: &RawValue) -> (Vec<u8>, Option<&'static str>) {
    match serde_json::from_str::<String>(value.get()) {
        Ok(text) => (text.into_bytes(), None),
        Err(_) if value.get() == "null" => (Vec::new(), None),
        Err(_) => (value.get().as_bytes().to_vec(), Some("application/json")),
    }
}

fn fields(value: &RawValue) -> Result<Vec<(String, String)>, String> {
    let fields: BTreeMap<String, String> = serde_json::from_str(value.get())
        .map_err(|_| "headers is an object of strings".to_owned())?;
    for (name, value) in &fields {
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^`|~".contains(&byte);
        let is_text = |byte: u8| byte == b'\t' || (b' '..=b'~').contains(&byte);
        if name.is_empty() || !name.bytes().all(is_token) || !value.bytes().all(is_text) {
            return Err(format!("{name:?} is no header field that can be sent"));
        }
        if is_reserved(&name.to_ascii_lowercase()) {
            return Err(format!("the field {name} cannot be set"));
        }
    }
    Ok(fields.into_iter().collect())
}

/// Fields that frame a message, concern one connection or name the client, and those for which a
/// part would not be a whole response (RFC 9110 sections 7.6.1, 13.1 and 14.2).
pub(crate) fn is_reserved(name: &str) -> bool {
    const NAMES: [&str; 13] = [
        "connection",
        "content-length",
        "expect",
        "forwarded",
        "host",
        "http2-settings",
        "keep-alive",
        "range",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "via",
    ];
    let is_group = ["if-", "proxy", "x-forwarded-"].iter().any(|prefix| name.starts_with(prefix));
    is_group || NAMES.contains(&name)
}

fn is_target(path: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_graphic() && byte != b'#';
    path.starts_with('/') && path.len() <= PATH_SIZE_MAX && path.bytes().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<BatchItem>, String> {
        let methods = ["GET", "POST"].map(str::to_owned).to_vec();
        let policy = BatchPolicy { methods, parts_max: 2 };
        read_batch(text.as_bytes(), &policy).map_err(|error| error.to_string())
    }

    #[test]
    fn parts_have_defaults() {
        let items = read(
            r#"[{"path": "/a?b=c"},
                {"id": 7, "method": "POST", "path": "/b", "headers": {"X-A": "1"},
                 "body": {"n": 1.50}, "required": true}]"#,
        )
        .expect("a right batch");
        let first = BatchItem {
            id: "0".to_owned(),
            method: "GET".to_owned(),
            path: "/a?b=c".to_owned(),
            fields: Vec::new(),
            body: Vec::new(),
            is_required: false,
        };
        let fields = [("X-A", "1"), ("Content-Type", "application/json")];
        let second = BatchItem {
            id: "7".to_owned(),
            method: "POST".to_owned(),
            path: "/b".to_owned(),
            fields: fields.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
            body: br#"{"n": 1.50}"#.to_vec(),
            is_required: true,
        };
        assert_eq!(items, [first, second]);
        let check = |body: &str, expected: &[u8]| {
            let items = read(&format!(r#"[{{"path": "/", {body}}}]"#)).expect("a right batch");
            assert_eq!(items[0].body, expected, "{body}");
            assert!(items[0].fields.is_empty(), "{body}");
        };
        check(r#""body": "a\nb""#, b"a\nb");
        check(r#""body": null"#, b"");
        check(r#""body_base64": "AAE=""#, &[0, 1]);
    }

    #[test]
    fn what_could_become_another_request_is_refused() {
        for (text, why) in [
            ("{}", "a batch is a JSON list of objects"),
            ("[]", "a batch has 1 to 2 parts, not 0"),
            (r#"[{"path":"/"},{"path":"/"},{"path":"/"}]"#, "1 to 2 parts, not 3"),
            (r#"[{"path":"/"},{"path":"/","id":"0"}]"#, "two parts have the id \"0\""),
            (r#"[{"id":"a"}]"#, "part 0: path is a path"),
            (r#"[{"path":"http://a/"}]"#, "path is a path"),
            (r#"[{"path":"/a b"}]"#, "path is a path"),
            (r#"[{"path":"/a\r\nX: y"}]"#, "path is a path"),
            (r#"[{"path":"/a#b"}]"#, "path is a path"),
            (r#"[{"path":"/","method":"DELETE"}]"#, "the method is GET or POST"),
            (r#"[{"path":"/","method":"GET / HTTP/1.1\r\n"}]"#, "the method is GET or POST"),
            (r#"[{"path":"/","url":"/"}]"#, "it has no member \"url\""),
            (r#"[{"path":"/","headers":{"A":"b\r\nC: d"}}]"#, "is no header field"),
            (r#"[{"path":"/","headers":{"A b":"c"}}]"#, "is no header field"),
            (r#"[{"path":"/","headers":{"Content-Length":"1"}}]"#, "cannot be set"),
            (r#"[{"path":"/","headers":{"if-None-match":"1"}}]"#, "cannot be set"),
            (r#"[{"path":"/","headers":{"X-Forwarded-For":"1"}}]"#, "cannot be set"),
            (r#"[{"path":"/","headers":{"A":1}}]"#, "headers is an object of strings"),
            (r#"[{"path":"/","required":1}]"#, "required is true or false"),
            (r#"[{"path":"/","body_base64":"?"}]"#, "body_base64: "),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(why), "{text}: {error}");
        }
        let large = format!(r#"[{{"path":"/","body":"{}"}}]"#, "x".repeat(BODY_SIZE_MAX + 1));
        assert!(read(&large).expect_err("it is large").contains("larger than"));
    }
}
