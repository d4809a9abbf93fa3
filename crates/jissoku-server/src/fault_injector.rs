//! Injected faults: known performance problems, for testing whether a benchmark detects them.
//!
//! Each models a problem of a real server and can be switched on and off. Without any, a request
//! costs one comparison.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::atomic::{AtomicU32, Ordering};

use jissoku_os::socket;

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

/// The faults of one worker and their state.
#[derive(Debug)]
pub(crate) struct FaultInjector {
    peer_names: u32,
    opens: u32,
    /// A file that exists while the process runs.
    path: PathBuf,
    requests_max: Option<u32>,
    splits_response: bool,
    enables_nagle: bool,
    log: Option<Log>,
    /// Requests until the worker panics.
    left: Option<u32>,
}

impl FaultInjector {
    /// The faults that concern a worker; `None` if there are none.
    ///
    /// # Errors
    /// The error of creating the file of the fault `log`.
    pub(crate) fn new(injected_faults: &[InjectedFault]) -> io::Result<Option<Box<Self>>> {
        let mut injector = Self {
            peer_names: 0,
            opens: 0,
            path: std::env::current_exe()?,
            requests_max: None,
            splits_response: false,
            enables_nagle: false,
            log: None,
            left: None,
        };
        let mut is_any = false;
        for cause in injected_faults {
            match *cause {
                InjectedFault::PeerName(count) => injector.peer_names = count,
                InjectedFault::Open(count) => injector.opens = count,
                InjectedFault::Split => injector.splits_response = true,
                InjectedFault::SplitDelayed => {
                    (injector.splits_response, injector.enables_nagle) = (true, true);
                }
                InjectedFault::CloseAfter(count) => injector.requests_max = Some(count),
                InjectedFault::Log => injector.log = Some(Log::new()?),
                InjectedFault::Crash(count) => injector.left = Some(count),
                // Implemented by the listeners, the timers and the metrics server.
                InjectedFault::SingleWorker
                | InjectedFault::LinearTimers
                | InjectedFault::Herd
                | InjectedFault::CrashMetrics(_) => continue,
            }
            is_any = true;
        }
        Ok(is_any.then(|| Box::new(injector)))
    }

    /// Called for a new connection; returns the socket for `getpeername(2)`, if needed.
    pub(crate) fn open(&self, arrival: BorrowedFd<'_>) -> Option<OwnedFd> {
        if self.enables_nagle {
            // Fails on a Unix socket, which has no such option.
            let _unix = socket::clear_nodelay(arrival);
        }
        // Skipped when descriptors are exhausted.
        (self.peer_names > 0).then(|| arrival.try_clone_to_owned().ok()).flatten()
    }

    /// Called before a response is written. Errors are ignored: only the cost matters.
    #[expect(
        clippy::manual_assert,
        reason = "this is the fault that was requested, not an assertion"
    )]
    #[expect(clippy::panic, reason = "this is the fault that was requested")]
    pub(crate) fn apply(&mut self, peer: Option<&OwnedFd>) {
        if let Some(peer) = peer {
            for _ in 0..self.peer_names {
                let _peer = socket::peer_address(peer);
            }
        }
        for _ in 0..self.opens {
            let _state = File::open(&self.path).and_then(|file| file.metadata());
        }
        if let Some(log) = &mut self.log {
            let _written = log.write();
        }
        if let Some(left) = &mut self.left {
            *left -= 1;
            if *left == 0 {
                panic!("injected fault");
            }
        }
    }

    /// Whether a connection is closed after its request `number`, counted from 1.
    pub(crate) fn closes_after(&self, number: u32) -> bool {
        self.requests_max.is_some_and(|requests_max| number >= requests_max)
    }

    /// Whether head and body are sent separately.
    pub(crate) const fn splits_response(&self) -> bool {
        self.splits_response
    }
}

/// An unbuffered access log.
#[derive(Debug)]
struct Log {
    file: File,
    size: u64,
}

const LOG_LINE: &[u8] =
    b"127.0.0.1 - - [01/Jan/2026:00:00:00 +0000] \"GET / HTTP/1.1\" 200 13 \"-\" \"-\"\n";

/// At this size the log is rewound.
const LOG_SIZE_MAX: u64 = 64 * 1024 * 1024;

impl Log {
    /// Creates an unlinked temporary file.
    fn new() -> io::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("jissoku-log-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let file = File::options().create_new(true).write(true).open(&path)?;
        fs::remove_file(&path)?;
        Ok(Self { file, size: 0 })
    }

    fn write(&mut self) -> io::Result<()> {
        if self.size >= LOG_SIZE_MAX {
            self.file.rewind()?;
            self.size = 0;
        }
        self.size += LOG_LINE.len() as u64;
        self.file.write_all(LOG_LINE)
    }
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

    #[test]
    fn nothing_is_planted_without_a_cause() {
        let injector = |injected_faults: &[InjectedFault]| {
            FaultInjector::new(injected_faults).expect("a descriptor").is_some()
        };
        assert!(
            !injector(&[])
                && !injector(&[
                    InjectedFault::Herd,
                    InjectedFault::SingleWorker,
                    InjectedFault::LinearTimers
                ])
        );
        assert!(injector(&[InjectedFault::Log]) && injector(&[InjectedFault::Split]));
    }
}
