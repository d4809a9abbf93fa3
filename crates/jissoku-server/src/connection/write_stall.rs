//! Detects clients that do not read their responses.

use crate::limits::Limits;

/// Progress of a client while output is unsent, sampled once a second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WriteStall {
    /// When the stall began, or 0.
    since_ns: u64,
    /// Bytes sent since then, as far as they count for the rate.
    taken: u64,
    /// Unsent bytes at the last sample.
    unsent: usize,
    /// When some of them were sent.
    progress_ns: u64,
}

impl WriteStall {
    /// `size` bytes were added to the output, so that they do not hide what the client has taken.
    pub(super) const fn add_unsent(&mut self, size: usize) {
        self.unsent += size;
    }

    /// Whether the client pauses for too long or reads too slowly, with `unsent` bytes left.
    pub(super) const fn is_too_long(
        &mut self,
        unsent: usize,
        now_ns: u64,
        limits: &Limits,
    ) -> bool {
        if unsent == 0 {
            self.since_ns = 0;
            return false;
        }
        if self.since_ns == 0 {
            *self = Self { since_ns: now_ns, taken: 0, unsent, progress_ns: now_ns };
        }
        if unsent < self.unsent {
            self.progress_ns = now_ns;
        }
        // `unsent` may have grown: by the framing of TLS, for example.
        self.taken += self.unsent.saturating_sub(unsent) as u64;
        self.unsent = unsent;
        let elapsed_ns = now_ns - self.since_ns;
        let is_too_slow = now_ns - self.progress_ns > limits.pause_ns_max
            || limits.is_too_slow(self.taken, elapsed_ns);
        let counted_max = limits.counted_size_max(elapsed_ns);
        if self.taken > counted_max {
            self.taken = counted_max;
        }
        is_too_slow
    }
}
