//! The body of a request for WSGI: in memory up to a size, and beyond it in a temporary file.

use std::fs::File;
use std::io::{self, Seek, Write};

use jissoku_os::temporary_file;

/// A body that is being received. Its size is limited by the server.
#[derive(Debug, Default)]
pub(crate) struct Body {
    memory: Vec<u8>,
    /// What does not fit into memory, which is empty then; or why it could not be written.
    file: Option<io::Result<File>>,
    size: u64,
}

/// A complete body.
#[derive(Debug)]
pub(crate) enum Content {
    Memory(Vec<u8>),
    /// From its start on, and its size.
    File(File, u64),
}

impl Body {
    /// Appends a part; `memory_max`: the size up to which it stays in memory.
    pub(crate) fn push(&mut self, part: &[u8], memory_max: u64) {
        self.size += part.len() as u64;
        match &mut self.file {
            None if self.size <= memory_max => self.memory.extend_from_slice(part),
            None => {
                let memory = std::mem::take(&mut self.memory);
                let begun = temporary_file::create().and_then(|mut file| {
                    file.write_all(&memory)?;
                    file.write_all(part)?;
                    Ok(file)
                });
                self.file = Some(begun);
            }
            Some(file) => {
                if let Ok(open) = file
                    && let Err(error) = open.write_all(part)
                {
                    // What was written is removed at once.
                    *file = Err(error);
                }
            }
        }
    }

    /// Ends it.
    ///
    /// # Errors
    /// The file could not be created or written: the disk is full, for example.
    pub(crate) fn finish(self) -> io::Result<Content> {
        match self.file.transpose()? {
            None => Ok(Content::Memory(self.memory)),
            Some(mut file) => {
                file.rewind()?;
                Ok(Content::File(file, self.size))
            }
        }
    }
}

impl Content {
    pub(crate) const fn size(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::File(_, size) => *size,
        }
    }
}
