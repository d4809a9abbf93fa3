//! Does a client take its answers?

use crate::worker::Desk;

/// What has been seen of a peer that leaves answers lying. It is looked at once a second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stall {
    /// Since when, or 0.
    since_ns: u64,
    /// How many bytes have gone since.
    taken: usize,
    /// How many lay there the last time.
    unsent: usize,
}

impl Stall {
    /// Whether answers, of which `unsent` bytes still lie here, are taken too slowly for too long.
    pub(super) const fn is_too_long(&mut self, unsent: usize, desk: &Desk) -> bool {
        if unsent == 0 {
            self.since_ns = 0;
            return false;
        }
        let now_ns = desk.now_ns();
        if self.since_ns == 0 {
            *self = Self { since_ns: now_ns, taken: 0, unsent };
        }
        // More can lie there than before, when a delay has ended in between.
        self.taken += self.unsent.saturating_sub(unsent);
        self.unsent = unsent;
        desk.limits().is_too_slow(self.taken as u64, now_ns - self.since_ns)
    }
}
