//! Socket activation: descriptors passed by another process, as of `sd_listen_fds(3)` or of
//! `Server::Starter`.
//!
//! The former is used by systemd and by a server that re-executes itself.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::FdFlags;

/// The first passed descriptor (`SD_LISTEN_FDS_START`).
pub(crate) const FIRST: RawFd = 3;

/// Maximum number of passed descriptors; larger numbers are rejected.
const COUNT_MAX: RawFd = 4096;

/// The variable of `Server::Starter`: addresses with their descriptors.
const STARTER: &str = "SERVER_STARTER_PORT";

/// A passed descriptor.
#[derive(Debug)]
pub struct Inherited {
    /// Its name in `LISTEN_FDNAMES`, or `unknown`.
    pub name: String,
    /// The descriptor, with `FD_CLOEXEC` set.
    pub fd: OwnedFd,
}

/// The values of `LISTEN_PID`, `LISTEN_FDS` and `LISTEN_FDNAMES`, where they are set.
#[derive(Clone, Copy, Debug, Default)]
struct ListenEnv<'a> {
    pid: Option<&'a str>,
    count: Option<&'a str>,
    names: Option<&'a str>,
}

/// Takes the descriptors named in the environment; a second call returns none. The variable of
/// `Server::Starter` counts unless those of `sd_listen_fds(3)` name this process: a process that this
/// one starts inherits it, and gets its own descriptors the other way.
///
/// The numbers come from the environment and not from arguments, because safe code must not be able
/// to take a descriptor that has an owner. A wrong count in the environment is detected, too:
/// descriptors that this process opened have `FD_CLOEXEC`, and inherited ones cannot.
///
/// # Errors
/// `InvalidInput` when a value is invalid or a descriptor was not inherited, and the error of
/// `fcntl(2)` when one is not open.
pub fn take_listen_fds() -> io::Result<Vec<Inherited>> {
    static IS_TAKEN: AtomicBool = AtomicBool::new(false);
    let values = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"].map(std::env::var_os);
    let [pid, count, names] = values.each_ref().map(|value| value.as_ref()?.to_str());
    let env = ListenEnv { pid, count, names };
    let starter = std::env::var_os(STARTER).filter(|ports| !ports.is_empty());
    if !(env.is_ours() || starter.is_some()) || IS_TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(Vec::new());
    }
    match starter {
        Some(ports) if !env.is_ours() => adopt_from_starter(&ports.to_string_lossy()),
        _ => env.adopt_all(),
    }
}

impl ListenEnv<'_> {
    fn is_ours(&self) -> bool {
        self.pid.is_some_and(|pid| pid == std::process::id().to_string())
    }

    fn adopt_all(&self) -> io::Result<Vec<Inherited>> {
        let count = count(self.count.unwrap_or("0"))?;
        let mut names = self.names.unwrap_or_default().split(':');
        (FIRST..FIRST + count)
            .map(|fd| {
                let name = names.next().filter(|name| !name.is_empty()).unwrap_or("unknown");
                Ok(Inherited { name: name.to_owned(), fd: adopt(fd)? })
            })
            .collect()
    }
}

fn adopt_from_starter(ports: &str) -> io::Result<Vec<Inherited>> {
    let inherited = |fd| {
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("descriptor {fd} of {STARTER}: {error}"))
        };
        Ok(Inherited { name: "unknown".to_owned(), fd: adopt(fd).map_err(named)? })
    };
    numbers(ports)?.into_iter().map(inherited).collect()
}

/// The descriptors of `HOST:PORT=FD;PORT=FD;PATH=FD`.
fn numbers(ports: &str) -> io::Result<Vec<RawFd>> {
    let number =
        |port: &str| port.rsplit_once('=')?.1.parse::<RawFd>().ok().filter(|fd| *fd >= FIRST);
    let numbers: Option<Vec<RawFd>> = ports.split(';').map(number).collect();
    numbers.ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, format!("invalid {STARTER} {ports:?}"))
    })
}

fn count(text: &str) -> io::Result<RawFd> {
    let count = text.parse().ok().filter(|count| (0..=COUNT_MAX).contains(count));
    count.ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, format!("invalid LISTEN_FDS {text:?}"))
    })
}

#[expect(unsafe_code, reason = "a descriptor comes from the parent process as a number")]
fn adopt(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: the call only reads a flag, and says so if nothing is open there.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFD) };
    if flags < 0 {
        return Err(io::Error::last_os_error());
    }
    if flags & libc::FD_CLOEXEC != 0 {
        let message = format!("descriptor {fd} was opened by this process, not passed to it");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    // SAFETY: it is open and was inherited, as was just seen, and the environment says that it was
    // left to this process, which takes it once (`IS_TAKEN`), so it has no other owner.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    rustix::io::fcntl_setfd(&fd, FdFlags::CLOEXEC)?;
    Ok(fd)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn descriptors_for_another_process_are_not_taken() {
        for pid in [None, Some("1"), Some("-1"), Some("")] {
            assert!(!ListenEnv { pid, count: Some("7"), names: None }.is_ours());
        }
        assert!(take_listen_fds().expect("nothing is wrong with it").is_empty());
    }

    #[test]
    fn a_descriptor_of_ours_is_never_taken() {
        let (ours, _other) = std::os::unix::net::UnixStream::pair().expect("a pair can be had");
        let refusal = adopt(ours.as_raw_fd()).expect_err("it was not inherited");
        assert_eq!(refusal.kind(), io::ErrorKind::InvalidInput);
        assert!(ours.peer_addr().is_ok(), "it is still open");
    }

    #[test]
    fn the_descriptors_of_a_starter_are_behind_its_addresses() {
        let of = |ports| numbers(ports).ok();
        assert_eq!(of("127.0.0.1:80=3"), Some(vec![3]));
        assert_eq!(of("80=3;[::1]:81=4;/run/a=b.sock=12"), Some(vec![3, 4, 12]));
        for ports in ["", ";", "80", "80=", "80=x", "80=2", "80=-1", "80=3;", "80=3;81"] {
            assert_eq!(of(ports), None, "{ports:?}");
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
