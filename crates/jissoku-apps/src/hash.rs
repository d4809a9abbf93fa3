//! Hashes of received bytes, for caches in which every key has one possible place.
//!
//! Such a cache needs no list that an attacker could make long: two keys with the same place
//! replace each other, which costs as much as a new key.

use std::hash::{BuildHasher, RandomState};

/// An odd number with well distributed bits: 2^64 divided by the golden ratio.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Makes all letters of eight bytes lower-case, and changes other bytes alike.
const LOWER: u64 = 0x2020_2020_2020_2020;

/// A seeded hash function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hasher {
    seed: u64,
}

impl Hasher {
    /// With a random seed.
    pub(crate) fn new() -> Self {
        Self { seed: RandomState::new().hash_one(0) }
    }

    /// The hash of all bytes.
    #[inline]
    pub(crate) fn hash(self, bytes: &[u8]) -> u64 {
        let (words, rest) = bytes.as_chunks::<16>();
        // Two independent chains of multiplications.
        let mut chains = [self.seed, self.seed ^ MULTIPLIER];
        for word in words {
            let (halves, _) = word.as_chunks::<8>();
            for (chain, half) in chains.iter_mut().zip(halves) {
                *chain = step(*chain, u64::from_le_bytes(*half));
            }
        }
        let mut last = [0; 16];
        last[..rest.len()].copy_from_slice(rest);
        let (halves, _) = last.as_chunks::<8>();
        let ends = chains.iter().zip(halves).map(|(&c, half)| step(c, u64::from_le_bytes(*half)));
        ends.fold(bytes.len() as u64, step)
    }

    /// A number below `size`, a power of two, for a header name. Case has no effect.
    #[inline]
    pub(crate) fn slot_of_name(self, name: &[u8], size: usize) -> usize {
        // The first and the last eight bytes distinguish nearly all names.
        let (first, last) = match (name.first_chunk::<8>(), name.last_chunk::<8>()) {
            (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
            _ => (name.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)), 0),
        };
        let chain = step(self.seed ^ name.len() as u64, first | LOWER);
        slot(step(chain, last | LOWER), size)
    }
}

/// A number below `size`, a power of two.
#[inline]
pub(crate) const fn slot(hash: u64, size: usize) -> usize {
    // The upper bits depend on all bits of the input.
    (hash >> 32) as usize & (size - 1)
}

#[inline]
const fn step(chain: u64, word: u64) -> u64 {
    (chain.rotate_left(23) ^ word).wrapping_mul(MULTIPLIER)
}

#[cfg(test)]
mod tests {
    use super::Hasher;

    #[test]
    fn the_hash_depends_on_every_byte_and_the_size() {
        let hasher = Hasher::new();
        let text = [b'x'; 100];
        for size in 0..100 {
            let whole = hasher.hash(&text[..size]);
            assert_ne!(whole, hasher.hash(&text[..=size]));
            for at in 0..size {
                let mut other = text;
                other[at] = b'y';
                assert_ne!(whole, hasher.hash(&other[..size]), "{at} of {size}");
            }
        }
    }

    #[test]
    fn the_hash_of_a_name_ignores_case() {
        let hasher = Hasher::new();
        assert_eq!(hasher.slot_of_name(b"X-Aa", 512), hasher.slot_of_name(b"x-aA", 512));
    }
}
