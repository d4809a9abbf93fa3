//! Files without a name: they end with their last descriptor, however the process ends.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

/// Creates an empty file in the directory for temporary files (`TMPDIR`, otherwise `/tmp`), which
/// only this user can open.
///
/// # Errors
/// The error of `open(2)` or `unlink(2)`.
pub fn create() -> io::Result<File> {
    let directory = env::temp_dir();
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    match options.clone().custom_flags(libc::O_TMPFILE).open(&directory) {
        Ok(file) => Ok(file),
        // Not every file system has files without names (`open(2)`).
        Err(_) => create_named(&directory, options.create_new(true)),
    }
}

fn create_named(directory: &Path, options: &OpenOptions) -> io::Result<File> {
    static LAST: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let path = directory.join(format!("jissoku-{}-{number}", process::id()));
        match options.open(&path) {
            Ok(file) => {
                fs::remove_file(&path)?;
                return Ok(file);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, Write};
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_file_has_no_name_and_is_of_this_user_only() {
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(0o600);
        let named = create_named(&env::temp_dir(), options.create_new(true));
        for file in [create(), named] {
            let mut file = file.expect("a file can be created");
            let metadata = file.metadata().expect("it is open");
            assert_eq!((metadata.nlink(), metadata.mode() & 0o777), (0, 0o600));
            file.write_all(b"text").expect("there is room");
            file.rewind().expect("it has a position");
            let mut text = String::new();
            file.read_to_string(&mut text).expect("it is readable");
            assert_eq!(text, "text");
        }
    }
}
