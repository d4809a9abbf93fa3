//! What a folder holds, by name.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;

use rustix::fs::{self, AtFlags, Dir, FileType};

use super::Identity;

/// A folder, open for reading.
#[derive(Debug)]
pub struct Folder {
    fd: OwnedFd,
    identity: Identity,
}

/// One name in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Without a slash.
    pub name: OsString,
    /// What it stands for.
    pub kind: Kind,
    /// Bytes, of a file.
    pub size: u64,
    /// When it changed last, seconds since 1970.
    pub modified_s: u64,
}

/// What a name in a folder stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link to whatever.
    Link,
    /// A device, a socket, a queue.
    Other,
}

impl Folder {
    pub(super) const fn new(fd: OwnedFd, identity: Identity) -> Self {
        Self { fd, identity }
    }

    /// What it was when it was opened. Another one means that names have come or gone; that a file in it has
    /// changed does not show here.
    #[must_use]
    pub const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The names in it, in no order, but for `.` and `..`; those of `count_max` at most. What vanishes
    /// meanwhile is left out.
    ///
    /// # Errors
    /// The error of `getdents64(2)`.
    pub fn entries(&self, count_max: usize) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for found in Dir::read_from(&self.fd)? {
            let found = found?;
            let name = found.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            if entries.len() == count_max {
                break;
            }
            let Ok(stat) = fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            entries.push(Entry {
                name: OsString::from_vec(name.to_bytes().to_vec()),
                kind: match FileType::from_raw_mode(stat.st_mode) {
                    FileType::RegularFile => Kind::File,
                    FileType::Directory => Kind::Folder,
                    FileType::Symlink => Kind::Link,
                    _ => Kind::Other,
                },
                size: u64::try_from(stat.st_size).unwrap_or(0),
                modified_s: u64::try_from(stat.st_mtime).unwrap_or(0),
            });
        }
        Ok(entries)
    }
}
