//! Opens regular files below a root directory.
//!
//! Names are resolved with `openat2(2)` and `RESOLVE_BENEATH`: files outside the root cannot be
//! reached by links or `..`, even if files are renamed concurrently. A link that leaves the root and
//! comes back, such as an absolute one, is resolved to a name below the root, which is opened in the
//! same way.

mod dir;
mod stamp;

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{self, CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::clock;
pub use dir::{Dir, DirEntry, Kind};
pub use stamp::FileStamp;

/// Attempts of a lookup that raced with a rename (EAGAIN).
const LOOKUP_TRIES: usize = 8;

/// The path of a root directory, which may be replaced while it is used.
#[derive(Debug)]
pub struct RootPath {
    /// Absolute, so that a change of the working directory does not matter.
    path: PathBuf,
    /// As it was at the start.
    first: Root,
}

/// A root directory.
#[derive(Debug)]
pub struct Root {
    folder: OwnedFd,
}

/// Which symbolic links are followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SymlinkPolicy {
    /// Follow links that stay below the root.
    #[default]
    Beneath,
    /// Follow none.
    Never,
}

/// The result of a lookup.
#[derive(Debug)]
pub enum LookupResult {
    /// A regular file.
    File(File),
    /// A directory.
    Dir(Dir),
    /// No such file, a path that leaves the root, or a device, socket or FIFO.
    Nothing,
    /// Permission denied.
    Forbidden,
}

/// A regular file, open for reading.
#[derive(Debug)]
pub struct File {
    fd: OwnedFd,
    stamp: FileStamp,
}

impl RootPath {
    /// Opens the directory `path`.
    ///
    /// # Errors
    /// As [`Root::open`].
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { path: std::path::absolute(path)?, first: Root::open(path)? })
    }

    /// The directory that the path names now; `None` if it names none. If the path can no longer be
    /// searched, because the process has given up privileges, it is the directory of the start.
    ///
    /// # Errors
    /// Errors of the system rather than of the path, as for [`Root::lookup`].
    pub fn root(&self) -> io::Result<Option<Root>> {
        match open_folder(&self.path) {
            Ok(folder) => Ok(Some(Root { folder })),
            Err(Errno::ACCESS | Errno::PERM) => {
                Ok(Some(Root { folder: self.first.folder.try_clone()? }))
            }
            Err(error) if is_of_name(error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

fn open_folder(path: &Path) -> Result<OwnedFd, Errno> {
    fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// Whether the error says that nothing that can be served has the name.
fn is_of_name(error: Errno) -> bool {
    matches!(
        error,
        Errno::NOENT
            | Errno::NOTDIR
            | Errno::LOOP
            | Errno::XDEV
            | Errno::NAMETOOLONG
            | Errno::NXIO
            | Errno::NODEV
            | Errno::INVAL
            | Errno::ILSEQ
    )
}

impl Root {
    /// Opens the directory `path`.
    ///
    /// # Errors
    /// The error of `open(2)`; `ENOTDIR` for a file, `ENOSYS` on a kernel before 5.6, which has no
    /// `openat2(2)`.
    pub fn open(path: &Path) -> io::Result<Self> {
        let root = Self { folder: open_folder(path)? };
        root.open_below(Path::new("."), SymlinkPolicy::Never)?;
        Ok(root)
    }

    /// Opens the regular file `name`, relative to the root.
    ///
    /// # Errors
    /// The error of `openat2(2)`: `ENOENT`, `EXDEV` for a path that leaves the root, `ELOOP`;
    /// `EISDIR` for a directory and `ENXIO` for other file types.
    pub fn find(&self, name: &Path) -> io::Result<File> {
        File::of(self.open_below(name, SymlinkPolicy::Beneath)?)
    }

    /// Looks up `name`, relative to the root.
    ///
    /// # Errors
    /// Errors of the system rather than of the name: `EMFILE`, `ENOMEM`, `EIO`.
    pub fn lookup(&self, name: &Path, links: SymlinkPolicy) -> io::Result<LookupResult> {
        let opened = match self.open_below(name, links) {
            Err(Errno::XDEV) if links == SymlinkPolicy::Beneath => self.open_reentering(name),
            opened => opened,
        };
        let fd = match opened {
            Ok(fd) => fd,
            Err(Errno::ACCESS | Errno::PERM) => return Ok(LookupResult::Forbidden),
            Err(error) if is_of_name(error) => return Ok(LookupResult::Nothing),
            Err(error) => return Err(error.into()),
        };
        let found = fs::fstat(&fd)?;
        Ok(match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => LookupResult::File(File { fd, stamp: FileStamp::of(&found) }),
            FileType::Directory => LookupResult::Dir(Dir::new(fd, FileStamp::of(&found))),
            _ => LookupResult::Nothing,
        })
    }

    /// Opens `name` if a link in it leaves the root and comes back. Where it leads is only found out,
    /// without opening it for reading; what is opened is a name below the root without links. So a
    /// link that is changed meanwhile opens nothing else.
    fn open_reentering(&self, name: &Path) -> Result<OwnedFd, Errno> {
        let is_plain = |component| matches!(component, Component::Normal(_) | Component::CurDir);
        if !name.components().all(is_plain) {
            return Err(Errno::XDEV);
        }
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let target =
            fs::openat2(&self.folder, name, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS);
        // Whether something outside exists, or may be read, is not to be seen.
        let below = target.and_then(|target| {
            let (root, target) = (path_of(&self.folder)?, path_of(&target)?);
            target.strip_prefix(root).map(Path::to_owned).map_err(|_| Errno::XDEV)
        });
        match below {
            Ok(below) if below.as_os_str().is_empty() => {
                self.open_below(Path::new("."), SymlinkPolicy::Never)
            }
            Ok(below) => self.open_below(&below, SymlinkPolicy::Never),
            Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM)) => Err(error),
            Err(_) => Err(Errno::XDEV),
        }
    }

    /// Does not block on a FIFO and does not acquire a controlling terminal.
    fn open_below(&self, name: &Path, links: SymlinkPolicy) -> Result<OwnedFd, Errno> {
        let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        if links == SymlinkPolicy::Never {
            resolve |= ResolveFlags::NO_SYMLINKS;
        }
        let mut outcome = Err(Errno::AGAIN);
        for _ in 0..LOOKUP_TRIES {
            outcome = fs::openat2(&self.folder, name, READING, Mode::empty(), resolve);
            if !matches!(outcome, Err(Errno::AGAIN | Errno::INTR)) {
                break;
            }
        }
        outcome
    }
}

/// The path of an open file, without links. It fails without a mounted `/proc`.
fn path_of(fd: &OwnedFd) -> Result<PathBuf, Errno> {
    let path = fs::readlink(format!("/proc/self/fd/{}", fd.as_raw_fd()), Vec::new())?;
    Ok(OsString::from_vec(path.into_bytes()).into())
}

/// Flags of `openat2(2)`.
const READING: OFlags =
    OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

impl File {
    /// Opens the regular file `path`, without a root.
    ///
    /// # Errors
    /// As [`Root::find`], but for `EXDEV`.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::of(fs::openat(CWD, path, READING, Mode::empty())?)
    }

    /// Duplicates the descriptor `number`, which belongs to other code of this process, such as the
    /// interpreter's, and stays its own.
    ///
    /// # Errors
    /// `EBADF` if nothing is open there; `EISDIR` for a directory and `ENXIO` for other file types.
    #[expect(unsafe_code, reason = "other code passes its descriptor as a number")]
    pub fn duplicate(number: RawFd) -> io::Result<Self> {
        // SAFETY: the call passes no memory, and says so if nothing is open there.
        let fd = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just opened it for this call, so it has no other owner.
        Self::of(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    /// Takes the descriptor `number` over, which is closed with the file, and at once if it is
    /// refused.
    ///
    /// # Errors
    /// `EBADF` if nothing is open there, or not for reading; `EISDIR` for a directory and `ENXIO` for
    /// other file types.
    ///
    /// # Safety
    /// If something is open there, it has no other owner.
    #[expect(unsafe_code, reason = "other code passes its descriptor as a number")]
    pub unsafe fn adopt(number: RawFd) -> io::Result<Self> {
        // SAFETY: the call passes no memory, and says so if nothing is open there.
        let flags = unsafe { libc::fcntl(number, libc::F_GETFL) };
        if flags < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it is open, and by the contract of this function it has no other owner.
        let fd = unsafe { OwnedFd::from_raw_fd(number) };
        if flags & libc::O_PATH != 0 || flags & libc::O_ACCMODE == libc::O_WRONLY {
            return Err(Errno::BADF.into());
        }
        Self::of(fd)
    }

    fn of(fd: OwnedFd) -> io::Result<Self> {
        let found = fs::fstat(&fd)?;
        match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => Ok(Self { fd, stamp: FileStamp::of(&found) }),
            FileType::Directory => Err(Errno::ISDIR.into()),
            _ => Err(Errno::NXIO.into()),
        }
    }

    /// Its stamp when it was opened.
    pub const fn stamp(&self) -> &FileStamp {
        &self.stamp
    }

    /// Whether its content is unchanged since it was opened, by `fstat(2)`. Being replaced by
    /// rename is not a change, although unlinking updates [`FileStamp::ctime_ns`].
    pub fn is_unchanged(&self) -> bool {
        let Ok(found) = fs::fstat(&self.fd) else { return false };
        let mut now = FileStamp::of(&found);
        if found.st_nlink == 0 {
            now.ctime_ns = self.stamp.ctime_ns;
        }
        now == self.stamp
    }

    fn stamp_now(&self) -> Option<FileStamp> {
        fs::fstat(&self.fd).ok().map(|found| FileStamp::of(&found))
    }

    /// Reads at `offset` (`pread(2)`) and returns the number of bytes; fewer than requested only at
    /// end of file.
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

    /// Reads the whole file; `None` if it changed meanwhile. A file that was changed a moment ago
    /// is read twice, because its times may not show another change. A write in progress cannot be
    /// detected; replacing files by rename avoids that.
    ///
    /// # Errors
    /// The error of `pread(2)`.
    pub fn read_whole(&self) -> io::Result<Option<Vec<u8>>> {
        let is_mtime_stable = self.stamp.is_mtime_stable(clock::wall_ns());
        let Some(bytes) = self.read_once()? else { return Ok(None) };
        if is_mtime_stable {
            return Ok(Some(bytes));
        }
        Ok(self.read_once()?.filter(|again| *again == bytes))
    }

    fn read_once(&self) -> io::Result<Option<Vec<u8>>> {
        let size = usize::try_from(self.stamp.size).map_err(|_| Errno::FBIG)?;
        // One byte more detects a file that has grown.
        let mut bytes = vec![0; size + 1];
        let count = self.read_at(&mut bytes, 0)?;
        bytes.truncate(size);
        Ok((count == size && self.stamp_now() == Some(self.stamp)).then_some(bytes))
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests;
