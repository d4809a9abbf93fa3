//! The decisions of a case, from a list of bytes, and the number of cases.

use proptest::prelude::*;

/// Those of proptest.
const DEFAULT_CASES: u32 = 256;

/// Takes decisions from the bytes of a case; when they are used up, always the first.
#[derive(Debug)]
pub(super) struct Choices<'a>(std::slice::Iter<'a, u8>);

impl<'a> Choices<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes.iter())
    }

    /// A number below `count`.
    pub(super) fn below(&mut self, count: usize) -> usize {
        usize::from(self.0.next().copied().unwrap_or_default()) % count.max(1)
    }

    /// True once in `count` times.
    pub(super) fn rarely(&mut self, count: usize) -> bool {
        self.below(count) + 1 == count
    }

    /// A size up to `max`, which is often a small one or `max` itself.
    pub(super) fn size(&mut self, max: usize) -> usize {
        match self.below(4) {
            0 => max,
            1 => max.min(1 + self.below(16)),
            _ => max.min(1 + self.below(256) * max / 256),
        }
    }

    pub(super) fn is_used_up(&self) -> bool {
        self.0.len() == 0
    }
}

/// The number of cases: `cases`, or that of `PROPTEST_CASES` if it is set, in units of `cost`.
pub(super) fn config(cases: u32, cost: u32) -> ProptestConfig {
    let default = ProptestConfig::default();
    let is_set = default.cases != DEFAULT_CASES;
    let cases = if is_set { default.cases.div_ceil(cost) } else { cases };
    ProptestConfig { cases, failure_persistence: None, ..default }
}
