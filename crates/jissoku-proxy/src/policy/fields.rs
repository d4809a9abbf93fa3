//! Fields that a route sets, adds and removes: `Name: value`, `+Name: value` and `-Name`.

use jissoku_http::connection_fields::{ConnectionField, is_reserved};
use jissoku_http::forward::FieldNames;
use jissoku_http::is_whole_token;

use super::template::{Template, Values};

/// Changes of the fields of a head. The default changes nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldRules {
    removed: FieldNames,
    lines: Vec<Line>,
    has_variables: bool,
    /// All lines that are added, unless a value has variables.
    constant: Box<str>,
}

/// A line that is added.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    /// `Name: ` before a value with variables; else the whole line with its end.
    text: Box<str>,
    name_size: usize,
    /// The value, if it has variables.
    value: Option<Template>,
}

impl Line {
    fn new(name: &str, value: Template) -> Self {
        let (text, value) = match value.constant() {
            Some(text) => (format!("{name}: {text}\r\n"), None),
            None => (format!("{name}: "), Some(value)),
        };
        Self { text: text.into(), name_size: name.len(), value }
    }

    fn name(&self) -> &str {
        &self.text[..self.name_size]
    }

    /// Appends the line, unless its value is empty.
    fn write(&self, values: &Values<'_>, output: &mut Vec<u8>) {
        let start = output.len();
        output.extend_from_slice(self.text.as_bytes());
        let Some(value) = &self.value else { return };
        let value_at = output.len();
        value.write(values, output);
        let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
        if output[value_at..].iter().all(is_blank) {
            output.truncate(start);
        } else {
            output.extend_from_slice(b"\r\n");
        }
    }
}

/// Which head is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// That of a request.
    Request,
    /// That of a response.
    Response,
}

impl FieldRules {
    /// Whether nothing is changed.
    pub const fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.lines.is_empty()
    }

    /// The names of the fields that are removed from what was received.
    pub const fn removed(&self) -> &FieldNames {
        &self.removed
    }

    /// Whether fields are added.
    pub const fn adds(&self) -> bool {
        !self.lines.is_empty()
    }

    /// The header lines that are added, if they are the same for each request.
    pub fn constant(&self) -> Option<&str> {
        (!self.has_variables).then_some(&*self.constant)
    }

    /// What the header lines that are added usually have, in bytes.
    pub const fn size(&self) -> usize {
        64 * self.lines.len()
    }

    /// Adds a rule. A field that is set replaces what earlier rules have set or added. `segments` are
    /// the variables of the route's path.
    ///
    /// # Errors
    ///
    /// One sentence: the form, a field that is not to be changed, or an unknown variable.
    pub fn add(&mut self, text: &str, side: Side, segments: &[&str]) -> Result<(), String> {
        let form = "write \"Name: value\" to set a field, \"+Name: value\" to add one, \"-Name\" to \
                    remove it";
        let (rule, removes, keeps) = match text.split_at_checked(1) {
            Some(("-", rest)) => (rest, true, false),
            Some(("+", rest)) => (rest, false, true),
            _ => (text, false, false),
        };
        let (name, value) = match rule.split_once(':') {
            Some((name, value)) if !removes => (name, Some(value.trim_matches([' ', '\t']))),
            None if removes => (rule, None),
            _ => return Err(format!("{text:?}: {form}")),
        };
        check(name, side).map_err(|why| format!("{text:?}: {why}"))?;
        if !keeps {
            self.removed.add(name);
            self.lines.retain(|line| !line.name().eq_ignore_ascii_case(name));
        }
        if let Some(value) = value {
            if value.is_empty() {
                return Err(format!("{text:?}: a field has a value; {form}"));
            }
            let value =
                Template::parse(value, segments).map_err(|why| format!("{text:?}: {why}"))?;
            self.lines.push(Line::new(name, value));
        }
        self.has_variables = self.lines.iter().any(|line| line.value.is_some());
        let constant = if self.has_variables { &[][..] } else { &self.lines[..] };
        self.constant = constant.iter().map(|line| &*line.text).collect();
        Ok(())
    }

    /// Whether a rule is about the field of this name.
    pub fn concerns(&self, name: &str) -> bool {
        self.removed.has(name.as_bytes())
            || self.lines.iter().any(|line| line.name().eq_ignore_ascii_case(name))
    }

    /// Header lines of a response that is made here: those of its own that are not removed, and those
    /// that [`FieldRules::write`] has added.
    pub fn applied(&self, own: &str, added: &[u8]) -> Vec<u8> {
        let is_kept = |line: &&str| {
            let name = line.split(':').next().unwrap_or_default();
            !self.removed.has(name.as_bytes())
        };
        let kept: String = own.split_inclusive('\n').filter(is_kept).collect();
        [kept.as_bytes(), added].concat()
    }

    /// Appends the header lines that are added. One whose value is empty is left out.
    pub fn write(&self, values: &Values<'_>, output: &mut Vec<u8>) {
        match self.constant() {
            Some(lines) => output.extend_from_slice(lines.as_bytes()),
            None => self.lines.iter().for_each(|line| line.write(values, output)),
        }
    }
}

/// Why a field of this name is not changed, if it is not.
fn check(name: &str, side: Side) -> Result<(), String> {
    if !is_whole_token(name.as_bytes()) {
        return Err(format!("{name:?} is not the name of a field"));
    }
    if name.contains('_') {
        let other = name.replace('_', "-");
        return Err(format!("some applications take {name} for {other}: write {other}"));
    }
    let is = |other: &str| name.eq_ignore_ascii_case(other);
    let why = if is("host") && side == Side::Request {
        "`host` of [upstream.NAME] sets it"
    } else if is("content-length") {
        "it is the size of the body"
    } else if ConnectionField::of(name.as_bytes()).is_some() || is("expect") {
        "it concerns one connection"
    } else if is("date") && side == Side::Response {
        "it is always sent"
    } else if side == Side::Request && (is_reserved(name) || is("max-forwards")) {
        "the gateway sets it"
    } else {
        return Ok(());
    };
    Err(format!("{name} cannot be changed: {why}"))
}

#[cfg(test)]
mod tests;
