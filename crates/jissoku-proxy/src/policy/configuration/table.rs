//! A TOML table whose values are taken by name and type. What is left over is unknown.

use std::fmt::{self, Display};
use std::ops::{Range, RangeInclusive};

use jissoku_os::quantity;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::policy::spelling::instead_of;

pub(super) type Value<'a> = Spanned<DeValue<'a>>;

/// A value and its place.
pub(super) type Placed<T> = (T, Range<usize>);

/// A size that fits the memory of a worker for fan-outs.
const SIZE_MAX: u64 = 64 * MIB;

const MIB: u64 = 1024 * 1024;
const GIB: u64 = 1024 * MIB;

/// The words of a refusal of a key that is not known.
const UNKNOWN: &str = " has no key ";

#[derive(Clone)]
pub(super) struct Table<'t, 'a> {
    /// For messages: "upstream "app"".
    what: String,
    entries: &'t DeTable<'a>,
    pub(super) at: Range<usize>,
    known: Vec<&'static str>,
    /// Keys that were refused, and are taken for absent.
    refused: Vec<String>,
}

impl<'t, 'a> Table<'t, 'a> {
    pub(super) fn of(value: &'t Value<'a>, what: &str, at: &Range<usize>) -> Result<Self, Refusal> {
        match value.get_ref() {
            DeValue::Table(table) => Ok(Self {
                what: what.to_owned(),
                entries: table,
                at: at.clone(),
                known: Vec::new(),
                refused: Vec::new(),
            }),
            other => Err(refuse(value.span(), &format!("{what} is a table, not {}", kind(other)))),
        }
    }

    pub(super) fn value(&mut self, key: &'static str) -> Option<&'t Value<'a>> {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        self.entries.get(key).filter(|_| !self.has_refused(key))
    }

    /// Whether this key was refused, whose value may be needed.
    pub(super) fn has_refused(&self, key: &str) -> bool {
        self.refused.iter().any(|refused| refused == key)
    }

    /// All keys and values in the order of the file.
    pub(super) fn in_order(&self) -> Vec<(Placed<String>, &'t Value<'a>)> {
        let mut all: Vec<_> = self
            .entries
            .iter()
            .map(|(key, value)| ((key.get_ref().to_string(), key.span()), value))
            .collect();
        all.sort_by_key(|((_, at), _)| at.start);
        all
    }

    pub(super) fn string(&mut self, key: &'static str) -> Result<Option<Placed<String>>, Refusal> {
        self.string_as(key, "a string")
    }

    pub(super) fn strings(
        &mut self,
        key: &'static str,
    ) -> Result<Option<Vec<Placed<String>>>, Refusal> {
        let Some(value) = self.value(key) else { return Ok(None) };
        match value.get_ref() {
            DeValue::Array(values) => {
                values.iter().map(|value| string(key, value)).collect::<Result<_, _>>().map(Some)
            }
            other => Err(wrong(key, "a list of strings", other, value)),
        }
    }

    pub(super) fn integer<T: TryFrom<i64> + Display>(
        &mut self,
        key: &'static str,
        range: RangeInclusive<i64>,
        default: T,
    ) -> Result<T, Refusal> {
        self.value(key).map_or(Ok(default), |value| integer(key, value, range))
    }

    /// `wanted` says what its value is, for a value of another type.
    fn string_as(
        &mut self,
        key: &'static str,
        wanted: &str,
    ) -> Result<Option<Placed<String>>, Refusal> {
        self.value(key).map(|value| string_as(key, wanted, value)).transpose()
    }

    /// In nanoseconds; more than 0.
    pub(super) fn duration(&mut self, key: &'static str) -> Result<Option<u64>, Refusal> {
        let quoted = "a time in quotes, such as \"5s\"";
        let Some((text, at)) = self.string_as(key, quoted)? else { return Ok(None) };
        let ns = quantity::duration_ns(&text).filter(|ns| *ns > 0);
        ns.map(Some).ok_or_else(|| {
            refuse(at, &format!("{key} is a time, such as \"500ms\" or \"2s\", not {text:?}"))
        })
    }

    /// In bytes; more than 0.
    pub(super) fn size(&mut self, key: &'static str) -> Result<Option<usize>, Refusal> {
        self.size_within(key, 1..=SIZE_MAX)
    }

    /// In bytes.
    pub(super) fn size_within<T: TryFrom<u64>>(
        &mut self,
        key: &'static str,
        range: RangeInclusive<u64>,
    ) -> Result<Option<T>, Refusal> {
        let quoted = "a size in quotes, such as \"256KiB\"";
        let Some((text, at)) = self.string_as(key, quoted)? else { return Ok(None) };
        let bytes = size_bytes(&text).filter(|bytes| range.contains(bytes));
        bytes.and_then(|bytes| T::try_from(bytes).ok()).map(Some).ok_or_else(|| {
            let most = text_of_size(*range.end());
            let example = "such as \"256KiB\" or \"4MiB\"";
            refuse(at, &format!("{key} is a size of at most {most}, {example}, not {text:?}"))
        })
    }

    pub(super) fn flag(&mut self, key: &'static str) -> Result<bool, Refusal> {
        self.switch(key).map(|switch| switch.unwrap_or(false))
    }

    pub(super) fn switch(&mut self, key: &'static str) -> Result<Option<bool>, Refusal> {
        let Some(value) = self.value(key) else { return Ok(None) };
        match value.get_ref() {
            DeValue::Boolean(flag) => Ok(Some(*flag)),
            other => Err(wrong(key, "true or false", other, value)),
        }
    }

    /// One of several words.
    pub(super) fn word<T: Copy>(
        &mut self,
        key: &'static str,
        words: &[(&str, T)],
    ) -> Result<Option<T>, Refusal> {
        let Some((text, at)) = self.string(key)? else { return Ok(None) };
        word(key, &text, words).map(Some).map_err(|why| refuse(at, &why))
    }

    pub(super) fn table(&mut self, key: &'static str) -> Result<Option<Self>, Refusal> {
        self.value(key).map(|value| Self::of(value, key, &value.span())).transpose()
    }

    /// Refuses keys that nothing asked for.
    pub(super) fn finish(self) -> Result<(), Refusal> {
        for ((key, at), _) in self.in_order() {
            if !self.known.contains(&key.as_str()) && !self.has_refused(&key) {
                let instead = instead_of(&key, &self.known);
                let why = format!("{}{UNKNOWN}{key:?}; {instead}", self.what);
                return Err(refuse(at, &why));
            }
        }
        Ok(())
    }
}

/// What `read` makes of a table, and all refusals: after each, it reads the table without that key.
pub(super) fn read_whole<'t, 'a, T>(
    mut table: Table<'t, 'a>,
    read: impl Fn(Table<'t, 'a>) -> Result<T, Refusal>,
) -> (Option<T>, Vec<Refusal>) {
    let (mut refusals, mut has_unknown) = (Vec::new(), false);
    loop {
        let refusal = match read(table.clone()) {
            Ok(found) => return (Some(found), refusals),
            Err(refusal) => refusal,
        };
        let in_order = table.in_order();
        let is_about = |span: &Range<usize>| span.contains(&refusal.at.start);
        let key = in_order
            .into_iter()
            .find(|((_, at), value)| is_about(at) || is_about(&value.span()))
            .map(|((key, _), _)| key);
        // A key may be missing, or have no effect, since another was refused.
        let is_unknown = refusal.why.contains(UNKNOWN);
        let is_missing = refusal.at == table.at;
        let mut words =
            refusal.why.split(|sign: char| !sign.is_ascii_alphanumeric() && sign != '-');
        let is_consequence = !is_unknown
            && (words.any(|word| table.has_refused(word)) || (is_missing && has_unknown));
        has_unknown |= is_unknown;
        if !is_consequence {
            refusals.push(refusal);
        }
        match key {
            Some(key) if !table.has_refused(&key) => table.refused.push(key),
            _ => return (None, refusals),
        }
    }
}

pub(super) fn word<T: Copy>(key: &str, text: &str, words: &[(&str, T)]) -> Result<T, String> {
    let found = words.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let names: Vec<String> = words.iter().map(|(name, _)| format!("{name:?}")).collect();
        format!("{key} is {}, not {text:?}", names.join(" or "))
    })
}

pub(super) fn string(key: &str, value: &Value<'_>) -> Result<Placed<String>, Refusal> {
    string_as(key, "a string", value)
}

fn string_as(key: &str, wanted: &str, value: &Value<'_>) -> Result<Placed<String>, Refusal> {
    match value.get_ref() {
        DeValue::String(text) => Ok((text.to_string(), value.span())),
        other => Err(wrong(key, wanted, other, value)),
    }
}

pub(super) fn integer<T: TryFrom<i64>>(
    key: &str,
    value: &Value<'_>,
    range: RangeInclusive<i64>,
) -> Result<T, Refusal> {
    let DeValue::Integer(digits) = value.get_ref() else {
        return Err(wrong(key, "a whole number", value.get_ref(), value));
    };
    let number = i64::from_str_radix(digits.as_str(), digits.radix()).ok();
    number
        .filter(|number| range.contains(number))
        .and_then(|number| T::try_from(number).ok())
        .ok_or_else(|| {
            let (least, most) = range.into_inner();
            refuse(value.span(), &format!("{key} is {least} to {most}, not {}", digits.as_str()))
        })
}

pub(super) fn wrong(key: &str, wanted: &str, found: &DeValue<'_>, value: &Value<'_>) -> Refusal {
    refuse(value.span(), &format!("{key} must be {wanted}, not {}", kind(found)))
}

fn kind(value: &DeValue<'_>) -> String {
    format!("a value of type {}", value.type_str())
}

/// Whether this can be the name of a field (RFC 9110 section 5.6.2).
pub(super) fn is_field_name(text: &str) -> bool {
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_sign)
}

fn size_bytes(text: &str) -> Option<u64> {
    let split = text.find(|sign: char| !sign.is_ascii_digit())?;
    let (digits, unit) = text.split_at_checked(split)?;
    let factor = match unit {
        "B" => 1,
        "KiB" => 1024,
        "MiB" => MIB,
        "GiB" => GIB,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

fn text_of_size(bytes: u64) -> String {
    if bytes.is_multiple_of(GIB) {
        format!("{} GiB", bytes / GIB)
    } else {
        format!("{} MiB", bytes / MIB)
    }
}

/// An error of the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Problem {
    /// Counted from 1.
    pub line: usize,
    /// One sentence without the line.
    pub why: String,
}

impl Problem {
    pub(super) fn new(text: &str, refusal: Refusal) -> Self {
        Self { line: line(text, &refusal.at), why: refusal.why }
    }
}

impl Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

/// The same with its place in bytes.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) at: Range<usize>,
    pub(super) why: String,
}

pub(super) fn refuse(at: Range<usize>, why: &str) -> Refusal {
    Refusal { at, why: why.to_owned() }
}

pub(super) fn line(text: &str, at: &Range<usize>) -> usize {
    text.get(..at.start).unwrap_or_default().matches('\n').count() + 1
}
