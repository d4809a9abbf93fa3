//! Conditional requests: RFC 9110 section 13.
//!
//! Dates are weaker than entity tags, because a file can change twice within a second. So a tag
//! takes precedence over a date.

use crate::date;
use crate::head::{Fields, trim};

/// The validators of the current representation.
#[derive(Clone, Copy, Debug)]
pub struct Validators<'a> {
    /// The entity tag with its quotes, and with `W/` if it is weak.
    pub etag: &'a [u8],
    /// Last modification in seconds since 1970, if it is reliable: no other content has ever been
    /// sent with this date, so that it is a strong validator (section 8.8.2.2).
    pub modified_s: Option<u64>,
}

/// The result of evaluating the preconditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// Process the request.
    Pass,
    /// Process the request without its Range.
    PassIgnoringRange,
    /// 304.
    NotModified,
    /// 412.
    Failed,
}

/// The conditional fields of a request.
#[derive(Clone, Debug, Default)]
struct Conditions<'a> {
    matches: Vec<&'a [u8]>,
    none_matches: Vec<&'a [u8]>,
    modified_since: Vec<&'a [u8]>,
    unmodified_since: Vec<&'a [u8]>,
    range: Vec<&'a [u8]>,
}

/// Evaluates a GET or HEAD in the order of section 13.2.2. `now_s` is for [`date::parse`].
pub fn evaluate(fields: Fields<'_>, validators: &Validators<'_>, now_s: u64) -> Precondition {
    let conditions = Conditions::gather(fields);
    let modified_after = |values: &[&[u8]]| match values {
        // Duplicate dates are ignored.
        [value] => Some(validators.modified_s? > date::parse(value, now_s)?),
        _ => None,
    };
    let is_failed = if conditions.matches.is_empty() {
        modified_after(&conditions.unmodified_since) == Some(true)
    } else {
        !is_listed(&conditions.matches, validators.etag, is_same_strong)
    };
    if is_failed {
        return Precondition::Failed;
    }
    let is_known = if conditions.none_matches.is_empty() {
        modified_after(&conditions.modified_since) == Some(false)
    } else {
        is_listed(&conditions.none_matches, validators.etag, is_same_weak)
    };
    if is_known {
        return Precondition::NotModified;
    }
    match &*conditions.range {
        [] => Precondition::Pass,
        [tag] if is_same_strong(tag, validators.etag) => Precondition::Pass,
        // Section 13.1.5: an exact match, not "unmodified since".
        [date] if is_same_date(date, validators, now_s) => Precondition::Pass,
        _ => Precondition::PassIgnoringRange,
    }
}

impl<'a> Conditions<'a> {
    fn gather(fields: Fields<'a>) -> Self {
        let mut conditions = Self::default();
        for (name, value) in fields {
            let list = match name.len() {
                8 if name.eq_ignore_ascii_case(b"if-match") => &mut conditions.matches,
                8 if name.eq_ignore_ascii_case(b"if-range") => &mut conditions.range,
                13 if name.eq_ignore_ascii_case(b"if-none-match") => &mut conditions.none_matches,
                17 if name.eq_ignore_ascii_case(b"if-modified-since") => {
                    &mut conditions.modified_since
                }
                19 if name.eq_ignore_ascii_case(b"if-unmodified-since") => {
                    &mut conditions.unmodified_since
                }
                _ => continue,
            };
            list.push(value);
        }
        conditions
    }
}

/// Whether one of the `lines` is `*` or lists the tag. An invalid tag ends its line.
fn is_listed(lines: &[&[u8]], etag: &[u8], is_same: fn(&[u8], &[u8]) -> bool) -> bool {
    lines.iter().any(|line| {
        if *line == b"*" {
            return true;
        }
        let mut rest = *line;
        while let Some((tag, tail)) = next_tag(rest) {
            if is_same(tag, etag) {
                return true;
            }
            rest = tail;
        }
        false
    })
}

/// The first tag of a list, and what follows it. A comma may be part of a tag (section 8.8.3).
fn next_tag(list: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut list = trim(list);
    while let [b',', tail @ ..] = list {
        list = trim(tail);
    }
    let opening = if list.starts_with(b"W/") { 2 } else { 0 };
    let [b'"', opaque @ ..] = list.get(opening..)? else { return None };
    let size = opaque.iter().position(|&byte| byte == b'"')?;
    let is_tag = opaque[..size].iter().all(|&byte| byte == b'!' || byte >= b'#' && byte != 0x7f);
    let (tag, tail) = list.split_at(opening + size + 2);
    let tail = trim(tail);
    (is_tag && matches!(tail, [] | [b',', ..])).then_some((tag, tail))
}

fn is_same_date(date: &[u8], validators: &Validators<'_>, now_s: u64) -> bool {
    validators.modified_s.is_some() && date::parse(date, now_s) == validators.modified_s
}

/// Section 8.8.3.2: equal, and neither is weak.
fn is_same_strong(one: &[u8], other: &[u8]) -> bool {
    one == other && one.starts_with(b"\"")
}

/// Section 8.8.3.2: equal but for the `W/`.
fn is_same_weak(one: &[u8], other: &[u8]) -> bool {
    let opaque = |tag| <[u8]>::strip_prefix(tag, b"W/").unwrap_or(tag);
    opaque(one) == opaque(other)
}

#[cfg(test)]
mod tests;
