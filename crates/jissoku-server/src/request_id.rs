//! The id of a request: made here, or that of a trusted proxy.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use jissoku_http::Head;

/// The longest id of a proxy that is taken over.
const SIZE_MAX: usize = 128;

/// The longest name of the field.
const NAME_SIZE_MAX: usize = 64;

/// The name of the field for the id of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestIdName(String);

impl RequestIdName {
    /// Reads a name, which ends with `-Id`: the field is replaced in requests.
    ///
    /// # Errors
    /// A message with the expected form.
    pub fn parse(text: &str) -> Result<Self, String> {
        let lower = text.to_ascii_lowercase();
        let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let is_name = lower.ends_with("-id")
            && lower.starts_with(|first: char| first.is_ascii_alphabetic())
            && lower.len() <= NAME_SIZE_MAX
            && lower.bytes().all(is_sign);
        if !is_name || lower == "last-event-id" {
            return Err("write the name of a field that ends with -Id, such as X-Request-Id".into());
        }
        Ok(Self(text.to_owned()))
    }
}

#[derive(Debug)]
pub(crate) struct RequestIds {
    name: RequestIdName,
    /// Seeded by the kernel, so that ids of two workers differ.
    random: RandomState,
    count: u64,
}

impl RequestIds {
    pub(crate) fn new(name: RequestIdName) -> Self {
        Self { name, random: RandomState::new(), count: 0 }
    }

    /// The header line with the id of a request. The client's own is taken only if `is_trusted`.
    pub(crate) fn line(&mut self, head: &Head, bytes: &[u8], is_trusted: bool) -> Arc<[u8]> {
        let name = self.name.0.as_bytes();
        let fields = head.fields(bytes);
        let mut given =
            fields.filter(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value);
        let line = |id: &[u8]| [name, b": ", id, b"\r\n"].concat().into();
        match (given.next(), given.next()) {
            (Some(id), None) if is_trusted && is_id(id) => line(id),
            _ => {
                self.count += 1;
                let [high, low] = [0_u64, 1].map(|half| self.random.hash_one((self.count, half)));
                line(format!("{high:016x}{low:016x}").as_bytes())
            }
        }
    }
}

fn is_id(text: &[u8]) -> bool {
    let is_sign = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:+/=@~".contains(byte);
    (1..=SIZE_MAX).contains(&text.len()) && text.iter().all(is_sign)
}

/// The name and the value of a header line.
pub fn name_and_value(line: &[u8]) -> (&[u8], &[u8]) {
    let end = line.iter().position(|&byte| byte == b':').unwrap_or(line.len());
    let (name, rest) = line.split_at(end);
    (name, rest.trim_ascii_start().strip_prefix(b":").unwrap_or(rest).trim_ascii())
}

/// Whether header lines have a field with the name of `line`.
pub fn has_field_of(lines: &[u8], line: &[u8]) -> bool {
    let (name, _) = name_and_value(line);
    let mut lines = lines.split(|&byte| byte == b'\n').take_while(|it| !it.trim_ascii().is_empty());
    lines.any(|other| {
        other.get(name.len()) == Some(&b':') && other[..name.len()].eq_ignore_ascii_case(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_with_id() {
        for name in ["X-Request-Id", "x-correlation-id", "Request-ID"] {
            assert!(RequestIdName::parse(name).is_ok(), "{name}");
        }
        let long = format!("X-{}-Id", "x".repeat(NAME_SIZE_MAX));
        for name in [
            "",
            "-Id",
            "Host",
            "Content-Length",
            "Last-Event-ID",
            "X-Id: y",
            "X\r\n-Id",
            "é-Id",
            &long,
        ] {
            assert!(RequestIdName::parse(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn ids_have_no_signs_that_mean_something() {
        for id in
            ["0af7651916cd43dd8448eb211c80319c", "f058ebd6-02f7-4d3f", "a", "Root=1-5e/+@~_.:"]
        {
            assert!(is_id(id.as_bytes()), "{id}");
        }
        let long = "x".repeat(SIZE_MAX + 1);
        for id in
            ["", "a b", "a,b", "a\r\nX: y", "a\n", "a\0", "é", "\"", "\\", "<", "%0d", "{", &long]
        {
            assert!(!is_id(id.as_bytes()), "{id:?}");
        }
    }

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let has = |lines: &[u8]| has_field_of(lines, b"X-Request-Id: 1\r\n");
        assert!(has(b"A: b\r\nx-request-ID: 2\r\n\r\nbody"));
        assert!(!has(b"X-Request-Id2: 2\r\nB: X-Request-Id: 3\r\n\r\nX-Request-Id: 4\r\n"));
    }
}
