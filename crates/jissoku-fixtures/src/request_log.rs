//! The injected fault `log`: an unbuffered access log.

use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::sync::atomic::{AtomicU32, Ordering};

/// An unbuffered access log.
#[derive(Debug)]
pub(crate) struct RequestLog {
    file: File,
    size: u64,
}

const LOG_LINE: &[u8] =
    b"127.0.0.1 - - [01/Jan/2026:00:00:00 +0000] \"GET / HTTP/1.1\" 200 13 \"-\" \"-\"\n";

/// At this size the log is rewound.
const LOG_SIZE_MAX: u64 = 64 * 1024 * 1024;

impl RequestLog {
    /// Creates an unlinked temporary file.
    pub(crate) fn new() -> io::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("jissoku-log-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let file = File::options().create_new(true).write(true).open(&path)?;
        fs::remove_file(&path)?;
        Ok(Self { file, size: 0 })
    }

    /// Writes one line with one system call.
    pub(crate) fn write(&mut self) -> io::Result<()> {
        if self.size >= LOG_SIZE_MAX {
            self.file.rewind()?;
            self.size = 0;
        }
        self.size += LOG_LINE.len() as u64;
        self.file.write_all(LOG_LINE)
    }
}
