//! A TOML table whose values are taken by name and type. What is left over is unknown.
//!
//! A value that is refused is taken for absent, so that all that is wrong with a file is found at
//! once. Where another value would be right or wrong by it, [`Table::has_refused`] says so.

use std::cell::RefCell;
use std::fmt::{self, Display};
use std::ops::{Range, RangeInclusive};

use jissoku_http::is_whole_token;
use jissoku_os::quantity;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use crate::policy::spelling::instead_of;

pub(super) type Value<'a> = Spanned<DeValue<'a>>;

/// A size that fits the memory of a worker for fan-outs.
const SIZE_MAX: u64 = 64 * MIB;

const MIB: u64 = 1024 * 1024;
const GIB: u64 = 1024 * MIB;

/// An error of a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What is wrong.
    pub kind: ProblemKind,
    /// The path of the key, such as `upstream.app.health.path` or `route[0].to`; empty for the file.
    pub key: String,
    /// Counted from 1.
    pub line: usize,
    /// One sentence without the line.
    pub why: String,
}

/// What is wrong with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProblemKind {
    /// The file is not TOML.
    Syntax,
    /// There is no such key.
    Unknown,
    /// It is absent.
    Missing,
    /// Its value, or that it is there.
    Value,
}

impl Problem {
    /// About the key of this path, at a place of `text` in bytes.
    pub fn new(
        text: &str,
        (kind, key): (ProblemKind, &str),
        at: &Range<usize>,
        why: impl Into<String>,
    ) -> Self {
        Self { kind, key: key.to_owned(), line: line_of(text, at), why: why.into() }
    }

    /// About a text that is not TOML.
    pub fn of_syntax(text: &str, error: &toml::de::Error) -> Self {
        let at = error.span().unwrap_or_default();
        Self::new(text, (ProblemKind::Syntax, ""), &at, error.message())
    }
}

impl Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

fn line_of(text: &str, at: &Range<usize>) -> usize {
    text.get(..at.start).unwrap_or_default().matches('\n').count() + 1
}

/// The text of a file, and what was found to be wrong with it.
#[derive(Debug)]
pub(super) struct File<'t> {
    text: &'t str,
    problems: RefCell<Vec<Problem>>,
}

impl<'t> File<'t> {
    pub(super) const fn new(text: &'t str) -> Self {
        Self { text, problems: RefCell::new(Vec::new()) }
    }

    fn push(&self, about: (ProblemKind, &str), at: &Range<usize>, why: impl Into<String>) {
        self.problems.borrow_mut().push(Problem::new(self.text, about, at, why));
    }

    /// Refuses the value of the key of this path.
    pub(super) fn refuse(&self, path: &str, at: &Range<usize>, why: impl Into<String>) {
        self.push((ProblemKind::Value, path), at, why);
    }

    /// Whether something is wrong with the key of this path, or with one within its value.
    pub(super) fn has_refused(&self, path: &str) -> bool {
        let is_within = |rest: &str| rest.is_empty() || rest.starts_with(['.', '[']);
        let problems = self.problems.borrow();
        problems.iter().any(|problem| problem.key.strip_prefix(path).is_some_and(is_within))
    }

    /// In the order of the lines.
    pub(super) fn into_problems(self) -> Vec<Problem> {
        let mut problems = self.problems.into_inner();
        problems.sort_by_key(|problem| problem.line);
        problems
    }
}

pub(super) struct Table<'t, 'a> {
    pub(super) file: &'t File<'t>,
    /// For messages: "upstream "app"".
    what: String,
    path: String,
    entries: &'t DeTable<'a>,
    at: Range<usize>,
    known: Vec<&'static str>,
    /// Keys that are required and absent, and what is said of them.
    missing: Vec<(&'static str, String)>,
}

impl<'t, 'a> Table<'t, 'a> {
    /// `None` if the value is no table, which is refused.
    pub(super) fn of(
        file: &'t File<'t>,
        value: &'t Value<'a>,
        (path, what): (String, &str),
        at: Range<usize>,
    ) -> Option<Self> {
        let DeValue::Table(entries) = value.get_ref() else {
            let why = format!("{what} is a table, not {}", kind(value.get_ref()));
            file.refuse(&path, &value.span(), why);
            return None;
        };
        let (known, missing) = (Vec::new(), Vec::new());
        Some(Self { file, what: what.to_owned(), path, entries, at, known, missing })
    }

    /// Its line, counted from 1.
    pub(super) fn line(&self) -> usize {
        line_of(self.file.text, &self.at)
    }

    pub(super) fn path_of(&self, key: impl Display) -> String {
        format!("{}.{key}", self.path)
    }

    /// Whether something is wrong with the value of this key.
    pub(super) fn has_refused(&self, key: &str) -> bool {
        self.file.has_refused(&self.path_of(key))
    }

    /// Refuses the value of a key, or the whole table if it is absent.
    pub(super) fn refuse(&self, key: &str, why: impl Into<String>) {
        let at = self.entries.get(key).map_or_else(|| self.at.clone(), Spanned::span);
        self.file.refuse(&self.path_of(key), &at, why);
    }

    /// Refuses the table itself.
    pub(super) fn refuse_whole(&self, why: &str) {
        self.file.refuse(&self.path, &self.at, why);
    }

    /// Refuses the table unless this key is there. One that is not known may be meant for it.
    pub(super) fn require(&mut self, key: &'static str, why: impl Into<String>) {
        if self.value(key).is_none() {
            self.missing.push((key, why.into()));
        }
    }

    /// Refuses a key that is there without an effect.
    pub(super) fn only(&mut self, key: &'static str, has_effect: bool, why: &str) {
        if !has_effect && self.value(key).is_some() && !self.has_refused(key) {
            self.refuse(key, why);
        }
    }

    /// Refuses keys that nothing asked for, and says which are missing otherwise.
    pub(super) fn finish(self) {
        let mut has_unknown = false;
        for (key, _) in self.entries {
            let (at, key) = (key.span(), &**key.get_ref());
            if !self.known.contains(&key) {
                has_unknown = true;
                let instead = instead_of(key, &self.known);
                let why = format!("{} has no key {key:?}; {instead}", self.what);
                self.file.push((ProblemKind::Unknown, &self.path_of(key)), &at, why);
            }
        }
        for (key, why) in self.missing.iter().filter(|_| !has_unknown) {
            self.file.push((ProblemKind::Missing, &self.path_of(key)), &self.at, why);
        }
    }

    /// All keys and values in the order of the file.
    pub(super) fn in_order(&self) -> Vec<(&'t str, &'t Value<'a>)> {
        let mut all: Vec<_> = self.entries.iter().collect();
        all.sort_by_key(|(key, _)| key.span().start);
        all.into_iter().map(|(key, value)| (&**key.get_ref(), value)).collect()
    }

    pub(super) fn value(&mut self, key: &'static str) -> Option<&'t Value<'a>> {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        self.entries.get(key)
    }

    /// What `read` makes of a value, or of one in the list, of this key.
    pub(super) fn checked<T>(
        &self,
        key: &str,
        value: &'t Value<'a>,
        read: impl FnOnce(&'t Value<'a>) -> Result<T, String>,
    ) -> Option<T> {
        let refuse = |why: String| self.file.refuse(&self.path_of(key), &value.span(), why);
        read(value).map_err(refuse).ok()
    }

    /// What `read` makes of the value of a key.
    pub(super) fn take<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&'t Value<'a>) -> Result<T, String>,
    ) -> Option<T> {
        let value = self.value(key)?;
        self.checked(key, value, read)
    }

    /// What `read` makes of a string.
    pub(super) fn text<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        self.take(key, |value| read(text_of(key, "a string", value)?))
    }

    pub(super) fn string(&mut self, key: &'static str) -> Option<String> {
        self.text(key, |text| Ok(text.to_owned()))
    }

    /// `wanted` says what its values are.
    pub(super) fn array(&mut self, key: &'static str, wanted: &str) -> Option<&'t DeArray<'a>> {
        self.take(key, |value| match value.get_ref() {
            DeValue::Array(values) => Ok(values),
            other => Err(wrong(key, wanted, other)),
        })
    }

    /// What `read` makes of the values of a list; those that it refuses are left out.
    pub(super) fn list<T>(
        &mut self,
        key: &'static str,
        wanted: &str,
        mut read: impl FnMut(&'t Value<'a>) -> Result<T, String>,
    ) -> Option<Vec<T>> {
        let values = self.array(key, wanted)?.iter();
        Some(values.filter_map(|value| self.checked(key, value, &mut read)).collect())
    }

    /// What `read` makes of the strings of a list.
    pub(super) fn texts<T>(
        &mut self,
        key: &'static str,
        mut read: impl FnMut(&str) -> Result<T, String>,
    ) -> Option<Vec<T>> {
        self.list(key, "a list of strings", |value| read(text_of(key, "a string", value)?))
    }

    pub(super) fn integer<T: TryFrom<i64>>(
        &mut self,
        key: &'static str,
        range: RangeInclusive<i64>,
        default: T,
    ) -> T {
        self.take(key, |value| integer(key, value, range)).unwrap_or(default)
    }

    /// In nanoseconds; more than 0.
    pub(super) fn duration(&mut self, key: &'static str) -> Option<u64> {
        self.take(key, |value| {
            let text = text_of(key, "a time in quotes, such as \"5s\"", value)?;
            quantity::duration_ns(text).filter(|ns| *ns > 0).ok_or_else(|| {
                format!("{key} is a time, such as \"500ms\" or \"2s\", not {text:?}")
            })
        })
    }

    /// In bytes; more than 0.
    pub(super) fn size(&mut self, key: &'static str) -> Option<usize> {
        self.size_within(key, 1..=SIZE_MAX)
    }

    /// In bytes.
    pub(super) fn size_within<T: TryFrom<u64>>(
        &mut self,
        key: &'static str,
        range: RangeInclusive<u64>,
    ) -> Option<T> {
        self.take(key, |value| {
            let text = text_of(key, "a size in quotes, such as \"256KiB\"", value)?;
            let bytes = size_bytes(text).filter(|bytes| range.contains(bytes));
            bytes.and_then(|bytes| T::try_from(bytes).ok()).ok_or_else(|| {
                let most = text_of_size(*range.end());
                let example = "such as \"256KiB\" or \"4MiB\"";
                format!("{key} is a size of at most {most}, {example}, not {text:?}")
            })
        })
    }

    pub(super) fn switch(&mut self, key: &'static str) -> Option<bool> {
        self.take(key, |value| match value.get_ref() {
            DeValue::Boolean(flag) => Ok(*flag),
            other => Err(wrong(key, "true or false", other)),
        })
    }

    pub(super) fn word<T: Copy>(&mut self, key: &'static str, words: &[(&str, T)]) -> Option<T> {
        self.text(key, |text| word(key, text, words))
    }

    pub(super) fn table(&mut self, key: &'static str) -> Option<Self> {
        let value = self.value(key)?;
        Self::of(self.file, value, (self.path_of(key), key), value.span())
    }

    /// The table of this index in the list of a key, which `what` names.
    pub(super) fn within(
        &self,
        (key, index): (&str, usize),
        value: &'t Value<'a>,
        what: &str,
    ) -> Option<Self> {
        let path = format!("{}[{index}]", self.path_of(key));
        Self::of(self.file, value, (path, what), value.span())
    }
}

pub(super) fn word<T: Copy>(key: &str, text: &str, words: &[(&str, T)]) -> Result<T, String> {
    let found = words.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let names: Vec<String> = words.iter().map(|(name, _)| format!("{name:?}")).collect();
        format!("{key} is {}, not {text:?}", names.join(" or "))
    })
}

/// `wanted` says what its value is, for a value of another type.
pub(super) fn text_of<'v>(
    key: &str,
    wanted: &str,
    value: &'v Value<'_>,
) -> Result<&'v str, String> {
    match value.get_ref() {
        DeValue::String(text) => Ok(text),
        other => Err(wrong(key, wanted, other)),
    }
}

pub(super) fn integer<T: TryFrom<i64>>(
    key: &str,
    value: &Value<'_>,
    range: RangeInclusive<i64>,
) -> Result<T, String> {
    let DeValue::Integer(digits) = value.get_ref() else {
        return Err(wrong(key, "a whole number", value.get_ref()));
    };
    let number = i64::from_str_radix(digits.as_str(), digits.radix()).ok();
    let number = number.filter(|number| range.contains(number));
    number.and_then(|number| T::try_from(number).ok()).ok_or_else(|| {
        format!("{key} is {} to {}, not {}", range.start(), range.end(), digits.as_str())
    })
}

pub(super) fn wrong(key: &str, wanted: &str, found: &DeValue<'_>) -> String {
    format!("{key} must be {wanted}, not {}", kind(found))
}

fn kind(value: &DeValue<'_>) -> String {
    format!("a value of type {}", value.type_str())
}

/// Whether this can be the name of a field that no application takes for another.
pub(super) fn is_field_name(text: &str) -> bool {
    is_whole_token(text.as_bytes()) && !text.contains('_')
}

/// The name in `field:NAME`.
pub(super) fn field_of(text: &str) -> Option<String> {
    text.strip_prefix("field:").filter(|name| is_field_name(name)).map(str::to_owned)
}

fn size_bytes(text: &str) -> Option<u64> {
    quantity::scaled(text, &[("B", 1), ("KiB", 1024), ("MiB", MIB), ("GiB", GIB)])
        .filter(|_| !text.contains('.'))
}

fn text_of_size(bytes: u64) -> String {
    if bytes.is_multiple_of(GIB) {
        format!("{} GiB", bytes / GIB)
    } else {
        format!("{} MiB", bytes / MIB)
    }
}
