//! Which thread has a core at a moment that was chosen before.
//!
//! The sampler waits for that moment on the core itself. A timer puts it in place of the thread that
//! had the core, which therefore stays where it was; another core would reach it some hundred
//! microseconds later on a virtual machine, when a request may have ended.

use std::io;

use jissoku_os::timer::TimerFd;
use jissoku_os::{affinity, clock};

use crate::record::{self, ThreadId};

/// How long after the moment the thread may have gone on.
const LATE_NS: u64 = 60_000;

/// The shortest turns that the kernel gives.
const TURN_NS: u64 = 100_000;

/// The last turn of another thread on a core.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    last: Option<(ThreadId, u64, Option<u64>)>,
}

/// The thread that had a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Had {
    /// No thread that is known.
    Unknown,
    /// This thread, until now.
    Thread(ThreadId),
    /// This thread has had it since, but what it did at that moment is not known.
    Late(ThreadId),
}

impl Turns {
    pub(crate) fn on_record(&mut self, bytes: &[u8]) {
        let Some(turn) = record::turn(bytes) else { return };
        if u32::try_from(turn.id.0) == Ok(std::process::id()) {
            return;
        }
        match &mut self.last {
            Some((id, _, end @ None)) if *id == turn.id => {
                *end = turn.is_end.then_some(turn.time_ns);
            }
            last if !turn.is_end => *last = Some((turn.id, turn.time_ns, None)),
            _ => {}
        }
    }

    /// The thread that had the core at a moment, given that the sampler has it now.
    pub(crate) fn at(&self, moment_ns: u64) -> Had {
        let late_ns = moment_ns + LATE_NS;
        match self.last {
            // The idle task has no number.
            None | Some(((_, 0), ..)) => Had::Unknown,
            Some((_, _, Some(end_ns))) if end_ns < moment_ns => Had::Unknown,
            Some((id, start_ns, Some(end_ns))) if start_ns <= moment_ns && end_ns <= late_ns => {
                Had::Thread(id)
            }
            Some((_, start_ns, _)) if (moment_ns..late_ns).contains(&start_ns) => Had::Unknown,
            Some((id, ..)) => Had::Late(id),
        }
    }
}

/// Waits on other cores than its own.
#[derive(Debug)]
pub(crate) struct Lookout {
    home: Vec<usize>,
    pub(crate) timer: TimerFd,
}

impl Lookout {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { home: affinity::allowed()?, timer: TimerFd::new()? })
    }

    /// Goes to a core, and returns the moment at which the timer will expire, in `wait_ns`.
    pub(crate) fn go(&self, core: usize, wait_ns: u64) -> io::Result<u64> {
        // Without permission the kernel may let the other thread continue for a while, which is noticed.
        let _set = affinity::set_first(true).or_else(|_| affinity::set_short_turns(TURN_NS));
        affinity::pin(&[core])?;
        let moment_ns = clock::monotonic_ns() + wait_ns;
        self.timer.set_at(moment_ns)?;
        Ok(moment_ns)
    }

    /// Goes back, still before all others there: a thread is stopped meanwhile.
    pub(crate) fn return_home(&self) -> io::Result<()> {
        affinity::pin(&self.home)
    }

    /// Takes turns with others again.
    pub(crate) fn rest() {
        let _is_first = affinity::set_first(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switch(tid: i32, time_ns: u64, is_end: bool) -> Vec<u8> {
        let kind_and_header = [14_u32, if is_end { 1 << 13 } else { 0 }];
        let words = kind_and_header.into_iter().flat_map(u32::to_ne_bytes);
        let id = [tid, tid].into_iter().flat_map(i32::to_ne_bytes);
        words.chain(id).chain(time_ns.to_ne_bytes()).collect()
    }

    fn had(records: &[(i32, u64, bool)], moment_ns: u64) -> Had {
        let mut turns = Turns::default();
        for &(tid, time_ns, is_end) in records {
            turns.on_record(&switch(tid, time_ns, is_end));
        }
        turns.at(moment_ns)
    }

    #[test]
    fn the_thread_that_was_replaced_had_the_core() {
        let (id, late) = ((7, 7), 1_000 + LATE_NS);
        assert_eq!(had(&[], 1_000), Had::Unknown);
        assert_eq!(had(&[(7, 500, false), (7, 1_010, true)], 1_000), Had::Thread(id));
        assert_eq!(had(&[(0, 500, false), (0, 1_010, true)], 1_000), Had::Unknown, "idle");
        assert_eq!(had(&[(7, 500, false), (7, 900, true)], 1_000), Had::Unknown, "it had ended");
        assert_eq!(had(&[(7, 1_005, false), (7, 1_010, true)], 1_000), Had::Unknown, "later");
        assert_eq!(had(&[(7, 500, false), (7, late + 1, true)], 1_000), Had::Late(id));
        assert_eq!(
            had(&[(8, 500, false), (8, 1_100, true), (7, 1_200, false)], 1_000),
            Had::Unknown
        );
        assert_eq!(had(&[(7, late + 1, false), (7, late + 9, true)], 1_000), Had::Late(id));
    }
}
