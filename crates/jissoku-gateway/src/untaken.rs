//! Whether a server has certainly taken nothing of a request that was sent to it, when its
//! connection has ended: a pure function.
//!
//! That none of it was acknowledged is no proof. Linux delays an acknowledgement by up to 40 ms, and
//! after a reset it never comes: a process may have read a request, acted on it and reset the
//! connection. Two things are proof. Nothing of the request has left this host. Or the server had
//! shut down its side before its kernel had any of it, since the FIN acknowledges what was received
//! until then, and has reset the connection after that: it is not read any more. A server that
//! reads on after its end drops what it reads (RFC 9112 section 9.6): it cannot respond to it.

use std::os::fd::OwnedFd;

use jissoku_os::driver::PeerEnd;
use jissoku_os::socket::Delivery;

/// How long the reset is waited for. It answers the request, so it takes a round trip, or the time
/// until the request is transmitted again.
pub(crate) const RESET_WAIT_NS: u64 = 1_000_000_000;

/// The first time to wait before looking again; doubled each time.
const STEP_NS: u64 = 500_000;

/// What is known of a request whose connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// The server has taken nothing of it.
    Untaken,
    /// If the connection is reset next, the server has taken nothing of it.
    AwaitsReset,
    /// It may have taken it.
    Unknown,
}

/// `before` bytes were sent on the connection before the request, and all of them were answered.
pub(crate) const fn judge(delivery: Delivery, before: u64, end: PeerEnd) -> Judgement {
    if delivery.is_closed && delivery.transmitted <= before {
        return Judgement::Untaken;
    }
    match end {
        PeerEnd::Shutdown if delivery.acknowledged > before => Judgement::Unknown,
        PeerEnd::Shutdown if delivery.is_closed => Judgement::Untaken,
        PeerEnd::Shutdown => Judgement::AwaitsReset,
        PeerEnd::Failure => Judgement::Unknown,
    }
}

/// The connection of a request that is [`Judgement::AwaitsReset`].
#[derive(Debug)]
pub(crate) struct AwaitedReset {
    /// A duplicate, to ask the kernel about it.
    pub(crate) socket: OwnedFd,
    pub(crate) until_ns: u64,
    step_ns: u64,
}

impl AwaitedReset {
    pub(crate) const fn new(socket: OwnedFd, until_ns: u64) -> Self {
        Self { socket, until_ns, step_ns: STEP_NS }
    }

    /// When to look again, if there is time.
    pub(crate) fn next_ns(&mut self, now_ns: u64) -> Option<u64> {
        let next_ns = now_ns + self.step_ns;
        self.step_ns *= 2;
        (now_ns < self.until_ns).then(|| next_ns.min(self.until_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_proof_counts() {
        use Judgement::{AwaitsReset, Unknown, Untaken};
        use PeerEnd::{Failure, Shutdown};
        // A request of 20 bytes, after 10.
        for (is_closed, transmitted, acknowledged, end, expected) in [
            (true, 10, 10, Failure, Untaken),
            (true, 10, 10, Shutdown, Untaken),
            (true, 11, 10, Failure, Unknown),
            (true, 30, 10, Failure, Unknown),
            (true, 30, 30, Failure, Unknown),
            (true, 30, 10, Shutdown, Untaken),
            (true, 30, 11, Shutdown, Unknown),
            (true, 30, 30, Shutdown, Unknown),
            (false, 30, 10, Shutdown, AwaitsReset),
            (false, 10, 10, Shutdown, AwaitsReset),
            (false, 30, 11, Shutdown, Unknown),
            (false, 10, 10, Failure, Unknown),
        ] {
            let delivery = Delivery { is_closed, transmitted, acknowledged };
            assert_eq!(judge(delivery, 10, end), expected, "{delivery:?} {end:?}");
        }
    }

    #[test]
    fn the_reset_is_waited_for_in_growing_steps() {
        let (socket, _) = std::os::unix::net::UnixStream::pair().expect("a pair can be had");
        let mut awaited = AwaitedReset::new(socket.into(), RESET_WAIT_NS);
        let (mut times, mut now_ns) = (Vec::new(), 0);
        while let Some(next_ns) = awaited.next_ns(now_ns) {
            now_ns = next_ns;
            times.push(next_ns / 100_000);
        }
        assert_eq!(times[..4], [5, 15, 35, 75]);
        assert_eq!((times.len(), now_ns), (11, RESET_WAIT_NS));
    }
}
