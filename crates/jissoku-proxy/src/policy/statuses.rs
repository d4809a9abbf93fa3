//! A set of statuses of responses.

use std::ops::RangeInclusive;

/// The least status (RFC 9110 section 15).
const LEAST: u16 = 100;

/// Statuses from 100 to 599, one bit for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statuses([u64; 8]);

impl Statuses {
    /// No status.
    pub const NONE: Self = Self([0; 8]);

    /// Adds those of a range that are from 100 to 599.
    pub fn insert(&mut self, range: RangeInclusive<u16>) {
        for status in range {
            if let Some((word, bit)) = Self::place(status)
                && let Some(word) = self.0.get_mut(word)
            {
                *word |= bit;
            }
        }
    }

    /// Whether a status is one of them.
    #[inline]
    pub fn contains(&self, status: u16) -> bool {
        let place = Self::place(status);
        place.is_some_and(|(word, bit)| self.0.get(word).is_some_and(|word| word & bit != 0))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        *self == Self::NONE
    }

    /// The index of a status's word, and its bit.
    fn place(status: u16) -> Option<(usize, u64)> {
        let index = status.checked_sub(LEAST).filter(|index| *index < 500)?;
        Some((usize::from(index / 64), 1 << (index % 64)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_was_added() {
        let mut statuses = Statuses::default();
        assert!(statuses.is_empty() && !statuses.contains(503));
        statuses.insert(502..=504);
        statuses.insert(599..=700);
        statuses.insert(0..=100);
        let found: Vec<u16> = (0..=u16::MAX).filter(|status| statuses.contains(*status)).collect();
        assert_eq!(found, [100, 502, 503, 504, 599]);
        assert!(!statuses.is_empty());
    }
}
