//! Time-outs. They are the same for all requests, so connections are looked at in the order in which they
//! were put in line, a few times within a time-out's length. What comes too late is judged by its own
//! time (`exchange.rs`), so the counts are exact; only the giving up is up to an eighth late.

use std::io;

use crate::connection::{Phase, short};
use crate::fault::Fault;
use crate::thread::Thread;

/// Time-outs are looked for so many times within their length; they are judged exactly all the same.
const CHECKS_PER_TIMEOUT: u64 = 8;

impl Thread<'_> {
    /// Puts a connection in line to be looked at for time-outs, if it does not stand there yet.
    pub(crate) fn time(&mut self, index: usize, now_ns: u64) {
        let connection = &mut self.connections[index];
        if !connection.timed {
            connection.timed = true;
            let at_ns = now_ns + self.plan.timeout_ns / CHECKS_PER_TIMEOUT;
            self.checks.push_back((at_ns, short(index)));
            self.next_mark_ns = self.next_mark_ns.min(at_ns);
        }
    }

    /// Fails what has waited too long. All connections whose turn is near are looked at together.
    pub(crate) fn check_times(&mut self, now_ns: u64) {
        let step_ns = self.plan.timeout_ns / CHECKS_PER_TIMEOUT;
        let soon_ns = now_ns + step_ns / CHECKS_PER_TIMEOUT;
        for _ in 0..self.checks.len() {
            let Some(&(at_ns, index)) = self.checks.front() else { return };
            if at_ns > soon_ns {
                return;
            }
            self.checks.pop_front();
            let index = index as usize;
            self.connections[index].timed = false;
            match self.waiting_since(index) {
                Some(since_ns) if since_ns + self.plan.timeout_ns <= now_ns => {
                    self.give_up(index);
                }
                Some(_) => self.time(index, now_ns),
                None => {}
            }
        }
    }

    fn waiting_since(&self, index: usize) -> Option<u64> {
        let connection = &self.connections[index];
        match connection.phase {
            Phase::Closed => None,
            Phase::Connecting | Phase::Shaking | Phase::Ending => Some(connection.since_ns),
            Phase::Open if connection.outstanding == 0 => None,
            Phase::Open => {
                let first = index * usize::from(self.plan.pipeline);
                Some(self.stamps[first + usize::from(connection.oldest)].sent_ns)
            }
        }
    }

    fn give_up(&mut self, index: usize) {
        match self.connections[index].phase {
            Phase::Connecting | Phase::Shaking => {
                self.fail_to_connect(index, io::ErrorKind::TimedOut.into());
            }
            Phase::Open | Phase::Ending | Phase::Closed => self.lose(index, Fault::Timeout),
        }
    }
}
