//! Where log lines go.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The destination of log lines.
pub(super) enum Destination {
    File(PathBuf, File),
    Stdout(io::Stdout),
}

impl Destination {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self::File(path.to_owned(), file))
    }

    /// One write, possibly partial.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(_, file) => file.write(bytes),
            // Standard output is line-buffered, and each flush ends with a whole line.
            Self::Stdout(stdout) => stdout.write(bytes),
        }
    }

    pub(super) fn reopen(&mut self) -> io::Result<()> {
        match self {
            Self::File(path, _) => *self = Self::open(path)?,
            Self::Stdout(_) => {}
        }
        Ok(())
    }
}
