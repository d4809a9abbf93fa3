//! Dropping the privileges of root permanently.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::AsFd;
use std::ptr;

use rustix::process::{Gid, Uid};

/// Buffer size for an entry of the user database.
const ENTRY_SIZE: usize = 64 * 1024;

/// The user and group ids to switch to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserIds {
    uid: u32,
    gid: u32,
    /// The user name, for supplementary groups; a bare number has none.
    name: Option<CString>,
}

impl UserIds {
    /// Looks up a user and a group, by name or number; the default group is that of the user.
    ///
    /// # Errors
    /// `NotFound` with a message, or the error of the user database.
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

    /// Changes the owner of a file, if the process is root.
    ///
    /// # Errors
    /// The error of `fchown(2)`.
    pub fn chown(&self, file: impl AsFd) -> io::Result<()> {
        if !is_root() {
            return Ok(());
        }
        Ok(rustix::fs::fchown(file, Some(Uid::from_raw(self.uid)), Some(Gid::from_raw(self.gid)))?)
    }

    /// Switches all threads to the ids, permanently; a no-op if they are set already.
    ///
    /// # Errors
    /// `PermissionDenied` without root, the error of `setuid(2)` and related calls, and an error if
    /// a thread has kept its privileges.
    pub fn drop_privileges(&self) -> io::Result<()> {
        if !is_root() {
            if self.all_threads_have_changed()? {
                return Ok(());
            }
            let message = "only root can switch to another user";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
        }
        self.change()?;
        if !self.all_threads_have_changed()? || (self.uid != 0 && can_become_root()) {
            return Err(io::Error::other("privileges could not be dropped"));
        }
        Ok(())
    }

    #[expect(unsafe_code, reason = "only the C library changes all threads at once")]
    fn change(&self) -> io::Result<()> {
        let check = |outcome: i32| match outcome {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        };
        // The user id last: afterwards groups cannot be changed.
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

    /// Whether all ids of all threads are these.
    fn all_threads_have_changed(&self) -> io::Result<bool> {
        for thread in std::fs::read_dir("/proc/self/task")? {
            // A thread may exit between listing and reading.
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

/// Whether the real, effective, saved and file system ids are all `number` (`proc_pid_status(5)`).
fn is_all(status: &str, key: &str, number: u32) -> bool {
    let line = status.lines().find_map(|line| line.strip_prefix(key));
    line.is_some_and(|line| line.split_whitespace().all(|word| word.parse() == Ok(number)))
}

/// Whether the process is root.
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

#[expect(unsafe_code, reason = "only the C library implements all user databases")]
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

#[expect(unsafe_code, reason = "only the C library implements all group databases")]
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

/// Several errors only mean that there is no such entry (`getpwnam(3)`).
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
        let root = UserIds::find("root", None).expect("root exists");
        assert_eq!((root.uid, root.gid), (0, 0));
        let numeric = UserIds::find("12345", Some("12346")).expect("numbers need no entry");
        assert_eq!((numeric.uid, numeric.gid, numeric.name), (12345, 12346, None));
        for (user, group) in [("no-such-user", None), ("root", Some("no-such-group"))] {
            let refusal = UserIds::find(user, group).expect_err("there is none");
            assert!(refusal.to_string().starts_with("there is no "), "{refusal}");
        }
        assert!(UserIds::find("12345", None).is_err());
    }

    #[test]
    fn all_four_numbers_count() {
        assert!(is_all("Name:\tx\nUid:\t7\t7\t7\t7\n", "Uid:", 7));
        assert!(!is_all("Name:\tx\nUid:\t7\t7\t0\t7\n", "Uid:", 7));
        assert!(!is_all("Name:\tx\n", "Uid:", 7));
    }
}
