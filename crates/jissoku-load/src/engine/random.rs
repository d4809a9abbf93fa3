//! Reproducible random numbers.

/// `SplitMix64` (Steele, Lea and Flood, OOPSLA 2014); its constants fix its output for every
/// version.
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

    /// Exponentially distributed with mean one.
    #[expect(clippy::cast_precision_loss, reason = "the upper 53 bits are taken")]
    pub(crate) fn exponential(&mut self) -> f64 {
        // Above zero, up to one, so that the logarithm is finite.
        let uniform = ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        -uniform.ln()
    }

    /// Uniform below `bound`, with a bias of at most `bound` / 2^64.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the product's upper half is below `bound`"
    )]
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponential_numbers_have_their_mean_and_their_median() {
        let mut random = Random::new(3);
        let mut numbers: Vec<f64> = (0..100_000).map(|_| random.exponential()).collect();
        numbers.sort_by(f64::total_cmp);
        let mean = numbers.iter().sum::<f64>() / 100_000.0;
        assert!((mean - 1.0).abs() < 0.02, "{mean}");
        assert!((numbers[50_000] - std::f64::consts::LN_2).abs() < 0.02);
        assert!(numbers[0] >= 0.0 && numbers[99_999] < 40.0);
    }
}
