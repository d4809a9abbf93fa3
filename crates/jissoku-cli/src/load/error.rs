//! Failures of measurements, and how they are printed.

use std::io::{self, Write as _};

/// Why a measurement is not made, and the exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(super) message: String,
    pub(super) code: u8,
}

impl Failure {
    pub(crate) fn new(message: impl Into<String>, code: u8) -> Self {
        Self { message: message.into(), code }
    }

    /// Prints the failure of this verb of jissoku, and returns the exit code.
    pub(crate) fn print(&self, verb: &str) -> u8 {
        // The error is ignored: stderr may be closed.
        let _written = writeln!(io::stderr(), "jissoku {verb}: {}", self.message);
        self.code
    }
}

/// Prints an error of `jissoku load` and returns the exit code.
pub(crate) fn print_error(sentence: &str, code: u8) -> u8 {
    Failure::new(sentence, code).print("load")
}
