//! When is a request to be sent? In the closed loop when the last one was answered; in the open loop at
//! a time that was fixed before anything was sent, whatever the server does.

/// How often requests are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Each connection asks again as soon as it was answered.
    Closed,
    /// So many requests per second and lane, evenly spaced.
    Constant {
        /// Requests per second on each lane.
        rate_rps: u64,
    },
}

/// The due times of one thread's requests on one lane, in closed form.
///
/// Time is cut into rounds of one request per lane. The requests of all rounds are evenly spaced, and
/// who comes first within a round is drawn anew each time, so that no server always follows another.
/// Threads take rounds in turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    pub(crate) origin_ns: u64,
    pub(crate) rate_rps: u64,
    pub(crate) lane: usize,
    pub(crate) lanes: usize,
    pub(crate) thread: usize,
    pub(crate) threads: usize,
    pub(crate) seed: u64,
}

impl Schedule {
    /// When this thread's request `index` on this lane is due.
    pub(crate) fn due_ns(&self, index: u64) -> u64 {
        let round = index * self.threads as u64 + self.thread as u64;
        let slot = round * self.lanes as u64 + self.place(round) as u64;
        let slots_per_second = u128::from(self.rate_rps) * self.lanes as u128;
        let after_ns = u128::from(slot) * 1_000_000_000 / slots_per_second;
        self.origin_ns.saturating_add(u64::try_from(after_ns).unwrap_or(u64::MAX))
    }

    /// Where this lane stands in a round: a shuffle (Fisher and Yates) that depends on seed and round alone.
    fn place(&self, round: u64) -> usize {
        let mut random = Random(self.seed ^ round.wrapping_mul(0xd6e8_feb8_6659_fd93));
        let mut place = self.lane;
        for last in (1..self.lanes).rev() {
            let other = random.below(last + 1);
            // Only the way of our own lane through the swaps matters.
            if place == last {
                place = other;
            } else if place == other {
                place = last;
            }
        }
        place
    }
}

/// `SplitMix64`: small, and its output is fixed for all time by its constants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, each equally likely up to one part in 2^64 / `bound`.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the product's upper half is below `bound`"
    )]
    fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Schedule = Schedule {
        origin_ns: 1_000,
        rate_rps: 1_000,
        lane: 0,
        lanes: 1,
        thread: 0,
        threads: 1,
        seed: 7,
    };

    #[test]
    fn one_lane_is_evenly_spaced_and_never_drifts() {
        for index in [0, 1, 2, 1_000_000_007] {
            assert_eq!(ONE.due_ns(index), 1_000 + index * 1_000_000);
        }
        let thirds = Schedule { rate_rps: 3, ..ONE };
        assert_eq!(thirds.due_ns(3_000_000), 1_000 + 1_000_000 * 1_000_000_000);
    }

    #[test]
    fn threads_share_one_schedule() {
        let of = |thread, index| Schedule { thread, threads: 3, ..ONE }.due_ns(index);
        let mut due: Vec<u64> = (0..3).flat_map(|thread| [of(thread, 0), of(thread, 1)]).collect();
        due.sort_unstable();
        assert_eq!(due, (0..6).map(|index| ONE.due_ns(index)).collect::<Vec<_>>());
    }

    #[test]
    fn every_round_holds_each_lane_once_in_an_order_of_its_own() {
        for lanes in 1..6 {
            let mut firsts = vec![0_u32; lanes];
            for round in 0..6_000_u64 {
                let mut places: Vec<usize> =
                    (0..lanes).map(|lane| Schedule { lane, lanes, ..ONE }.place(round)).collect();
                firsts[places.iter().position(|&place| place == 0).expect("somebody is first")] +=
                    1;
                places.sort_unstable();
                assert_eq!(places, (0..lanes).collect::<Vec<_>>());
            }
            let fair = 6_000 / u32::try_from(lanes).expect("few lanes");
            assert!(firsts.iter().all(|first| first.abs_diff(fair) < 300), "{firsts:?}");
        }
    }

    #[test]
    fn two_lanes_together_are_evenly_spaced() {
        let of = |lane, index| Schedule { lane, lanes: 2, ..ONE }.due_ns(index);
        let mut due: Vec<u64> = (0..50).flat_map(|index| [of(0, index), of(1, index)]).collect();
        due.sort_unstable();
        assert!(due.windows(2).all(|pair| pair[1] - pair[0] == 500_000));
    }

    #[test]
    fn the_seed_decides_the_order() {
        let order = |seed| {
            (0..64).map(|round| Schedule { lanes: 2, seed, ..ONE }.place(round)).collect::<Vec<_>>()
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
    }
}
