//! Why serving has come to nothing, and what the process says of it.

use std::io::{self, Write};

/// Exit codes, as everywhere in jissoku.
pub(super) const FINE: u8 = 0;
pub(super) const FAILED: u8 = 1;
pub(super) const BAD_INPUT: u8 = 2;

/// One sentence for a person, and the exit code.
#[derive(Debug)]
pub(super) struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    /// The person asked for something that cannot be had.
    pub(super) fn of_input(message: &(impl ToString + ?Sized)) -> Self {
        Self { code: BAD_INPUT, message: message.to_string() }
    }

    /// What was asked for was in order, and the world was not.
    pub(super) fn of_work(error: &io::Error) -> Self {
        Self { code: FAILED, message: error.to_string() }
    }

    /// Says it on standard error, and returns the exit code.
    pub(super) fn tell(&self) -> u8 {
        // If standard error is closed, the exit code still speaks.
        let _told = writeln!(io::stderr(), "jissoku serve: {}", self.message);
        self.code
    }

    /// Says why everything stays as it is.
    pub(super) fn tell_and_go_on(&self) {
        let _told = writeln!(io::stderr(), "jissoku serve: not reloaded: {}", self.message);
    }
}
