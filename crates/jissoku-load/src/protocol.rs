//! The bytes of requests, responses and WebSocket messages. Shares no code with the server.

pub(crate) mod chunked;
pub(crate) mod date;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub(crate) mod message;
pub(crate) mod message_reader;
pub(crate) mod opening_handshake;
pub(crate) mod reader;
pub(crate) mod request;
pub(crate) mod request_sequence;
pub(crate) mod request_template;
pub(crate) mod response_matcher;
pub(crate) mod response_reader;
pub(crate) mod tls_session;
pub(crate) mod upgrade;
pub(crate) mod websocket;

/// Bytes of a connection for the property tests of readers.
#[cfg(test)]
pub(crate) mod test_wires {
    use std::ops::Range;

    use proptest::prelude::*;
    use proptest::sample::Index;

    /// Pieces one after the other, in three of ten cases with a byte changed, and truncated in half.
    pub(crate) fn damaged<S>(piece: S, count: Range<usize>) -> impl Strategy<Value = Vec<u8>>
    where
        S: Strategy<Value = &'static [u8]>,
    {
        let mutation = proptest::option::weighted(0.3, (any::<Index>(), any::<u8>()));
        (proptest::collection::vec(piece, count), any::<Index>(), mutation).prop_map(
            |(pieces, cut, mutation)| {
                let mut wire = pieces.concat();
                if let Some((place, byte)) = mutation {
                    let place = place.index(wire.len());
                    wire[place] = byte;
                }
                // Half of the inputs are complete.
                let cut = cut.index(2 * wire.len()).max(1);
                wire.truncate(cut);
                wire
            },
        )
    }

    /// The parts of some bytes between cuts.
    pub(crate) fn split<'a>(wire: &'a [u8], cuts: &[Index]) -> Vec<&'a [u8]> {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(wire.len() + 1)).collect();
        cuts.extend([0, wire.len()]);
        cuts.sort_unstable();
        cuts.windows(2).map(|cut| &wire[cut[0]..cut[1]]).collect()
    }
}
