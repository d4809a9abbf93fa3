//! The masking of a WebSocket client's frames (RFC 6455 section 5.3).
//!
//! Each frame has a new key from the generator of the plan's seed. It is not a cryptographic one, as
//! the RFC asks for: keys protect intermediaries from pages in a browser, which there are none of here.

/// Size of a masking key, which precedes the payload.
pub(crate) const KEY_SIZE: usize = 4;

/// Changes the masking key at the front of `masked`, and the payload behind it, by a random number.
///
/// The same four bytes change (XOR) the key and the payload: if the old key was valid, so is the new one,
/// and it is as random as the number. A key of zero leaves the payload as it is.
#[inline]
pub(crate) fn remask(masked: &mut [u8], random: u64) {
    let bytes = random.to_ne_bytes();
    let change = [bytes[0], bytes[1], bytes[2], bytes[3]];
    let (words, rest) = masked.as_chunks_mut::<KEY_SIZE>();
    for word in words {
        *word = (u32::from_ne_bytes(*word) ^ u32::from_ne_bytes(change)).to_ne_bytes();
    }
    rest.iter_mut().zip(change).for_each(|(byte, change)| *byte ^= change);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_new_key_leaves_the_payload(
            payload in proptest::collection::vec(any::<u8>(), 0..70),
            keys in proptest::collection::vec(any::<u64>(), 1..4),
        ) {
            let mut masked = [&[0; KEY_SIZE], &payload[..]].concat();
            for key in keys {
                remask(&mut masked, key);
                let (key, bytes) = masked.split_at(KEY_SIZE);
                let plain = bytes.iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key);
                prop_assert_eq!(plain.collect::<Vec<_>>(), payload.clone());
            }
        }
    }
}
