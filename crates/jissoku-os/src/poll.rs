//! Waits for a few descriptors with `poll(2)`, which needs no descriptor of its own.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::clock;

/// Waits until one of `sources` is readable or until `timeout` (`None`: no timeout), and returns
/// for each whether it is. An interruption by a signal counts as no event.
///
/// # Errors
/// The error of `poll(2)`, other than `EINTR`.
pub fn wait_readable(
    sources: &[BorrowedFd<'_>],
    timeout: Option<Duration>,
) -> io::Result<Vec<bool>> {
    let timeout = timeout.map(timespec);
    let mut fds: Vec<PollFd<'_>> =
        sources.iter().map(|source| PollFd::from_borrowed_fd(*source, PollFlags::IN)).collect();
    match poll(&mut fds, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    // End of file and errors count as readable.
    Ok(fds.iter().map(|fd| !fd.revents().is_empty()).collect())
}

/// Waits until `source` is readable, for at most `timeout`; returns whether it is. A
/// signal does not end the wait.
///
/// # Errors
/// The error of `poll(2)`, other than `EINTR`.
pub fn is_readable_within(source: &impl AsFd, timeout: Duration) -> io::Result<bool> {
    let start_ns = clock::monotonic_ns();
    loop {
        let elapsed = Duration::from_nanos(clock::monotonic_ns() - start_ns);
        let left = timeout.saturating_sub(elapsed);
        if wait_readable(&[source.as_fd()], Some(left))?.contains(&true) {
            return Ok(true);
        }
        if left.is_zero() {
            return Ok(false);
        }
    }
}

/// Waits until bytes can be sent on `socket`, or until it has failed, for at most `timeout`; returns
/// whether one of these is so. An interruption by a signal ends the wait.
///
/// # Errors
/// The error of `poll(2)`, other than `EINTR`.
pub fn wait_writable(socket: BorrowedFd<'_>, timeout: Duration) -> io::Result<bool> {
    let mut fds = [PollFd::from_borrowed_fd(socket, PollFlags::OUT)];
    match poll(&mut fds, Some(&timespec(timeout))) {
        Ok(_) | Err(Errno::INTR) => Ok(!fds[0].revents().is_empty()),
        Err(error) => Err(error.into()),
    }
}

/// Whether the peer of `socket` has shut down its side, without waiting.
///
/// # Errors
/// The error of `poll(2)`, or `ConnectionReset` if the connection has ended on both sides.
pub fn is_shut_by_peer(socket: BorrowedFd<'_>) -> io::Result<bool> {
    let mut fds = [PollFd::from_borrowed_fd(socket, PollFlags::RDHUP)];
    match poll(&mut fds, Some(&timespec(Duration::ZERO))) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let revents = fds[0].revents();
    if revents.intersects(PollFlags::HUP | PollFlags::ERR) {
        return Err(io::ErrorKind::ConnectionReset.into());
    }
    Ok(revents.contains(PollFlags::RDHUP))
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: duration.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn what_is_readable_is_named() {
        let (silent, _silent_end) = UnixStream::pair().expect("a pair can be had");
        let (ready, mut end) = UnixStream::pair().expect("a pair can be had");
        let sources = [silent.as_fd(), ready.as_fd()];
        let now = wait_readable(&sources, Some(Duration::ZERO)).expect("it can be asked");
        assert_eq!(now, [false, false]);
        end.write_all(b"x").expect("room to send");
        assert_eq!(wait_readable(&sources, None).expect("it can be waited for"), [false, true]);
        drop(end);
        assert_eq!(wait_readable(&sources, None).expect("it can be waited for"), [false, true]);
    }

    #[test]
    fn a_side_that_is_shut_is_distinguished_from_a_connection_that_has_ended() {
        let (socket, end) = UnixStream::pair().expect("a pair can be had");
        assert!(!is_shut_by_peer(socket.as_fd()).expect("it can be asked"));
        end.shutdown(std::net::Shutdown::Write).expect("it is open");
        assert!(is_shut_by_peer(socket.as_fd()).expect("it can be asked"));
        drop(end);
        assert!(is_shut_by_peer(socket.as_fd()).is_err());
    }

    #[test]
    fn a_full_socket_is_not_writable_until_it_fails() {
        let (mut full, end) = UnixStream::pair().expect("a pair can be had");
        full.set_nonblocking(true).expect("a socket has modes");
        let soon = Duration::from_millis(1);
        assert!(wait_writable(full.as_fd(), soon).expect("it can be waited for"));
        while full.write(&[0; 4096]).is_ok() {}
        assert!(!wait_writable(full.as_fd(), soon).expect("it can be waited for"));
        drop(end);
        assert!(wait_writable(full.as_fd(), soon).expect("it can be waited for"));
    }
}
