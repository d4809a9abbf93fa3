//! Due times of the open loop: a function of the plan, fixed before anything is sent.

use std::cmp::Ordering;

use crate::engine::random::Random;
use crate::plan::pace::Rate;
use crate::plan::trace::TraceSchedule;

const SECOND_NS: f64 = 1e9;

/// The offered rate over time, on one target and over all workers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateProfile {
    pub(crate) origin_ns: u64,
    /// The first rate holds for this time.
    pub(crate) flat_ns: u64,
    pub(crate) from: Rate,
    pub(crate) to: Rate,
    /// Then the rate changes linearly for this time, and the second rate holds.
    pub(crate) ramp_ns: u64,
}

/// The due times of one worker on one target, in ascending order.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Schedule<'a> {
    Constant(ConstantSchedule),
    Poisson(PoissonSchedule),
    Trace(TraceSchedule<'a>),
    Slice(SliceSchedule),
}

impl Schedule<'_> {
    /// Removes and returns the next due time.
    pub(crate) fn pop(&mut self) -> u64 {
        match self {
            Self::Constant(constant) => {
                constant.taken += 1;
                constant.due_ns(constant.taken - 1)
            }
            Self::Poisson(poisson) => poisson.pop(),
            Self::Trace(replay) => replay.pop(),
            Self::Slice(slice) => slice.pop(),
        }
    }

    /// Calls `report` with each due time up to `now_ns`, at most `limit` of them, without removing
    /// any. Of very many, neighbours are reported as one: the second argument is their number.
    pub(crate) fn for_each_due(&self, now_ns: u64, limit: u64, mut report: impl FnMut(u64, u64)) {
        match self {
            Self::Constant(constant) => {
                let count = constant.count_until(now_ns).min(limit);
                let step = count / DUE_EXACT_MAX + 1;
                for first in (0..count).step_by(usize::try_from(step).unwrap_or(usize::MAX)) {
                    report(constant.due_ns(constant.taken + first), step.min(count - first));
                }
            }
            Self::Poisson(_) | Self::Trace(_) | Self::Slice(_) => {
                let mut ahead = *self;
                for _ in 0..limit {
                    let due_ns = ahead.pop();
                    if due_ns > now_ns {
                        return;
                    }
                    report(due_ns, 1);
                }
            }
        }
    }
}

impl RateProfile {
    /// When `slot` is due, with `targets` slots per request.
    fn due_ns(&self, slot: u64, targets: usize) -> u64 {
        let after_ns = if self.from == self.to {
            self.from.time_ns(slot, targets as u64)
        } else {
            self.after_ns(float(slot) / float(targets as u64))
        };
        self.origin_ns.saturating_add(after_ns)
    }

    /// The time at which `count` requests are due: the rate's integral, solved for time.
    fn after_ns(&self, count: f64) -> u64 {
        let (from, to) = (self.from.rps(), self.to.rps());
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

/// Beyond this number of due times, neighbours are reported together.
const DUE_EXACT_MAX: u64 = 1 << 20;

/// Poisson arrivals. Those of several workers add up to a Poisson process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoissonSchedule {
    profile: RateProfile,
    threads: f64,
    random: Random,
    /// The expected number of requests up to the next one.
    expected: f64,
}

impl PoissonSchedule {
    pub(crate) fn new(profile: RateProfile, place: &ConstantSchedule) -> Self {
        let place_of_its_own = (place.target * place.threads + place.thread) as u64 + 1;
        let mut random = Random::new(place.seed ^ place_of_its_own.wrapping_mul(GOLDEN));
        let expected = random.exponential();
        Self { profile, threads: float(place.threads as u64), random, expected }
    }

    fn pop(&mut self) -> u64 {
        // The k-th arrival of a unit-rate process is moved to where as many requests are expected
        // in total.
        let after_ns = self.profile.after_ns(self.expected * self.threads);
        self.expected += self.random.exponential();
        self.profile.origin_ns.saturating_add(after_ns)
    }
}

/// 2^64 divided by the golden ratio; its multiples are well spread.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Evenly spaced due times of one worker on one target, in closed form.
///
/// Time is divided into rounds of one request per target. The requests of all rounds are evenly
/// spaced, and the order within each round is random, so that no target always follows another.
/// Workers take rounds in turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConstantSchedule {
    pub(crate) profile: RateProfile,
    pub(crate) target: usize,
    pub(crate) targets: usize,
    pub(crate) thread: usize,
    pub(crate) threads: usize,
    pub(crate) seed: u64,
    /// Requests removed from the schedule.
    pub(crate) taken: u64,
}

impl ConstantSchedule {
    /// When request `index` of this worker on this target is due.
    fn due_ns(&self, index: u64) -> u64 {
        let round = index * self.threads as u64 + self.thread as u64;
        let slot = round * self.targets as u64 + self.place(round) as u64;
        self.profile.due_ns(slot, self.targets)
    }

    /// The position of this target in a round: a Fisher-Yates shuffle seeded by seed and round.
    fn place(&self, round: u64) -> usize {
        let mut random = Random::new(self.seed ^ round.wrapping_mul(0xd6e8_feb8_6659_fd93));
        let mut place = self.target;
        for last in (1..self.targets).rev() {
            let other = random.below(last + 1);
            // Only this target's path through the swaps matters.
            if place == last {
                place = other;
            } else if place == other {
                place = last;
            }
        }
        place
    }

    /// How many of the remaining requests are due by `now_ns`.
    fn count_until(&self, now_ns: u64) -> u64 {
        // Due times are ascending: binary search.
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

/// The due times of one slice: `count` evenly spaced requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SliceSchedule {
    pub(crate) began_ns: u64,
    pub(crate) rate: Rate,
    pub(crate) count: u64,
    /// Requests taken from the schedule.
    pub(crate) taken: u64,
}

impl SliceSchedule {
    /// When request `index` of the slice is due; `u64::MAX` after its end.
    pub(crate) fn due_ns(&self, index: u64) -> u64 {
        if index < self.count { self.began_ns + self.rate.time_ns(index, 1) } else { u64::MAX }
    }

    /// Removes and returns the next due time.
    pub(crate) fn pop(&mut self) -> u64 {
        let due_ns = self.due_ns(self.taken);
        self.taken = self.taken.saturating_add(1);
        due_ns
    }

    /// When the slice ends, if its last response has come by then.
    pub(crate) fn ends_ns(&self) -> u64 {
        self.began_ns + self.rate.time_ns(self.count, 1)
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
