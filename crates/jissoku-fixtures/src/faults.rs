//! Injected faults: known performance problems, for testing whether a benchmark detects them.
//!
//! Each models a problem of a real server and can be switched on and off.

use std::fmt;
use std::str::FromStr;

use jissoku_os::driver::Backend;
use jissoku_server::{ListenerSharing, Settings};

/// One injected fault, written `NAME` or `NAME=N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedFault {
    /// `peername=N`: `getpeername(2)` is called N times per request.
    PeerName(u32),
    /// `open=N`: a file is opened, inspected with `fstat(2)` and closed N times per request.
    Open(u32),
    /// `split`: the head and the body of a response are sent separately.
    Split,
    /// `split-delayed`: as `split`, with Nagle's algorithm on. It holds the body back until the
    /// peer has acknowledged the head, and a peer that waits for the body delays that by 40 ms (RFC
    /// 9293 section 3.7.4, RFC 1122 section 4.2.3.2). TCP only, and only from the second or third
    /// request of a connection on, because the kernel acknowledges the first segments at once.
    SplitDelayed,
    /// `close-after=N`: a connection is closed after N requests.
    CloseAfter(u32),
    /// `single-worker`: one worker accepts all connections.
    SingleWorker,
    /// `linear-timers`: delays are kept in a list that is scanned on each wake-up.
    LinearTimers,
    /// `herd`: all workers are woken for each connection, and one accepts it.
    Herd,
    /// `log`: a line is written to a file for each request, with one system call.
    Log,
    /// `crash=N`: a worker panics at its Nth request.
    Crash(u32),
    /// `crash-metrics=N`: the same in the metrics worker.
    CrashMetrics(u32),
}

/// An invalid `NAME[=N]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InjectedFaultError(String);

impl fmt::Display for InjectedFaultError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "invalid fault {:?}: write peername[=N], open[=N], split, split-delayed, close-after=N, \
             single-worker, linear-timers, herd, log, crash=N or crash-metrics=N",
            self.0
        )
    }
}

impl std::error::Error for InjectedFaultError {}

impl FromStr for InjectedFault {
    type Err = InjectedFaultError;

    fn from_str(text: &str) -> Result<Self, InjectedFaultError> {
        let bad = || InjectedFaultError(text.to_owned());
        let (name, count) = match text.split_once('=') {
            Some((name, count)) => {
                let count = count.parse().ok().filter(|&count: &u32| count > 0);
                (name, Some(count.ok_or_else(bad)?))
            }
            None => (text, None),
        };
        match (name, count) {
            ("peername", count) => Ok(Self::PeerName(count.unwrap_or(1))),
            ("open", count) => Ok(Self::Open(count.unwrap_or(1))),
            ("close-after", Some(count)) => Ok(Self::CloseAfter(count)),
            ("split", None) => Ok(Self::Split),
            ("split-delayed", None) => Ok(Self::SplitDelayed),
            ("single-worker", None) => Ok(Self::SingleWorker),
            ("linear-timers", None) => Ok(Self::LinearTimers),
            ("herd", None) => Ok(Self::Herd),
            ("log", None) => Ok(Self::Log),
            ("crash", Some(count)) => Ok(Self::Crash(count)),
            ("crash-metrics", Some(count)) => Ok(Self::CrashMetrics(count)),
            _ => Err(bad()),
        }
    }
}

/// The settings for a server with these faults.
#[must_use]
pub fn adjust(settings: Settings, faults: &[InjectedFault]) -> Settings {
    let mut settings = settings;
    if faults.contains(&InjectedFault::SingleWorker) {
        // `Faulty` starts the idle threads.
        settings.workers = 1;
    } else if faults.contains(&InjectedFault::Herd) {
        settings.listener_sharing = ListenerSharing::WakeAll;
        // The only driver that wakes all.
        settings.driver.backend = Backend::Epoll;
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_read() {
        let check = |text: &str, cause| assert_eq!(text.parse(), Ok(cause), "{text}");
        check("peername", InjectedFault::PeerName(1));
        check("peername=3", InjectedFault::PeerName(3));
        check("open", InjectedFault::Open(1));
        check("split", InjectedFault::Split);
        check("close-after=100", InjectedFault::CloseAfter(100));
        check("herd", InjectedFault::Herd);
        check("crash=7", InjectedFault::Crash(7));
        check("crash-metrics=7", InjectedFault::CrashMetrics(7));
        for text in
            ["", "x", "open=0", "open=", "open=-1", "split=2", "close-after", "crash", "OPEN"]
        {
            assert!(text.parse::<InjectedFault>().is_err(), "{text:?}");
        }
    }
}
