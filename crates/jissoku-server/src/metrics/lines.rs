//! Lines of the `OpenMetrics` 1.0 text format.

use std::fmt::{self, Write};

/// A metric family: its name, help text, and its counters with their labels.
pub(super) struct Family<C: 'static> {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) members: &'static [(C, &'static str)],
}

/// Starts a metric family. A unit is the end of its name.
pub(super) fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    put(text, format_args!("# TYPE {name} {kind}\n"));
    let (_, end) = name.rsplit_once('_').unwrap_or_default();
    if ["bytes", "seconds"].contains(&end) {
        put(text, format_args!("# UNIT {name} {end}\n"));
    }
    put(text, format_args!("# HELP {name} {help}\n"));
}

/// Appends a sample.
pub(super) fn line(text: &mut String, name: &str, value: u64) {
    put(text, format_args!("{name} {value}\n"));
}

/// Appends formatted text.
pub(super) fn put(text: &mut String, arguments: fmt::Arguments<'_>) {
    text.write_fmt(arguments).expect("memory takes everything");
}

/// The value of a label.
pub(super) struct Escaped<'a>(pub(super) &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '"' | '\\' => write!(formatter, "\\{character}")?,
                '\n' => formatter.write_str("\\n")?,
                _ => formatter.write_char(character)?,
            }
        }
        Ok(())
    }
}
