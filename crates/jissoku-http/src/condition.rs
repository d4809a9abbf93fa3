//! Is the request to be carried out, given what the client knows? RFC 9110 section 13.
//!
//! A date tells less than an entity tag: a file can change twice in one second. Whoever has a tag is
//! therefore judged by the tag alone, and a date never vouches for a part (section 13.1.5).

use crate::date;
use crate::head::{Fields, trim};

/// What is known of the representation as it is now.
#[derive(Clone, Copy, Debug)]
pub struct Validators<'a> {
    /// The entity tag, as it is sent: with its quotes, and with `W/` if it is weak.
    pub etag: &'a [u8],
    /// The date of the last change, in seconds since 1970, if it may be relied on.
    pub modified_s: Option<u64>,
}

/// What the conditions come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The request is to be carried out.
    Holds,
    /// The request is to be carried out as if it had no Range.
    HoldsWhole,
    /// 304: the client has what it asks for.
    NotModified,
    /// 412: the client relied on something that is no longer so.
    Failed,
}

/// The conditions of one request, gathered from its header lines.
#[derive(Clone, Debug, Default)]
struct Conditions<'a> {
    matches: Vec<&'a [u8]>,
    none_matches: Vec<&'a [u8]>,
    modified_since: Vec<&'a [u8]>,
    unmodified_since: Vec<&'a [u8]>,
    range: Vec<&'a [u8]>,
}

/// Judges a GET or HEAD in the order of section 13.2.2. `now_s` is for [`date::parse`].
#[must_use]
pub fn judge(fields: Fields<'_>, validators: &Validators<'_>, now_s: u64) -> Outcome {
    let conditions = Conditions::gather(fields);
    let modified_after = |values: &[&[u8]]| match values {
        // More than one date is no date.
        [value] => Some(validators.modified_s? > date::parse(value, now_s)?),
        _ => None,
    };
    let is_failed = if conditions.matches.is_empty() {
        modified_after(&conditions.unmodified_since) == Some(true)
    } else {
        !is_listed(&conditions.matches, validators.etag, is_same_strong)
    };
    if is_failed {
        return Outcome::Failed;
    }
    let is_known = if conditions.none_matches.is_empty() {
        modified_after(&conditions.modified_since) == Some(false)
    } else {
        is_listed(&conditions.none_matches, validators.etag, is_same_weak)
    };
    if is_known {
        return Outcome::NotModified;
    }
    match &*conditions.range {
        [] => Outcome::Holds,
        [tag] if is_same_strong(tag, validators.etag) => Outcome::Holds,
        _ => Outcome::HoldsWhole,
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

/// Whether one of the `lines` says `*` or lists the tag. What does not read as a tag ends its line.
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
