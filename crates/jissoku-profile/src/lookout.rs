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
    last: Option<(ThreadId, u64, Option<End>)>,
}

/// How a turn ended.
#[derive(Clone, Copy, Debug)]
struct End {
    time_ns: u64,
    is_preempted: bool,
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
                *end = turn
                    .is_end
                    .then_some(End { time_ns: turn.time_ns, is_preempted: turn.is_preempted });
            }
            last if !turn.is_end => *last = Some((turn.id, turn.time_ns, None)),
            _ => {}
        }
    }

    /// The thread that had the core at a moment, given that the sampler has it now.
    ///
    /// A sampler that comes before all others (`is_first`) takes the core as soon as its timer expires:
    /// a thread that it preempts is where it was then, also where the hypervisor delivered that
    /// interrupt late, and a later moment is as random as the one that was chosen. Otherwise the kernel
    /// lets the thread continue for a while, and where it stops depends on what it does.
    pub(crate) fn at(&self, moment_ns: u64, is_first: bool) -> Had {
        let late_ns = moment_ns + LATE_NS;
        match self.last {
            // The idle task has no number.
            None | Some(((_, 0), ..)) => Had::Unknown,
            Some((_, _, Some(end))) if end.time_ns < moment_ns => Had::Unknown,
            Some((id, _, Some(end))) if is_first && end.is_preempted => Had::Thread(id),
            Some((id, start_ns, Some(end))) if start_ns <= moment_ns && end.time_ns <= late_ns => {
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
    /// The kernel puts it on its core before all others.
    pub(crate) is_first: bool,
}

impl Lookout {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { home: affinity::allowed()?, timer: TimerFd::new()?, is_first: false })
    }

    /// Goes to a core, and returns the moment at which the timer will expire, in `wait_ns`.
    pub(crate) fn go(&mut self, core: usize, wait_ns: u64) -> io::Result<u64> {
        // Without permission the kernel may let the other thread continue for a while, which is noticed.
        self.is_first = affinity::set_first(true).is_ok();
        if !self.is_first {
            let _set = affinity::set_short_turns(TURN_NS);
        }
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

    /// A record of a switch; `misc` has the bits 13, switch out, and 14, preempted.
    fn switch(tid: i32, time_ns: u64, misc: u32) -> Vec<u8> {
        let words = [14_u32, misc].into_iter().flat_map(u32::to_ne_bytes);
        let id = [tid, tid].into_iter().flat_map(i32::to_ne_bytes);
        words.chain(id).chain(time_ns.to_ne_bytes()).collect()
    }

    const START: u32 = 0;
    const END: u32 = 1 << 13;
    const PREEMPTED: u32 = END | 1 << 14;

    fn had(records: &[(i32, u64, u32)], moment_ns: u64, is_first: bool) -> Had {
        let mut turns = Turns::default();
        for &(tid, time_ns, misc) in records {
            turns.on_record(&switch(tid, time_ns, misc));
        }
        turns.at(moment_ns, is_first)
    }

    #[test]
    fn the_thread_that_was_replaced_had_the_core() {
        let (id, late) = ((7, 7), 1_000 + LATE_NS);
        for is_first in [false, true] {
            let had = |records: &[_]| had(records, 1_000, is_first);
            assert_eq!(had(&[]), Had::Unknown);
            assert_eq!(had(&[(7, 500, START), (7, 1_010, END)]), Had::Thread(id));
            assert_eq!(had(&[(0, 500, START), (0, 1_010, END)]), Had::Unknown, "idle");
            assert_eq!(had(&[(7, 500, START), (7, 900, END)]), Had::Unknown, "it had ended");
            assert_eq!(had(&[(7, 1_005, START), (7, 1_010, END)]), Had::Unknown, "later");
            assert_eq!(had(&[(7, 500, START), (7, late + 1, END)]), Had::Late(id));
            let taken_over = [(8, 500, START), (8, 1_100, END), (7, 1_200, START)];
            assert_eq!(had(&taken_over), Had::Unknown);
            assert_eq!(had(&[(7, late + 1, START), (7, late + 9, END)]), Had::Late(id));
        }
    }

    #[test]
    fn a_thread_that_the_first_one_preempts_is_where_it_was_however_late_the_timer() {
        let (id, late) = ((7, 7), 1_000 + LATE_NS);
        for records in [
            [(7, 500, START), (7, late + 1, PREEMPTED)],
            [(7, late + 1, START), (7, late + 9, PREEMPTED)],
        ] {
            assert_eq!(had(&records, 1_000, true), Had::Thread(id));
            assert_eq!(had(&records, 1_000, false), Had::Late(id));
        }
        let before = [(7, 500, START), (7, 900, PREEMPTED)];
        assert_eq!(had(&before, 1_000, true), Had::Unknown);
        let by_another = [(7, 500, START), (7, late + 1, PREEMPTED), (8, late + 1, START)];
        assert_eq!(had(&by_another, 1_000, true), Had::Late((8, 8)));
    }
}
