//! Planted causes: ways to be slow on purpose, for laboratories that want to see whether they find them.
//!
//! Each is what a real server was once slow by, and each can be switched on and off to prove it. Without any,
//! a request costs one comparison.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::atomic::{AtomicU32, Ordering};

use jissoku_os::socket;

/// One planted cause, written `NAME` or `NAME=N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// `peername=N`: for each request the peer's address is asked for so many times.
    PeerName(u32),
    /// `open=N`: for each request a file is opened, asked for its state and closed so many times.
    Open(u32),
    /// `split`: the head and the body of an answer leave in two sends.
    Split,
    /// `split-delayed`: as `split`, with Nagle's algorithm on. It holds the body back until the peer has
    /// acknowledged the head, and a peer that waits for the body delays that by 40 ms (RFC 9293 section
    /// 3.7.4, RFC 1122 section 4.2.3.2). TCP only, and only from the second or third request of a
    /// connection on, because the kernel acknowledges the first segments at once.
    SplitDelayed,
    /// `close-after=N`: a connection ends with its request of this number.
    CloseAfter(u32),
    /// `single-worker`: one worker gets all connections.
    SingleWorker,
    /// `linear-timers`: delays are kept in a list that is gone through each time.
    LinearTimers,
    /// `herd`: all workers wait for each connection, all are woken, and one gets it.
    Herd,
    /// `log`: for each request a line is written to a file, by a call of its own.
    Log,
    /// `crash=N`: a worker fails, by a fault of its own, at its request of this number.
    Crash(u32),
    /// `crash-metrics=N`: so does the worker that tells the server's own numbers.
    CrashMetrics(u32),
}

/// A cause that is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadCause(String);

impl fmt::Display for BadCause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{:?} is no cause: write peername[=N], open[=N], split, split-delayed, close-after=N, \
             single-worker, linear-timers, herd, log, crash=N or crash-metrics=N",
            self.0
        )
    }
}

impl std::error::Error for BadCause {}

impl FromStr for Cause {
    type Err = BadCause;

    fn from_str(text: &str) -> Result<Self, BadCause> {
        let bad = || BadCause(text.to_owned());
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

/// The causes that are planted in one worker, and what they need.
#[derive(Debug)]
pub(crate) struct Planted {
    peer_names: u32,
    opens: u32,
    /// A file that exists as long as we do.
    path: PathBuf,
    requests_max: Option<u32>,
    splits: bool,
    has_nagle: bool,
    log: Option<Log>,
    /// Requests until the worker fails.
    left: Option<u32>,
}

impl Planted {
    /// What `causes` ask of a worker; `None` if that is nothing.
    ///
    /// # Errors
    /// The error of making the file for the log.
    pub(crate) fn new(causes: &[Cause]) -> io::Result<Option<Box<Self>>> {
        let mut planted = Self {
            peer_names: 0,
            opens: 0,
            path: std::env::current_exe()?,
            requests_max: None,
            splits: false,
            has_nagle: false,
            log: None,
            left: None,
        };
        let mut is_any = false;
        for cause in causes {
            match *cause {
                Cause::PeerName(count) => planted.peer_names = count,
                Cause::Open(count) => planted.opens = count,
                Cause::Split => planted.splits = true,
                Cause::SplitDelayed => (planted.splits, planted.has_nagle) = (true, true),
                Cause::CloseAfter(count) => planted.requests_max = Some(count),
                Cause::Log => planted.log = Some(Log::new()?),
                Cause::Crash(count) => planted.left = Some(count),
                // The listeners, the timers and whoever starts another server see to these.
                Cause::SingleWorker
                | Cause::LinearTimers
                | Cause::Herd
                | Cause::CrashMetrics(_) => continue,
            }
            is_any = true;
        }
        Ok(is_any.then(|| Box::new(planted)))
    }

    /// A connection begins; returns the socket to ask for its peer, if that is to be asked.
    pub(crate) fn open(&self, arrival: BorrowedFd<'_>) -> Option<OwnedFd> {
        if self.has_nagle {
            // A Unix socket has no Nagle to switch on.
            let _unix = socket::send_together(arrival);
        }
        // Without a descriptor to spare, this connection is spared.
        (self.peer_names > 0).then(|| arrival.try_clone_to_owned().ok()).flatten()
    }

    /// A request is about to be answered. What is planted may fail, as long as it costs.
    #[expect(
        clippy::manual_assert,
        reason = "nothing is asserted: this is the fault that was asked for"
    )]
    #[expect(clippy::panic, reason = "this is the fault that was asked for")]
    pub(crate) fn cost(&mut self, peer: Option<&OwnedFd>) {
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
                panic!("the fault that was planted here");
            }
        }
    }

    /// Whether a connection ends with its request of this number, counted from 1.
    pub(crate) fn ends_with(&self, number: u32) -> bool {
        self.requests_max.is_some_and(|requests_max| number >= requests_max)
    }

    /// Whether a head leaves before its body.
    pub(crate) const fn splits(&self) -> bool {
        self.splits
    }
}

/// What an access log without a buffer costs.
#[derive(Debug)]
struct Log {
    file: File,
    size: u64,
}

const LOG_LINE: &[u8] =
    b"127.0.0.1 - - [01/Jan/2026:00:00:00 +0000] \"GET / HTTP/1.1\" 200 13 \"-\" \"-\"\n";

/// At this size the log begins again.
const LOG_SIZE_MAX: u64 = 64 * 1024 * 1024;

impl Log {
    /// Writes to a file that no folder names any more, and that goes when the process does.
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
        check("peername", Cause::PeerName(1));
        check("peername=3", Cause::PeerName(3));
        check("open", Cause::Open(1));
        check("split", Cause::Split);
        check("close-after=100", Cause::CloseAfter(100));
        check("herd", Cause::Herd);
        check("crash=7", Cause::Crash(7));
        check("crash-metrics=7", Cause::CrashMetrics(7));
        for text in
            ["", "x", "open=0", "open=", "open=-1", "split=2", "close-after", "crash", "OPEN"]
        {
            assert!(text.parse::<Cause>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn nothing_is_planted_without_a_cause() {
        let planted = |causes: &[Cause]| Planted::new(causes).expect("a descriptor").is_some();
        assert!(
            !planted(&[]) && !planted(&[Cause::Herd, Cause::SingleWorker, Cause::LinearTimers])
        );
        assert!(planted(&[Cause::Log]) && planted(&[Cause::Split]));
    }
}
