//! Adapts the number of accepts per wake-up to the load.
//!
//! Accepting until EAGAIN wastes one system call per wake-up, which is one of six for a connection
//! with a single request. Listeners are level-triggered: connections that are left are reported
//! again, and the budget grows under load.

/// Maximum number of accepts per listener and iteration.
const ACCEPT_BATCH_MAX: usize = 64;

/// After this many iterations that used up the budget, it is doubled. So single connections cost
/// one useless accept in this many.
const FULL_BATCHES: u32 = 16;

/// The budget of one listener.
#[derive(Debug, Clone, Copy)]
pub(super) struct AcceptBudget {
    limit: usize,
    full_batches: u32,
}

impl AcceptBudget {
    pub(super) const fn new() -> Self {
        Self { limit: 1, full_batches: 0 }
    }

    /// The number of accepts to try.
    pub(super) const fn limit(self) -> usize {
        self.limit
    }

    /// Records the number of accepted connections.
    pub(super) fn update(&mut self, came: usize) {
        if came < self.limit {
            *self = Self { limit: came.max(1), full_batches: 0 };
            return;
        }
        self.full_batches += 1;
        if self.full_batches == FULL_BATCHES {
            *self = Self { limit: (2 * self.limit).min(ACCEPT_BATCH_MAX), full_batches: 0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ACCEPT_BATCH_MAX, AcceptBudget, FULL_BATCHES};

    /// Calls to accept, and connections that came, when `waiting` are there in each turn.
    fn connection_events(turns: u32, waiting: usize) -> (usize, usize) {
        let (mut budget, mut asked, mut came) = (AcceptBudget::new(), 0, 0);
        for _ in 0..turns {
            let taken = budget.limit().min(waiting);
            asked += taken + usize::from(taken < budget.limit());
            came += taken;
            budget.update(taken);
        }
        (asked, came)
    }

    #[test]
    fn who_comes_alone_is_seldom_asked_after_spurious() {
        let turns = 100 * (FULL_BATCHES + 1);
        let (asked, came) = connection_events(turns, 1);
        assert_eq!(came, turns as usize);
        assert_eq!(asked - came, 100);
    }

    #[test]
    fn many_connections_are_soon_accepted_in_one_batch() {
        let mut budget = AcceptBudget::new();
        for _ in 0..6 * FULL_BATCHES {
            budget.update(budget.limit());
        }
        assert_eq!(budget.limit(), ACCEPT_BATCH_MAX);
        budget.update(ACCEPT_BATCH_MAX);
        assert_eq!(budget.limit(), ACCEPT_BATCH_MAX);
    }

    #[test]
    fn after_no_connection_one_is_expected() {
        let mut budget = AcceptBudget::new();
        budget.update(0);
        assert_eq!(budget.limit(), 1);
    }
}
