//! Compression of messages (RFC 7692) without context takeover: every message is compressed
//! independently, so that one compressor serves all connections of a worker and an idle one needs
//! none.

use std::collections::BTreeSet;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use super::failure::{Failure, code};

/// The end of every compressed message, which is not sent (RFC 7692 section 7.2.1).
const TAIL: [u8; 4] = [0, 0, 0xff, 0xff];

/// The response to an offer that is accepted.
pub(super) const ACCEPTED: &str =
    "permessage-deflate; server_no_context_takeover; client_no_context_takeover";

/// Compresses and decompresses single messages.
#[derive(Debug)]
pub(super) struct Deflate {
    compress: Compress,
    decompress: Decompress,
}

impl Default for Deflate {
    fn default() -> Self {
        Self { compress: compressor(), decompress: Decompress::new(false) }
    }
}

fn compressor() -> Compress {
    Compress::new(Compression::fast(), false)
}

/// An upper bound of the size of a compressed message: a literal has at most 9 bits (RFC 1951
/// section 3.2.6), and there are a few bytes for blocks.
const fn size_max_of(message_size: usize) -> usize {
    message_size + message_size / 8 + 64
}

impl Deflate {
    /// A compressed message, or `None` if it is no smaller.
    pub(super) fn compress(&mut self, message: &[u8]) -> Option<Vec<u8>> {
        self.compress.reset();
        let mut output = Vec::with_capacity(size_max_of(message.len()));
        let capacity = output.capacity();
        let status = self.compress.compress_vec(message, &mut output, FlushCompress::Sync);
        if status.is_err() || output.len() == capacity {
            // In zlib-rs, `reset` leaves less room for output than its level 1 assumes, unless all
            // output was taken.
            self.compress = compressor();
            return None;
        }
        let size = output.len().checked_sub(TAIL.len())?;
        if size >= message.len() || !output.ends_with(&TAIL) {
            return None;
        }
        output.truncate(size);
        Some(output)
    }

    /// A message of at most `size_max` bytes.
    pub(super) fn decompress(&mut self, bytes: &[u8], size_max: usize) -> Result<Vec<u8>, Failure> {
        let invalid = Failure(code::INVALID_TEXT, "invalid compressed data");
        self.decompress.reset(false);
        let mut output = Vec::new();
        for input in [bytes, &TAIL] {
            let mut rest = input;
            loop {
                output.reserve((rest.len() * 3).clamp(1024, 64 * 1024));
                let (before, size) = (self.decompress.total_in(), output.len());
                let status =
                    self.decompress.decompress_vec(rest, &mut output, FlushDecompress::Sync);
                let used = usize::try_from(self.decompress.total_in() - before);
                rest = used.ok().and_then(|used| rest.get(used..)).unwrap_or_default();
                if output.len() > size_max {
                    return Err(Failure(code::TOO_BIG, "the message is too big"));
                }
                // A call may end before the output is full or the input is used up.
                let has_progress = used.is_ok_and(|used| used > 0) || output.len() > size;
                match status {
                    Ok(Status::StreamEnd) => return Ok(output),
                    Ok(_) if has_progress => {}
                    Ok(_) if rest.is_empty() => break,
                    Ok(_) | Err(_) => return Err(invalid),
                }
            }
        }
        Ok(output)
    }
}

/// Whether one of the offers of the values of `Sec-WebSocket-Extensions` can be accepted.
pub(super) fn is_acceptable<'a, I: IntoIterator<Item = &'a [u8]>>(offers: I) -> bool {
    offers.into_iter().any(|offer| {
        let mut parts = offer.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
        let mut names = BTreeSet::new();
        parts.next() == Some(b"permessage-deflate")
            && parts.all(|part| {
                let end = part.iter().position(|&byte| byte == b'=').unwrap_or(part.len());
                let (name, value) = part.split_at(end);
                // One that occurs twice makes an offer invalid (RFC 7692 section 7.1).
                names.insert(name) && is_parameter(name, value)
            })
    })
}

/// Whether a parameter of an offer is valid and can be kept; `value` begins with `=`, if there is
/// one.
fn is_parameter(name: &[u8], value: &[u8]) -> bool {
    let value =
        value.strip_prefix(b"=\"").and_then(|text| text.strip_suffix(b"\"")).or_else(|| {
            // Without quotes.
            value.strip_prefix(b"=")
        });
    match (name, value) {
        // A smaller window of ours cannot be promised.
        (b"server_max_window_bits", Some(bits)) => bits == b"15",
        (
            b"server_no_context_takeover"
            | b"client_no_context_takeover"
            | b"client_max_window_bits",
            None,
        ) => true,
        (b"client_max_window_bits", Some(bits)) => {
            matches!(bits, b"8" | b"9" | b"10" | b"11" | b"12" | b"13" | b"14" | b"15")
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{Deflate, is_acceptable};

    /// Bytes that no compressor makes smaller, by xorshift.
    fn random_bytes(size: usize) -> Vec<u8> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[4]
        };
        std::iter::repeat_with(next).take(size).collect()
    }

    #[test]
    fn incompressible_messages_do_not_affect_later_ones() {
        let mut deflate = Deflate::default();
        for size in [64, 125, 65_536, 125, 1_000_000] {
            assert_eq!(deflate.compress(&random_bytes(size)), None, "{size}");
        }
        let message = b"jissoku".repeat(100_000);
        let compressed = deflate.compress(&message).expect("it is smaller");
        assert_eq!(deflate.decompress(&compressed, message.len()), Ok(message));
    }

    #[test]
    fn offers_with_unsupported_parameters_are_declined() {
        for (offers, expected) in [
            (vec!["permessage-deflate"], true),
            (vec!["permessage-deflate; client_max_window_bits"], true),
            (vec!["permessage-deflate; client_max_window_bits=9"], true),
            (vec!["permessage-deflate; server_max_window_bits=10"], false),
            (vec!["permessage-deflate; server_max_window_bits=10", "permessage-deflate"], true),
            (vec!["permessage-deflate; client_max_window_bits=\"15\""], true),
            (vec!["permessage-deflate; client_max_window_bits=7"], false),
            (vec!["permessage-deflate; client_max_window_bits=99"], false),
            (vec!["permessage-deflate; client_max_window_bits="], false),
            (vec!["permessage-deflate; server_max_window_bits"], false),
            (vec!["permessage-deflate; server_no_context_takeover=1"], false),
            (
                vec!["permessage-deflate; client_no_context_takeover; client_no_context_takeover"],
                false,
            ),
            (vec!["permessage-deflate; unknown"], false),
            (vec!["x-webkit-deflate-frame"], false),
            (vec![], false),
        ] {
            let bytes = offers.iter().map(|offer| offer.as_bytes());
            assert_eq!(is_acceptable(bytes), expected, "{offers:?}");
        }
    }
}
