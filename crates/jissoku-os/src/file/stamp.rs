//! The identity and state of a file.

use rustix::fs::Stat;

/// Granularity of file times: a second change within it may not be visible. Some file systems have
/// 2 s; most have a kernel tick of at most 10 ms.
const MTIME_GRANULARITY_NS: i128 = 2_000_000_000;

/// Identity and state of a file or directory. Equal stamps mean equal content, up to the
/// granularity of file times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileStamp {
    /// Device number.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
    /// Size in bytes.
    pub size: u64,
    /// Last modification of the content, nanoseconds since 1970.
    pub mtime_ns: i128,
    /// Last change of the inode, nanoseconds since 1970.
    pub ctime_ns: i128,
}

impl FileStamp {
    /// Whether a later change would be visible, at `now_ns` on the wall clock. Until then, equal
    /// stamps do not imply equal content.
    pub fn is_mtime_stable(&self, now_ns: u64) -> bool {
        // ctime is set by the kernel only, mtime also by users.
        i128::from(now_ns) - self.ctime_ns > MTIME_GRANULARITY_NS
    }

    /// Whether a later write would change the modification time, at `now_ns` on the wall clock:
    /// unlike [`Self::is_mtime_stable`], also soon after a change of the mode, owner or links, and of
    /// a copy that has kept the time of its original.
    pub fn is_mtime_past(&self, now_ns: u64) -> bool {
        i128::from(now_ns) - self.mtime_ns > MTIME_GRANULARITY_NS || self.is_mtime_stable(now_ns)
    }

    #[expect(clippy::useless_conversion, reason = "the fields differ in width between platforms")]
    pub(super) fn of(found: &Stat) -> Self {
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
