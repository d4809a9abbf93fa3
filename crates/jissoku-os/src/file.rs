//! Regular files below one folder, and nothing outside it.
//!
//! A name is looked up by the kernel with `openat2(2)` and `RESOLVE_BENEATH`: whatever links and dots it
//! holds, what lies above the folder cannot be reached, not even while somebody moves things about.

mod folder;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{self, CWD, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use crate::clock;
pub use folder::{Entry, Folder, Kind};

/// How long after a change a second one may leave the times of a file as they are. File systems that count
/// in two seconds exist; most count in ticks of the kernel, of at most 10 ms.
const SETTLING_NS: i128 = 2_000_000_000;

/// How often a look-up is tried that the kernel could not vouch for, because something above was moved.
const TRIES: usize = 8;

/// A folder whose files may be opened.
#[derive(Debug)]
pub struct Root {
    folder: OwnedFd,
}

/// Which symbolic links are followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Links {
    /// Those that stay below the root.
    #[default]
    Beneath,
    /// None.
    Never,
}

/// What a name stands for.
#[derive(Debug)]
pub enum Found {
    /// A regular file.
    File(File),
    /// A folder.
    Folder(Folder),
    /// Nothing that could be read: no such name, a way that leads out, a device, a socket, a queue.
    Nothing,
    /// Something that we may not read.
    Forbidden,
}

/// Which file or folder this is, and in what state: two that are equal hold the same, as far as the file
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
    /// The error of `open(2)`; `ENOTDIR` for what is no folder, `ENOSYS` from a kernel before 5.6, which
    /// cannot look below a folder safely.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = Self { folder: fs::open(path, flags, Mode::empty())? };
        root.open_below(Path::new("."), Links::Never)?;
        Ok(root)
    }

    /// Opens the regular file that `name`, relative to the folder, stands for now.
    ///
    /// # Errors
    /// The error of `openat2(2)`: `ENOENT`, `EXDEV` for a name that leads out, `ELOOP`; `EISDIR` for a
    /// folder and `ENXIO` for anything else that is no regular file.
    pub fn find(&self, name: &Path) -> io::Result<File> {
        File::of(self.open_below(name, Links::Beneath)?)
    }

    /// What `name`, relative to the folder, stands for now.
    ///
    /// # Errors
    /// Those that say something about us rather than about the name: no descriptors, no memory, a broken
    /// disk.
    pub fn look(&self, name: &Path, links: Links) -> io::Result<Found> {
        let fd = match self.open_below(name, links) {
            Ok(fd) => fd,
            Err(Errno::ACCESS | Errno::PERM) => return Ok(Found::Forbidden),
            Err(
                Errno::NOENT
                | Errno::NOTDIR
                | Errno::LOOP
                | Errno::XDEV
                | Errno::NAMETOOLONG
                | Errno::NXIO
                | Errno::NODEV
                | Errno::INVAL
                | Errno::ILSEQ,
            ) => return Ok(Found::Nothing),
            Err(error) => return Err(error.into()),
        };
        let found = fs::fstat(&fd)?;
        Ok(match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => Found::File(File { fd, identity: Identity::of(&found) }),
            FileType::Directory => Found::Folder(Folder::new(fd, Identity::of(&found))),
            _ => Found::Nothing,
        })
    }

    /// Neither a queue without a writer nor a terminal makes this wait or changes anything.
    fn open_below(&self, name: &Path, links: Links) -> Result<OwnedFd, Errno> {
        let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        if links == Links::Never {
            resolve |= ResolveFlags::NO_SYMLINKS;
        }
        let mut outcome = Err(Errno::AGAIN);
        for _ in 0..TRIES {
            outcome = fs::openat2(&self.folder, name, READING, Mode::empty(), resolve);
            if !matches!(outcome, Err(Errno::AGAIN | Errno::INTR)) {
                break;
            }
        }
        outcome
    }
}

/// How everything is opened.
const READING: OFlags =
    OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

impl File {
    /// Opens the regular file at `path`, wherever that is.
    ///
    /// # Errors
    /// As [`Root::find`], but for `EXDEV`.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::of(fs::openat(CWD, path, READING, Mode::empty())?)
    }

    fn of(fd: OwnedFd) -> io::Result<Self> {
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

    /// Whether its bytes are still what they were when it was opened, as far as the times of `fstat(2)`
    /// tell. That another file took its name is no change of its bytes, though its last name's going moves
    /// [`Identity::ctime_ns`].
    #[must_use]
    pub fn is_unchanged(&self) -> bool {
        let Ok(found) = fs::fstat(&self.fd) else { return false };
        let mut now = Identity::of(&found);
        if found.st_nlink == 0 {
            now.ctime_ns = self.identity.ctime_ns;
        }
        now == self.identity
    }

    fn identity_now(&self) -> Option<Identity> {
        fs::fstat(&self.fd).ok().map(|found| Identity::of(&found))
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

    /// Reads the whole file, or `None` if it changed meanwhile. A file that has only just changed is read
    /// twice, because its times would not tell of another change. What this cannot tell is that somebody has
    /// written half of what he means to write; only who replaces a file by renaming is safe from that.
    ///
    /// # Errors
    /// The error of `pread(2)`.
    pub fn read_whole(&self) -> io::Result<Option<Vec<u8>>> {
        let is_settled = self.identity.is_settled(clock::wall_ns());
        let Some(bytes) = self.read_once()? else { return Ok(None) };
        if is_settled {
            return Ok(Some(bytes));
        }
        Ok(self.read_once()?.filter(|again| *again == bytes))
    }

    fn read_once(&self) -> io::Result<Option<Vec<u8>>> {
        let size = usize::try_from(self.identity.size).map_err(|_| Errno::FBIG)?;
        // One byte more than there should be shows a file that has grown.
        let mut bytes = vec![0; size + 1];
        let count = self.read_at(&mut bytes, 0)?;
        bytes.truncate(size);
        Ok((count == size && self.identity_now() == Some(self.identity)).then_some(bytes))
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Identity {
    /// Whether a change from now on, `now_ns` on the wall clock, would show. Until then, equal identities
    /// do not prove equal bytes.
    #[must_use]
    pub fn is_settled(&self, now_ns: u64) -> bool {
        // Only the kernel sets this one; people set the other as they like.
        i128::from(now_ns) - self.ctime_ns > SETTLING_NS
    }

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
mod tests;
