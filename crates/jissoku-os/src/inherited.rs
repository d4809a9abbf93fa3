//! Descriptors that another process left open for this one: the protocol of `sd_listen_fds(3)`.
//!
//! systemd hands over sockets so, and so does a server to its successor: there is one way in.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::FdFlags;

/// The first descriptor that is handed over (`SD_LISTEN_FDS_START`).
pub(crate) const FIRST: RawFd = 3;

/// More than anybody hands over; a larger number is a mistake.
const COUNT_MAX: RawFd = 4096;

/// A descriptor that was handed over.
#[derive(Debug)]
pub struct Inherited {
    /// What the other side calls it; `unknown` if it does not say.
    pub name: String,
    /// The descriptor. No child of ours will have it.
    pub fd: OwnedFd,
}

/// The values of `LISTEN_PID`, `LISTEN_FDS` and `LISTEN_FDNAMES`, where they are set.
#[derive(Clone, Copy, Debug, Default)]
pub struct Handover<'a> {
    /// Whom the descriptors are meant for.
    pub pid: Option<&'a str>,
    /// How many there are.
    pub count: Option<&'a str>,
    /// Their names, with colons between them.
    pub names: Option<&'a str>,
}

/// Takes what was handed over, once: a second call finds nothing.
///
/// # Errors
/// `InvalidInput` when the values make no sense, and the error of `fcntl(2)` when a descriptor is not open.
pub fn take(handover: Handover<'_>) -> io::Result<Vec<Inherited>> {
    static IS_TAKEN: AtomicBool = AtomicBool::new(false);
    let is_ours = handover.pid.is_some_and(|pid| pid == std::process::id().to_string());
    if !is_ours || IS_TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(Vec::new());
    }
    let count = count(handover.count.unwrap_or("0"))?;
    let mut names = handover.names.unwrap_or_default().split(':');
    (FIRST..FIRST + count)
        .map(|fd| {
            let name = names.next().filter(|name| !name.is_empty()).unwrap_or("unknown");
            Ok(Inherited { name: name.to_owned(), fd: adopt(fd)? })
        })
        .collect()
}

fn count(text: &str) -> io::Result<RawFd> {
    let count = text.parse().ok().filter(|count| (0..=COUNT_MAX).contains(count));
    count.ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("LISTEN_FDS is {text:?}, which is no number of descriptors"),
        )
    })
}

#[expect(unsafe_code, reason = "a descriptor comes from the parent process as a number")]
fn adopt(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: the call only reads a flag, and says so if nothing is open there.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFD) };
    if flags < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, as was just seen, and `LISTEN_PID` says that it was left to this process, which
    // takes it once (`IS_TAKEN`).
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    rustix::io::fcntl_setfd(&fd, FdFlags::CLOEXEC)?;
    Ok(fd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_meant_for_somebody_else_is_left_alone() {
        for pid in [None, Some("1"), Some("-1"), Some("")] {
            let handover = Handover { pid, count: Some("7"), names: None };
            assert!(take(handover).expect("nothing is wrong with it").is_empty());
        }
    }

    #[test]
    fn counts_are_small_numbers() {
        assert!(count("0").is_ok() && count("4096").is_ok());
        for text in ["", "-1", "x", "4097", "99999999999"] {
            let refusal = count(text).expect_err("no number of descriptors");
            assert!(refusal.to_string().contains("LISTEN_FDS"), "{refusal}");
        }
    }
}
