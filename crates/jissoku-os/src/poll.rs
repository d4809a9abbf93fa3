//! Waits for a few descriptors with `poll(2)`, which needs no descriptor of its own.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Waits until one of `sources` is readable or until `timeout` (`None`: no timeout), and returns
/// for each whether it is. An interruption by a signal counts as no event.
///
/// # Errors
/// The error of `poll(2)`, other than `EINTR`.
pub fn wait_readable(
    sources: &[BorrowedFd<'_>],
    timeout: Option<Duration>,
) -> io::Result<Vec<bool>> {
    let timeout = timeout.map(|left| Timespec {
        tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: left.subsec_nanos().into(),
    });
    let mut fds: Vec<PollFd<'_>> =
        sources.iter().map(|source| PollFd::from_borrowed_fd(*source, PollFlags::IN)).collect();
    match poll(&mut fds, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    // End of file and errors count as readable.
    Ok(fds.iter().map(|fd| !fd.revents().is_empty()).collect())
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsFd;
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
}
