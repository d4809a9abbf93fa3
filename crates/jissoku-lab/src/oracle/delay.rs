//! Response delays, drawn from a seeded distribution that does not depend on the load.

/// A distribution of service times, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Delay {
    /// Constant.
    Constant(u64),
    /// Each time from 0 to this one as likely as any other.
    Uniform(u64),
    /// Exponential, by its mean.
    Exponential(u64),
    /// Lognormal, by its median and the standard deviation of its logarithm.
    Lognormal(u64, f64),
    /// The first time with this probability, else the second.
    Bimodal(f64, u64, u64),
    /// The first time for this many requests, then the second.
    Step(u64, u64, u64),
    /// The second time for every n-th request, the first for all others.
    Every(u64, u64, u64),
}

impl Delay {
    /// The time of request `number`, counted from 0.
    pub(crate) fn draw(self, rng: &mut Rng, number: u64) -> u64 {
        match self {
            Self::Constant(time) => time,
            Self::Uniform(most) => scaled(most, rng.fraction()),
            Self::Exponential(mean) => scaled(mean, -rng.fraction().ln()),
            Self::Lognormal(median, sigma) => scaled(median, (sigma * rng.normal()).exp()),
            Self::Bimodal(share, first, second) => {
                if rng.fraction() <= share {
                    first
                } else {
                    second
                }
            }
            Self::Step(count, first, second) => {
                if number < count {
                    first
                } else {
                    second
                }
            }
            Self::Every(count, first, second) => {
                if (number + 1).is_multiple_of(count.max(1)) {
                    second
                } else {
                    first
                }
            }
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a time is positive and far below 2^53 ns; Rust's casts saturate"
)]
fn scaled(time: u64, factor: f64) -> u64 {
    (time as f64 * factor) as u64
}

/// `SplitMix64` (Steele, Lea and Flood, OOPSLA 2014).
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Uniform above 0, up to 1, so that the logarithm is finite.
    #[expect(clippy::cast_precision_loss, reason = "the number has 53 bits")]
    pub(crate) fn fraction(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Standard normal (Box and Muller); the second value of the pair is discarded.
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.fraction().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.fraction()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Compares quantiles of 200,000 draws at `points` with `expected`, within 2 %.
    fn check(delay: Delay, points: &[f64], expected: &[f64]) {
        let mut rng = Rng::new(7);
        let mut drawn: Vec<u64> = (0..200_000).map(|number| delay.draw(&mut rng, number)).collect();
        drawn.sort_unstable();
        for (point, expected) in points.iter().zip(expected) {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_precision_loss,
                clippy::cast_sign_loss,
                reason = "an index of 200,000"
            )]
            let found = drawn[(point * drawn.len() as f64) as usize] as f64 / 1e6;
            assert!((found / expected - 1.0).abs() < 0.02, "{delay:?} {point}: {found}");
        }
    }

    #[test]
    fn draws_have_the_quantiles_of_their_distribution() {
        check(Delay::Constant(10 * MS), &[0.0, 0.99], &[10.0, 10.0]);
        check(Delay::Uniform(10 * MS), &[0.5, 0.99], &[5.0, 9.9]);
        check(Delay::Exponential(10 * MS), &[0.5, 0.9, 0.99], &[6.931, 23.03, 46.05]);
        check(Delay::Lognormal(5 * MS, 0.8), &[0.5, 0.9, 0.99], &[5.0, 13.94, 32.15]);
        check(Delay::Bimodal(0.99, MS, 100 * MS), &[0.5, 0.98, 0.995], &[1.0, 1.0, 100.0]);
        check(Delay::Step(100_000, MS, 10 * MS), &[0.49, 0.51], &[1.0, 10.0]);
        check(Delay::Every(1000, MS, 9 * MS), &[0.998, 0.9991], &[1.0, 9.0]);
    }

    #[test]
    fn the_same_seed_gives_the_same_times() {
        let draw = |seed| Delay::Exponential(MS).draw(&mut Rng::new(seed), 0);
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3), draw(4));
    }
}
