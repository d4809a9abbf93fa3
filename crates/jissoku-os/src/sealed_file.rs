//! Files in memory that cannot be changed, for processes that inherit them.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

/// A file with this content, which ends with its last descriptor. `name` is shown in `/proc` only.
///
/// # Errors
/// The error of `memfd_create(2)` or `write(2)`.
pub fn create(name: &str, content: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
    file.write_all(content)?;
    fcntl_add_seals(
        &file,
        SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL,
    )?;
    Ok(file)
}

/// The content of a file from its start. Its position, which it shares with other processes that
/// have inherited it, is neither used nor changed.
///
/// # Errors
/// The error of `fstat(2)` or `pread(2)`.
pub fn content(file: &File) -> io::Result<Vec<u8>> {
    let size = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
    let mut content = vec![0; size];
    file.read_exact_at(&mut content, 0)?;
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_stays_and_is_read_from_its_start() {
        let mut file = create("test", b"some text").expect("there is memory");
        for _ in 0..2 {
            assert_eq!(content(&file).expect("it is open"), b"some text");
        }
        assert!(file.write_all(b"!").is_err() && file.set_len(0).is_err());
        assert_eq!(content(&file).expect("it is open"), b"some text");
        assert_eq!(
            content(&create("none", b"").expect("there is memory")).expect("it is open"),
            b""
        );
    }
}
