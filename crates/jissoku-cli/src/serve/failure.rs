//! Why serving has come to nothing, and what the process says of it.

use std::fmt;
use std::io::{self, Write};

/// Exit codes, as everywhere in jissoku.
pub(super) const FINE: u8 = 0;
pub(super) const FAILED: u8 = 1;
pub(super) const BAD_INPUT: u8 = 2;

/// One sentence for a person, and the exit code.
#[derive(Debug)]
pub(super) enum Failure {
    /// The flags were not understood, or help was asked for; clap knows how to say it.
    Usage(clap::Error),
    /// Anything else.
    Said { code: u8, message: String },
}

impl Failure {
    /// The person asked for something that cannot be had.
    pub(super) fn of_input(message: &(impl ToString + ?Sized)) -> Self {
        Self::Said { code: BAD_INPUT, message: message.to_string() }
    }

    /// What was asked for was in order, and the world was not.
    pub(super) fn of_work(message: &(impl ToString + ?Sized)) -> Self {
        Self::Said { code: FAILED, message: message.to_string() }
    }

    /// Says it on standard error, and returns the exit code.
    pub(super) fn tell(&self) -> u8 {
        match self {
            // Help and version are no refusals.
            Self::Usage(refusal) if refusal.exit_code() == 0 => {
                let _shown = refusal.print();
                FINE
            }
            Self::Usage(_) => {
                complain(&format!("{self}; see jissoku serve --help"));
                BAD_INPUT
            }
            Self::Said { code, .. } => {
                complain(&self.to_string());
                *code
            }
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(refusal) => {
                // Clap's first paragraph says what is wrong; the usage comes after it.
                let text = refusal.to_string();
                let lines = text.lines().take_while(|line| !line.is_empty());
                let words: Vec<&str> = lines.map(str::trim).collect();
                let sentence = words.join(" ");
                formatter.write_str(sentence.strip_prefix("error: ").unwrap_or(&sentence))?;
                match text.lines().find_map(|line| line.trim().strip_prefix("tip: ")) {
                    Some(tip) => write!(formatter, "; {tip}"),
                    None => Ok(()),
                }
            }
            Self::Said { message, .. } => formatter.write_str(message),
        }
    }
}

/// Says something on standard error.
pub(super) fn complain(sentence: &str) {
    // If standard error is closed, the exit code still speaks.
    let _told = writeln!(io::stderr(), "jissoku serve: {sentence}");
}
