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
            Self::Usage(refusal) => {
                // Clap's refusals carry the usage; help and version are no refusals and exit with 0.
                let _shown = refusal.print();
                u8::try_from(refusal.exit_code()).unwrap_or(BAD_INPUT)
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
                let text = refusal.to_string();
                let line = text.lines().next().unwrap_or_default();
                formatter.write_str(line.strip_prefix("error: ").unwrap_or(line))
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
