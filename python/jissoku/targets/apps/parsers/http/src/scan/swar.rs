//! Scans 8 bytes at a time in a register (SWAR), without `unsafe`.

const LOW: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// The number of leading bytes that are allowed in a field value: HTAB, SP, VCHAR and `obs-text`
/// (RFC 9110 section 5.5).
pub(crate) fn value_end(bytes: &[u8]) -> usize {
    let is_value = |byte: u8| byte == b'\t' || (byte >= b' ' && byte != 0x7f);
    run(bytes, |word| below(word, b' ') | equal(word, 0x7f), is_value)
}

/// The number of leading bytes that are allowed in a request target: VCHAR.
pub(crate) fn target_end(bytes: &[u8]) -> usize {
    let is_target = |byte: u8| byte > b' ' && byte < 0x7f;
    run(bytes, |word| below(word, b'!') | equal(word, 0x7f) | (word & HIGH), is_target)
}

/// `suspects` sets the high bit of every byte that may end the run. It may also mark bytes *above*
/// a true one, never below; `allowed` decides on the lowest.
fn run(bytes: &[u8], suspects: impl Fn(u64) -> u64, allowed: impl Fn(u8) -> bool) -> usize {
    let mut at = 0;
    while let Some((block, _)) = bytes[at..].split_first_chunk::<8>() {
        let marks = suspects(u64::from_le_bytes(*block));
        if marks == 0 {
            at += 8;
            continue;
        }
        at += marks.trailing_zeros() as usize / 8;
        if !allowed(bytes[at]) {
            return at;
        }
        at += 1;
    }
    at + bytes[at..].iter().position(|&byte| !allowed(byte)).unwrap_or(bytes.len() - at)
}

/// Marks bytes below `limit`, which is at most 128.
const fn below(word: u64, limit: u8) -> u64 {
    word.wrapping_sub(LOW * limit as u64) & !word & HIGH
}

/// Marks bytes equal to `byte`.
const fn equal(word: u64, byte: u8) -> u64 {
    below(word ^ (LOW * byte as u64), 1)
}
