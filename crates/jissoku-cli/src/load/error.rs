//! Error messages of `jissoku load`.

use std::io::{self, Write as _};

/// Prints an error and returns the exit code.
pub(crate) fn print_error(sentence: &str, code: u8) -> u8 {
    // The error is ignored: stderr may be closed.
    let _written = writeln!(io::stderr(), "jissoku load: {sentence}");
    code
}
