//! The due times of the open loop: a function of the plan alone, fixed before anything was sent.

use std::cmp::Ordering;

use crate::random::Random;
use crate::trace::Replay;

const SECOND_NS: f64 = 1e9;

/// How many requests are due by when, on one lane and over all threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    pub(crate) origin_ns: u64,
    /// So long the first rate holds.
    pub(crate) flat_ns: u64,
    pub(crate) from_rps: u64,
    pub(crate) to_rps: u64,
    /// So long the rate changes after that, evenly; then the second rate holds.
    pub(crate) ramp_ns: u64,
}

/// One thread's due times on one lane, in ascending order.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Schedule<'a> {
    Even(Even),
    Drawn(Drawn),
    Replayed(Replay<'a>),
}

impl Schedule<'_> {
    /// The next due time; it is taken off the schedule.
    pub(crate) fn take(&mut self) -> u64 {
        match self {
            Self::Even(even) => {
                even.taken += 1;
                even.due_ns(even.taken - 1)
            }
            Self::Drawn(drawn) => drawn.take(),
            Self::Replayed(replay) => replay.take(),
        }
    }

    /// Tells `tell` of each due time up to `now_ns`, but of no more than `limit`, and takes none off. Of
    /// very many neighbours one speaks for all: the second argument says how many they are.
    pub(crate) fn until(&self, now_ns: u64, limit: u64, mut tell: impl FnMut(u64, u64)) {
        match self {
            Self::Even(even) => {
                let count = even.count_until(now_ns).min(limit);
                let step = count / SPOKESMEN_MAX + 1;
                for first in (0..count).step_by(usize::try_from(step).unwrap_or(usize::MAX)) {
                    tell(even.due_ns(even.taken + first), step.min(count - first));
                }
            }
            Self::Drawn(_) | Self::Replayed(_) => {
                let mut ahead = *self;
                for _ in 0..limit {
                    let due_ns = ahead.take();
                    if due_ns > now_ns {
                        return;
                    }
                    tell(due_ns, 1);
                }
            }
        }
    }
}

impl Offer {
    /// When `slot` of `lanes` slots to each request is due.
    fn due_ns(&self, slot: u64, lanes: usize) -> u64 {
        let after_ns = if self.from_rps == self.to_rps {
            // In whole numbers it does not drift, however long it goes on.
            let slots_per_second = u128::from(self.from_rps) * lanes as u128;
            let after_ns = u128::from(slot) * 1_000_000_000 / slots_per_second;
            u64::try_from(after_ns).unwrap_or(u64::MAX)
        } else {
            self.after_ns(float(slot) / float(lanes as u64))
        };
        self.origin_ns.saturating_add(after_ns)
    }

    /// How long after the beginning `count` requests are due: the rate's integral, solved for time.
    fn after_ns(&self, count: f64) -> u64 {
        let (from, to) = (float(self.from_rps), float(self.to_rps));
        let (flat_s, ramp_s) = (float(self.flat_ns) / SECOND_NS, float(self.ramp_ns) / SECOND_NS);
        let flat = from * flat_s;
        let ramp = f64::midpoint(from, to) * ramp_s;
        let after_s = if count <= flat {
            count / from
        } else if count <= flat + ramp {
            let rest = count - flat;
            let growth = (to - from) / ramp_s;
            flat_s + 2.0 * rest / (from + (from * from + 2.0 * growth * rest).max(0.0).sqrt())
        } else {
            flat_s + ramp_s + (count - flat - ramp) / to
        };
        nanoseconds(after_s * SECOND_NS)
    }
}

/// Of more due times than this, neighbours are told of together.
const SPOKESMEN_MAX: u64 = 1 << 20;

/// Due times with exponential gaps. Those of several threads together are of the same kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drawn {
    offer: Offer,
    threads: f64,
    random: Random,
    /// Requests that were to be expected up to the next one.
    expected: f64,
}

impl Drawn {
    pub(crate) fn new(offer: Offer, place: &Even) -> Self {
        let place_of_its_own = (place.lane * place.threads + place.thread) as u64 + 1;
        let mut random = Random::new(place.seed ^ place_of_its_own.wrapping_mul(GOLDEN));
        let expected = random.exponential();
        Self { offer, threads: float(place.threads as u64), random, expected }
    }

    fn take(&mut self) -> u64 {
        // The k-th of a process with rate one is moved to where so many requests are due in all.
        let after_ns = self.offer.after_ns(self.expected * self.threads);
        self.expected += self.random.exponential();
        self.offer.origin_ns.saturating_add(after_ns)
    }
}

/// 2^64 divided by the golden ratio: multiples of it have little in common.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Evenly spaced due times of one thread's requests on one lane, in closed form.
///
/// Time is cut into rounds of one request per lane. The requests of all rounds are evenly spaced, and
/// who comes first within a round is drawn anew each time, so that no server always follows another.
/// Threads take rounds in turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Even {
    pub(crate) offer: Offer,
    pub(crate) lane: usize,
    pub(crate) lanes: usize,
    pub(crate) thread: usize,
    pub(crate) threads: usize,
    pub(crate) seed: u64,
    /// Requests that have been taken off it.
    pub(crate) taken: u64,
}

impl Even {
    /// When this thread's request `index` on this lane is due.
    fn due_ns(&self, index: u64) -> u64 {
        let round = index * self.threads as u64 + self.thread as u64;
        let slot = round * self.lanes as u64 + self.place(round) as u64;
        self.offer.due_ns(slot, self.lanes)
    }

    /// Where this lane stands in a round: a shuffle (Fisher and Yates) that depends on seed and round alone.
    fn place(&self, round: u64) -> usize {
        let mut random = Random::new(self.seed ^ round.wrapping_mul(0xd6e8_feb8_6659_fd93));
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

    /// How many of those that are left are due by `now_ns`.
    fn count_until(&self, now_ns: u64) -> u64 {
        // Due times only grow: halve the distance.
        let (mut below, mut above) = (0, 1_u64 << 40);
        while below < above {
            let middle = below + (above - below) / 2;
            match self.due_ns(self.taken + middle).cmp(&now_ns) {
                Ordering::Less | Ordering::Equal => below = middle + 1,
                Ordering::Greater => above = middle,
            }
        }
        below
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts and times stay below 2^53")]
fn float(value: u64) -> f64 {
    value as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "times are positive, and the cast keeps to the largest number"
)]
fn nanoseconds(value: f64) -> u64 {
    value as u64
}

#[cfg(test)]
mod tests;
