//! Directory entries.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;

use rustix::fs::{self, AtFlags, Dir as DirStream, FileType};

use super::stamp::FileStamp;

/// An open directory.
#[derive(Debug)]
pub struct Dir {
    fd: OwnedFd,
    stamp: FileStamp,
}

/// A directory entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// File name.
    pub name: OsString,
    /// File type.
    pub kind: Kind,
    /// Size of a file in bytes.
    pub size: u64,
    /// Last modification, seconds since 1970.
    pub modified_s: u64,
}

/// The type of a directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link.
    Link,
    /// A device, socket or FIFO.
    Other,
}

impl Dir {
    pub(super) const fn new(fd: OwnedFd, stamp: FileStamp) -> Self {
        Self { fd, stamp }
    }

    /// Its stamp when it was opened. It changes when entries are added or removed, and not when a
    /// file in it does.
    pub const fn stamp(&self) -> &FileStamp {
        &self.stamp
    }

    /// At most `count_max` entries in no order, without `.` and `..`. Entries that are removed
    /// meanwhile are skipped.
    ///
    /// # Errors
    /// The error of `getdents64(2)`.
    pub fn entries(&self, count_max: usize) -> io::Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        for found in DirStream::read_from(&self.fd)? {
            let found = found?;
            let name = found.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            if entries.len() == count_max {
                break;
            }
            let Ok(stat) = fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            entries.push(DirEntry {
                name: OsString::from_vec(name.to_bytes().to_vec()),
                kind: match FileType::from_raw_mode(stat.st_mode) {
                    FileType::RegularFile => Kind::File,
                    FileType::Directory => Kind::Dir,
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
