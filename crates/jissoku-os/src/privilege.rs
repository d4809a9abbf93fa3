//! Dropping the privileges of root permanently.

use std::ffi::CString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::fchown;

use nix::errno::Errno;
use nix::unistd::{self, Gid, Group, Uid, User};

/// The user and group ids to switch to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserIds {
    uid: Uid,
    gid: Gid,
    /// The user name, for supplementary groups; a bare number has none.
    name: Option<CString>,
}

impl UserIds {
    /// Looks up a user and a group, by name or number; the default group is that of the user.
    ///
    /// # Errors
    /// `NotFound` with a message, or the error of the user database.
    pub fn find(user: &str, group: Option<&str>) -> io::Result<Self> {
        let (uid, own_gid, name) = match (entry(user, User::from_name)?, user.parse()) {
            (Some(User { uid, gid, .. }), _) => (uid, Some(gid), Some(CString::new(user)?)),
            (None, Ok(uid)) => (Uid::from_raw(uid), None, None),
            (None, Err(_)) => return Err(not_found(&format!("there is no user {user}"))),
        };
        let gid = match (group, own_gid) {
            (Some(group), _) => entry(group, Group::from_name)?
                .map(|entry| entry.gid)
                .or_else(|| group.parse().ok().map(Gid::from_raw))
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
        fchown(file, Some(self.uid.as_raw()), Some(self.gid.as_raw()))
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
        if !self.all_threads_have_changed()?
            || (!self.uid.is_root() && unistd::setuid(Uid::from_raw(0)).is_ok())
        {
            return Err(io::Error::other("privileges could not be dropped"));
        }
        Ok(())
    }

    /// The C library changes all threads. The user id comes last: afterwards groups cannot be
    /// changed.
    fn change(&self) -> io::Result<()> {
        match &self.name {
            Some(name) => unistd::initgroups(name, self.gid)?,
            None => unistd::setgroups(&[self.gid])?,
        }
        unistd::setgid(self.gid)?;
        Ok(unistd::setuid(self.uid)?)
    }

    /// Whether all ids of all threads are these.
    fn all_threads_have_changed(&self) -> io::Result<bool> {
        for thread in std::fs::read_dir("/proc/self/task")? {
            // A thread may exit between listing and reading.
            let Ok(status) = std::fs::read_to_string(thread?.path().join("status")) else {
                continue;
            };
            if !is_all(&status, "Uid:", self.uid.as_raw())
                || !is_all(&status, "Gid:", self.gid.as_raw())
            {
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
pub fn is_root() -> bool {
    Uid::effective().is_root()
}

/// The effective user id of the process.
pub fn effective_user() -> u32 {
    Uid::effective().as_raw()
}

fn not_found(sentence: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, sentence)
}

/// The entry of a name in the user or group database. Several errors only mean that there is none
/// (`getpwnam(3)`).
fn entry<E>(name: &str, find: impl Fn(&str) -> nix::Result<Option<E>>) -> io::Result<Option<E>> {
    match find(name) {
        Err(Errno::ENOENT | Errno::ESRCH | Errno::EBADF | Errno::EPERM) => Ok(None),
        Err(error) => {
            Err(io::Error::other(format!("cannot look up {name}: {}", io::Error::from(error))))
        }
        Ok(entry) => Ok(entry),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_groups_are_found_by_name_or_number() {
        let root = UserIds::find("root", None).expect("root exists");
        assert_eq!((root.uid.as_raw(), root.gid.as_raw()), (0, 0));
        let numeric = UserIds::find("12345", Some("12346")).expect("numbers need no entry");
        assert_eq!((numeric.uid.as_raw(), numeric.gid.as_raw()), (12345, 12346));
        assert_eq!(numeric.name, None);
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
