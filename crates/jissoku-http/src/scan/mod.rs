//! Finds the end of a run of allowed bytes: the inner loops of the parser, and its character
//! classes.
//!
//! `swar.rs` is portable and safe. A faster path has to be worth it, and is tested against it.
//! A `mod.rs`, because fuzz/targets/scan.rs includes this folder by its path.

#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
mod sse2;
pub(crate) mod swar;

#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
pub(crate) use sse2::{target_end, value_end};
#[cfg(not(all(target_arch = "x86_64", target_feature = "sse2")))]
pub(crate) use swar::{target_end, value_end};

/// One bit per character class.
const TOKEN: u8 = 1;
const HOST: u8 = 2;
const PLAIN_HOST: u8 = 4;

/// RFC 9110 section 5.6.2: `tchar`. And RFC 3986 section 3.2.2: what a registered name, an IPv4
/// address or a percent-encoded byte is made of.
const SETS: [u8; 256] = {
    let mut sets = [0; 256];
    let mut byte: u8 = 0;
    while byte < 128 {
        let is_letter = byte.is_ascii_alphanumeric();
        if is_letter || contains(b"!#$%&'*+-.^_`|~", byte) {
            sets[byte as usize] |= TOKEN;
        }
        if is_letter || contains(b"-._~!$&'()*+,;=%", byte) {
            sets[byte as usize] |= HOST;
            if byte != b'%' {
                sets[byte as usize] |= PLAIN_HOST;
            }
        }
        byte += 1;
    }
    sets
};

const fn contains(set: &[u8], byte: u8) -> bool {
    let mut index = 0;
    while index < set.len() {
        if set[index] == byte {
            return true;
        }
        index += 1;
    }
    false
}

/// Whether `byte` is allowed in a token.
pub(crate) const fn is_token(byte: u8) -> bool {
    SETS[byte as usize] & TOKEN != 0
}

/// Whether `byte` is allowed in a host that is not an IP literal.
pub(crate) const fn is_host(byte: u8) -> bool {
    SETS[byte as usize] & HOST != 0
}

/// As [`is_host`], without `%`, which depends on the following bytes.
pub(crate) const fn is_plain_host(byte: u8) -> bool {
    SETS[byte as usize] & PLAIN_HOST != 0
}

/// The number of leading token bytes.
pub(crate) fn token_end(bytes: &[u8]) -> usize {
    bytes.iter().position(|&byte| !is_token(byte)).unwrap_or(bytes.len())
}

/// Whether `text` is a token (RFC 9110 section 5.6.2), such as the name of a field or of a method.
pub fn is_whole_token(text: &[u8]) -> bool {
    !text.is_empty() && token_end(text) == text.len()
}

#[cfg(test)]
mod tests;
