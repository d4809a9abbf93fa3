//! Becoming another user for good, once what only root may do is done.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::AsFd;
use std::ptr;

use rustix::process::{Gid, Uid};

/// Room for an entry of the user database and all its texts; more than any sane one needs.
const ENTRY_SIZE: usize = 64 * 1024;

/// A user and a group to become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    uid: u32,
    gid: u32,
    /// Under which its further groups are found; a bare number has none.
    name: Option<CString>,
}

impl Identity {
    /// Looks up a user, by name or number, and a group; without one, it is the user's own.
    ///
    /// # Errors
    /// `NotFound` with a sentence, or the error of asking the user database.
    pub fn find(user: &str, group: Option<&str>) -> io::Result<Self> {
        let (uid, own_gid, name) = match (find_user(user)?, user.parse()) {
            (Some((uid, gid)), _) => (uid, Some(gid), Some(CString::new(user)?)),
            (None, Ok(uid)) => (uid, None, None),
            (None, Err(_)) => return Err(not_found(&format!("there is no user {user}"))),
        };
        let gid = match (group, own_gid) {
            (Some(group), _) => find_group(group)?
                .or_else(|| group.parse().ok())
                .ok_or_else(|| not_found(&format!("there is no group {group}")))?,
            (None, Some(gid)) => gid,
            (None, None) => {
                return Err(not_found(&format!("user {user} has no name, so name a group too")));
            }
        };
        Ok(Self { uid, gid, name })
    }

    /// Makes a file its own, unless we are no root: then it is ours already, or never will be its.
    ///
    /// # Errors
    /// The error of `fchown(2)`.
    pub fn own(&self, file: impl AsFd) -> io::Result<()> {
        if !is_root() {
            return Ok(());
        }
        Ok(rustix::fs::fchown(file, Some(Uid::from_raw(self.uid)), Some(Gid::from_raw(self.gid)))?)
    }

    /// Becomes it, with all threads and for good; nothing happens if that is who we are already.
    ///
    /// # Errors
    /// `PermissionDenied` when we are not root, the error of `setuid(2)` and its like, and a sentence if a
    /// thread has kept what it should have lost.
    pub fn assume(&self) -> io::Result<()> {
        if !is_root() {
            if self.is_everywhere()? {
                return Ok(());
            }
            let message = "only root can become another user";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
        }
        self.change()?;
        if !self.is_everywhere()? || (self.uid != 0 && can_become_root()) {
            return Err(io::Error::other("the privileges of root could not be given up"));
        }
        Ok(())
    }

    #[expect(unsafe_code, reason = "only the C library changes all threads at once")]
    fn change(&self) -> io::Result<()> {
        let check = |outcome: i32| match outcome {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        };
        // The user comes last: afterwards the groups cannot be changed any more.
        match &self.name {
            // SAFETY: the name is a string that ends in NUL.
            Some(name) => check(unsafe { libc::initgroups(name.as_ptr(), self.gid) })?,
            // SAFETY: one group is said to be there, and one is.
            None => check(unsafe { libc::setgroups(1, &raw const self.gid) })?,
        }
        // SAFETY: it takes a number.
        check(unsafe { libc::setgid(self.gid) })?;
        // SAFETY: it takes a number.
        check(unsafe { libc::setuid(self.uid) })
    }

    /// Whether every thread of the process is this user and group in every respect.
    fn is_everywhere(&self) -> io::Result<bool> {
        for thread in std::fs::read_dir("/proc/self/task")? {
            // A thread may end between the listing and the reading; then it is nobody any more.
            let Ok(status) = std::fs::read_to_string(thread?.path().join("status")) else {
                continue;
            };
            if !is_all(&status, "Uid:", self.uid) || !is_all(&status, "Gid:", self.gid) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Whether the real, effective, saved and file system number are all this one (`proc_pid_status(5)`).
fn is_all(status: &str, key: &str, number: u32) -> bool {
    let line = status.lines().find_map(|line| line.strip_prefix(key));
    line.is_some_and(|line| line.split_whitespace().all(|word| word.parse() == Ok(number)))
}

/// Whether this process may do everything.
#[must_use]
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[expect(unsafe_code, reason = "only the C library changes all threads at once")]
fn can_become_root() -> bool {
    // SAFETY: it takes a number.
    unsafe { libc::setuid(0) == 0 }
}

fn not_found(sentence: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, sentence)
}

#[expect(unsafe_code, reason = "the C library alone knows all the places where users are kept")]
fn find_user(name: &str) -> io::Result<Option<(u32, u32)>> {
    let name = CString::new(name)?;
    let mut texts = vec![0; ENTRY_SIZE];
    // SAFETY: all of it is numbers and pointers, for which zero is a value.
    let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
    let mut found = ptr::null_mut();
    let (texts, size) = (texts.as_mut_ptr(), texts.len());
    // SAFETY: the name ends in NUL, the rest is ours to write, and so large.
    let failed =
        unsafe { libc::getpwnam_r(name.as_ptr(), &raw mut entry, texts, size, &raw mut found) };
    outcome(failed, !found.is_null(), &name)?;
    Ok(Some((entry.pw_uid, entry.pw_gid)).filter(|_| !found.is_null()))
}

#[expect(unsafe_code, reason = "the C library alone knows all the places where groups are kept")]
fn find_group(name: &str) -> io::Result<Option<u32>> {
    let name = CString::new(name)?;
    let mut texts = vec![0; ENTRY_SIZE];
    // SAFETY: all of it is numbers and pointers, for which zero is a value.
    let mut entry: libc::group = unsafe { std::mem::zeroed() };
    let mut found = ptr::null_mut();
    let (texts, size) = (texts.as_mut_ptr(), texts.len());
    // SAFETY: the name ends in NUL, the rest is ours to write, and so large.
    let failed =
        unsafe { libc::getgrnam_r(name.as_ptr(), &raw mut entry, texts, size, &raw mut found) };
    outcome(failed, !found.is_null(), &name)?;
    Ok(Some(entry.gr_gid).filter(|_| !found.is_null()))
}

/// The manual lists a handful of errors that only mean that there is no such entry (`getpwnam(3)`).
fn outcome(failed: i32, is_found: bool, name: &CStr) -> io::Result<()> {
    match failed {
        _ if is_found => Ok(()),
        0 | libc::ENOENT | libc::ESRCH | libc::EBADF | libc::EPERM => Ok(()),
        failed => {
            let error = io::Error::from_raw_os_error(failed);
            Err(io::Error::other(format!("cannot look up {}: {error}", name.to_string_lossy())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_groups_are_found_by_name_or_number() {
        let root = Identity::find("root", None).expect("everybody has root");
        assert_eq!((root.uid, root.gid), (0, 0));
        let nobody = Identity::find("12345", Some("12346")).expect("numbers need no entry");
        assert_eq!((nobody.uid, nobody.gid, nobody.name), (12345, 12346, None));
        for (user, group) in [("nobody-of-that-name", None), ("root", Some("no-such-group"))] {
            let refusal = Identity::find(user, group).expect_err("there is none");
            assert!(refusal.to_string().starts_with("there is no "), "{refusal}");
        }
        assert!(Identity::find("12345", None).is_err());
    }

    #[test]
    fn all_four_numbers_count() {
        assert!(is_all("Name:\tx\nUid:\t7\t7\t7\t7\n", "Uid:", 7));
        assert!(!is_all("Name:\tx\nUid:\t7\t7\t0\t7\n", "Uid:", 7));
        assert!(!is_all("Name:\tx\n", "Uid:", 7));
    }
}
