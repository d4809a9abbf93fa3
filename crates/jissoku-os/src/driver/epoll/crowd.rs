//! How many connections are likely to wait at a listener.
//!
//! Whoever takes connections until nobody is left asks once in vain each time, which for a connection that
//! came alone and asks once is one system call of six. Listeners are watched level-triggered: who is left
//! behind is reported again, and a crowd is found out by and by.

/// Connections taken per listener and turn; the rest wait until the others had theirs.
pub(super) const CROWD_MAX: usize = 64;

/// After so many turns in which all came that were expected, more are expected: one call in vain for so many
/// connections that come alone.
const FULL_TURNS: u32 = 16;

/// What one listener has seen lately.
#[derive(Debug, Clone, Copy)]
pub(super) struct Crowd {
    size: usize,
    full_turns: u32,
}

impl Crowd {
    pub(super) const fn new() -> Self {
        Self { size: 1, full_turns: 0 }
    }

    /// How many to take in this turn.
    pub(super) const fn size(self) -> usize {
        self.size
    }

    /// So many came.
    pub(super) fn learn(&mut self, came: usize) {
        if came < self.size {
            *self = Self { size: came.max(1), full_turns: 0 };
            return;
        }
        self.full_turns += 1;
        if self.full_turns == FULL_TURNS {
            *self = Self { size: (2 * self.size).min(CROWD_MAX), full_turns: 0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CROWD_MAX, Crowd, FULL_TURNS};

    /// Calls to accept, and connections that came, when `waiting` are there in each turn.
    fn calls(turns: u32, waiting: usize) -> (usize, usize) {
        let (mut crowd, mut asked, mut came) = (Crowd::new(), 0, 0);
        for _ in 0..turns {
            let taken = crowd.size().min(waiting);
            asked += taken + usize::from(taken < crowd.size());
            came += taken;
            crowd.learn(taken);
        }
        (asked, came)
    }

    #[test]
    fn who_comes_alone_is_seldom_asked_after_in_vain() {
        let turns = 100 * (FULL_TURNS + 1);
        let (asked, came) = calls(turns, 1);
        assert_eq!(came, turns as usize);
        assert_eq!(asked - came, 100);
    }

    #[test]
    fn a_crowd_is_taken_at_once_before_long() {
        let mut crowd = Crowd::new();
        for _ in 0..6 * FULL_TURNS {
            crowd.learn(crowd.size());
        }
        assert_eq!(crowd.size(), CROWD_MAX);
        crowd.learn(CROWD_MAX);
        assert_eq!(crowd.size(), CROWD_MAX);
    }

    #[test]
    fn when_nobody_came_one_is_expected() {
        let mut crowd = Crowd::new();
        crowd.learn(0);
        assert_eq!(crowd.size(), 1);
    }
}
