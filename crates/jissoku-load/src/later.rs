//! What a closed loop puts off: think time between an answer and the next request, and the first request
//! of a connection while the load is ramped up.

use std::cmp::Reverse;

use crate::connection::{Phase, short};
use crate::plan::Think;
use crate::thread::Thread;

impl Thread<'_> {
    /// Lets a connection think before it asks again; false when nobody thinks here.
    #[inline]
    pub(crate) fn think(&mut self, index: usize, now_ns: u64) -> bool {
        let after_ns = match self.plan.think {
            Think::Never => return false,
            Think::Constant { think_ns } => think_ns,
            Think::Exponential { mean_ns } => scaled(mean_ns, self.random.exponential()),
        };
        self.put_off(index, now_ns.saturating_add(after_ns));
        true
    }

    /// Asks on a connection at `at_ns`, if it stands by then.
    pub(crate) fn put_off(&mut self, index: usize, at_ns: u64) {
        let connection = &mut self.connections[index];
        if !connection.queued {
            connection.queued = true;
            self.later.push(Reverse((at_ns, short(index))));
            self.next_mark_ns = self.next_mark_ns.min(at_ns);
        }
    }

    /// Asks on every connection whose time has come.
    pub(crate) fn take_up(&mut self, now_ns: u64) {
        while let Some(&Reverse((at_ns, index))) = self.later.peek() {
            if at_ns > now_ns {
                return;
            }
            let _done = self.later.pop();
            let index = index as usize;
            self.connections[index].queued = false;
            let found = &self.connections[index];
            // A connection that is being made asks as soon as it stands.
            if found.phase == Phase::Open && found.outstanding == 0 && found.unsent == 0 {
                let now_ns = self.clock.now_ns();
                self.send_batch(index, now_ns);
            }
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "both are positive, and the cast keeps to the largest number"
)]
fn scaled(mean_ns: u64, factor: f64) -> u64 {
    (mean_ns as f64 * factor) as u64
}
