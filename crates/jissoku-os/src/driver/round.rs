//! Going round all connections, a few at a turn, so that nobody waits while a hundred thousand are looked at.

/// Connections that are looked at before others have their turn: some ten microseconds of work.
const STEP: usize = 128;

/// A way round the numbers of connections. It ends where it began, however many there are by then.
#[derive(Debug, Default)]
pub(super) struct Round {
    /// The next number.
    next: usize,
    /// Numbers that are still to come.
    left: usize,
}

impl Round {
    /// Visits everybody of `count`, from where it stands.
    pub(super) const fn begin(&mut self, count: usize) {
        self.left = count;
    }

    /// Whether somebody has not been visited yet.
    pub(super) const fn is_under_way(&self) -> bool {
        self.left > 0
    }

    /// The numbers to visit in this turn, when there are `count`.
    pub(super) fn step(&mut self, count: usize) -> impl Iterator<Item = usize> + use<> {
        let first = if self.next < count { self.next } else { 0 };
        let size = STEP.min(self.left).min(count);
        let last = first + size;
        self.next = if last < count { last } else { last - count };
        self.left = if count == 0 { 0 } else { self.left - size };
        (first..last).map(move |number| if number < count { number } else { number - count })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goes round once and returns who was visited at each turn.
    fn go(round: &mut Round, count: usize) -> Vec<Vec<usize>> {
        round.begin(count);
        let mut turns = Vec::new();
        while round.is_under_way() {
            turns.push(round.step(count).collect());
        }
        turns
    }

    #[test]
    fn everybody_is_visited_once_and_a_few_at_a_turn() {
        let mut round = Round::default();
        for count in [0, 1, 127, 128, 129, 1_000, 5, 1_000] {
            let turns = go(&mut round, count);
            assert!(turns.iter().all(|turn| !turn.is_empty() && turn.len() <= STEP), "{turns:?}");
            let mut visited = turns.concat();
            visited.sort_unstable();
            assert_eq!(visited, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn who_comes_meanwhile_does_not_make_it_longer() {
        let mut round = Round::default();
        round.begin(1_000);
        let visits: usize = (0..8).map(|more| round.step(1_000 + 1_000 * more).count()).sum();
        assert_eq!((visits, round.is_under_way()), (1_000, false));
    }

    #[test]
    fn nobody_being_left_ends_it() {
        let mut round = Round::default();
        round.begin(10);
        assert_eq!(round.step(0).count(), 0);
        assert!(!round.is_under_way());
    }
}
