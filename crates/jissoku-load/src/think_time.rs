//! Delays of the closed loop: think time between a response and the next request, and the first
//! request of a connection during ramp-up.

use crate::connection::ConnectionState;
use crate::plan::Think;
use crate::worker::Worker;

impl Worker<'_> {
    /// Delays the next request by the think time; false if there is none.
    #[inline]
    pub(crate) fn think(&mut self, index: usize, now_ns: u64) -> bool {
        let after_ns = match self.plan.think {
            Think::Never => return false,
            Think::Constant { think_ns } => think_ns,
            Think::Exponential { mean_ns } => scaled(mean_ns, self.random.exponential()),
        };
        self.delay(index, now_ns.saturating_add(after_ns));
        true
    }

    /// Sends the next request of a connection at `at_ns`, if it is established by then.
    pub(crate) fn delay(&mut self, index: usize, at_ns: u64) {
        let connection = &mut self.connections[index];
        if !connection.is_queued {
            connection.is_queued = true;
            self.timers.add_delayed(index, at_ns);
        }
    }

    /// Sends on all connections whose delay is over.
    pub(crate) fn send_delayed(&mut self, now_ns: u64) {
        while let Some(index) = self.timers.pop_delayed(now_ns) {
            self.connections[index].is_queued = false;
            let found = &self.connections[index];
            // A connection that is still being established sends as soon as it is.
            if found.state == ConnectionState::Open && found.outstanding == 0 && found.unsent == 0 {
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
