//! What is known of another load generator.

/// Another load generator.
pub(super) struct Tool {
    pub(super) names: &'static [&'static str],
    pub(super) style: Style,
    /// Its options, those of one meaning in one row.
    pub(super) options: &'static [(&'static str, Meaning)],
    /// What it does by default and `jissoku load` does not.
    pub(super) defaults: &'static [Default],
    /// Whether it accepts every certificate.
    pub(super) trusts_all: bool,
    /// Whether a duration excludes a number of requests; otherwise the first limit ends a run.
    pub(super) duration_wins: bool,
    /// What no option changes.
    pub(super) differs: &'static [&'static str],
}

/// How options are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// `-k -c 5`, `-kc5`, `--name value`, `--name=value`.
    Clustered,
    /// `-name value`, `-name=value`.
    Go,
}

/// What stands for an option.
#[derive(Clone, Copy)]
pub(super) enum Meaning {
    /// This option, with the same value.
    Copy(&'static str),
    /// This option, with a number that may end in k or M.
    Count(&'static str),
    /// This option, with the file's contents.
    File(&'static str),
    /// A header field with this name.
    Field(&'static str),
    /// A request with this method and a file as its body.
    Upload(&'static str),
    /// These words; it has no value.
    Flag(&'static [&'static str]),
    /// These words for each of these values, and nothing for another one, for this reason.
    Value(&'static [(&'static str, &'static [&'static str])], &'static str),
    /// It has no value and changes no request.
    Ignored,
    /// It has a value and changes no request.
    IgnoredValue,
    /// Nothing, for this reason.
    No(&'static str),
}

/// An option that is given unless the command line has it, or `unless`.
pub(super) struct Default {
    pub(super) option: &'static str,
    pub(super) value: Option<&'static str>,
    pub(super) unless: &'static str,
}

impl Default {
    pub(super) const fn new(option: &'static str, value: &'static str) -> Self {
        Self { option, value: Some(value), unless: option }
    }

    pub(super) const fn switch(option: &'static str) -> Self {
        Self { option, value: None, unless: option }
    }

    pub(super) const fn unless(self, unless: &'static str) -> Self {
        Self { unless, ..self }
    }
}
