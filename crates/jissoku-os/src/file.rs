//! Regular files below one folder, and nothing outside it.
//!
//! A name is looked up by the kernel with `openat2(2)` and `RESOLVE_BENEATH`: whatever links and dots it
//! holds, what lies above the folder cannot be reached, not even while somebody moves things about.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{self, CWD, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

/// A folder whose files may be opened.
#[derive(Debug)]
pub struct Root {
    folder: OwnedFd,
}

/// Which file this is, and in what state: two that are equal hold the same bytes, as far as the file
/// system's clock can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The device's number.
    pub dev: u64,
    /// The file's number on it.
    pub ino: u64,
    /// Bytes.
    pub size: u64,
    /// When the bytes changed last, nanoseconds since 1970.
    pub mtime_ns: i128,
    /// When anything about the file changed last, nanoseconds since 1970.
    pub ctime_ns: i128,
}

/// A regular file, open for reading.
#[derive(Debug)]
pub struct File {
    fd: OwnedFd,
    identity: Identity,
}

impl Root {
    /// Opens the folder at `path`.
    ///
    /// # Errors
    /// The error of `open(2)`; `ENOTDIR` for what is no folder.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { folder: fs::open(path, flags, Mode::empty())? })
    }

    /// Opens the regular file that `name`, relative to the folder, stands for now.
    ///
    /// # Errors
    /// The error of `openat2(2)`: `ENOENT`, `EXDEV` for a name that leads out, `ELOOP`; `EISDIR` for a
    /// folder and `ENXIO` for anything else that is no regular file.
    pub fn find(&self, name: &Path) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let fd = fs::openat2(&self.folder, name, flags, Mode::empty(), resolve)?;
        let found = fs::fstat(&fd)?;
        match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => Ok(File { fd, identity: Identity::of(&found) }),
            FileType::Directory => Err(Errno::ISDIR.into()),
            _ => Err(Errno::NXIO.into()),
        }
    }
}

impl File {
    /// Opens the regular file at `path`, wherever that is.
    ///
    /// # Errors
    /// As [`Root::find`], but for `EXDEV`.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let fd = fs::openat(CWD, path, flags, Mode::empty())?;
        let found = fs::fstat(&fd)?;
        match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => Ok(Self { fd, identity: Identity::of(&found) }),
            FileType::Directory => Err(Errno::ISDIR.into()),
            _ => Err(Errno::NXIO.into()),
        }
    }

    /// What it was when it was opened.
    #[must_use]
    pub const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Whether it is still what it was when it was opened (`fstat(2)`).
    #[must_use]
    pub fn is_unchanged(&self) -> bool {
        fs::fstat(&self.fd).is_ok_and(|found| Identity::of(&found) == self.identity)
    }

    /// Reads at `offset` without moving anything (`pread(2)`), and returns how many bytes came; fewer
    /// than asked for only at the end.
    ///
    /// # Errors
    /// The error of `pread(2)`.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match rustix::io::pread(&self.fd, &mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(filled)
    }

    /// Reads the whole file, or `None` if it changed meanwhile.
    ///
    /// # Errors
    /// The error of `pread(2)`.
    pub fn read_whole(&self) -> io::Result<Option<Vec<u8>>> {
        let size = usize::try_from(self.identity.size).map_err(|_| Errno::FBIG)?;
        // One byte more than there should be shows a file that has grown.
        let mut bytes = vec![0; size + 1];
        let count = self.read_at(&mut bytes, 0)?;
        bytes.truncate(size);
        Ok((count == size && self.is_unchanged()).then_some(bytes))
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Identity {
    #[expect(clippy::useless_conversion, reason = "the fields differ in width between platforms")]
    fn of(found: &Stat) -> Self {
        let ns = |seconds: i64, ns: u64| i128::from(seconds) * 1_000_000_000 + i128::from(ns);
        Self {
            dev: found.st_dev,
            ino: found.st_ino,
            size: u64::try_from(found.st_size).unwrap_or(0),
            mtime_ns: ns(found.st_mtime.into(), found.st_mtime_nsec.into()),
            ctime_ns: ns(found.st_ctime.into(), found.st_ctime_nsec.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_found_below_its_folder_and_nowhere_else() {
        let folder = std::env::temp_dir().join(format!("jissoku-file-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("inner")).expect("a folder can be made");
        std::fs::write(folder.join("inner/a"), b"abc").expect("a file can be written");
        std::os::unix::fs::symlink("/etc/passwd", folder.join("out")).expect("a link can be made");
        let root = Root::open(&folder.join("inner")).expect("the folder is there");
        let file = root.find(Path::new("a")).expect("the file is there");
        assert_eq!(file.read_whole().expect("it can be read"), Some(b"abc".to_vec()));
        assert!(file.is_unchanged());
        let error =
            |name: &str| root.find(Path::new(name)).expect_err("not to be had").raw_os_error();
        assert_eq!(error("../inner/a"), Some(Errno::XDEV.raw_os_error()));
        assert_eq!(error("/etc/passwd"), Some(Errno::XDEV.raw_os_error()));
        assert_eq!(error("."), Some(Errno::ISDIR.raw_os_error()));
        assert_eq!(error("b"), Some(Errno::NOENT.raw_os_error()));
        std::fs::write(folder.join("inner/a"), b"abcd").expect("a file can be written");
        assert!(!file.is_unchanged());
        assert_eq!(file.read_whole().expect("it can be read"), None);
        std::fs::remove_dir_all(&folder).expect("it was made here");
    }
}
