//! The constant response, and the counting of requests.

/// The response to every request.
pub(crate) const RESPONSE: &[u8] =
    b"HTTP/1.1 200 OK\r\nServer: bare\r\nContent-Type: text/plain\r\n\
    Content-Length: 13\r\n\r\nHello, World!";

/// The end of a request's head.
const END: &[u8; 4] = b"\r\n\r\n";

/// Matches the end of requests across reads: how many bytes of it have been matched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TerminatorMatcher(u8);

impl TerminatorMatcher {
    /// The number of requests that end in the next bytes of a connection.
    #[inline]
    pub(crate) fn count_requests(&mut self, bytes: &[u8]) -> usize {
        let (mut count, mut from) = (0, 0);
        while self.0 > 0 && from < bytes.len() {
            self.step(bytes[from]);
            from += 1;
            if usize::from(self.0) == END.len() {
                count += 1;
                self.0 = 0;
            }
        }
        if from == bytes.len() {
            return count;
        }
        // Only about every fourth byte is read: a byte of the terminator says how far its end may
        // be.
        let mut last = from + END.len() - 1;
        while let Some(&byte) = bytes.get(last) {
            last += match byte {
                b'\n' if bytes[last - 3..=last] == *END => {
                    count += 1;
                    from = last + 1;
                    4
                }
                b'\n' => 2,
                b'\r' => 1,
                _ => 4,
            };
        }
        self.0 = matched_prefix(&bytes[from..]);
        count
    }

    fn step(&mut self, byte: u8) {
        self.0 = match (self.0, byte) {
            (0 | 2, b'\r') | (1 | 3, b'\n') => self.0 + 1,
            (_, b'\r') => 1,
            _ => 0,
        };
    }
}

/// The longest prefix of the terminator at the end of `bytes`.
fn matched_prefix(bytes: &[u8]) -> u8 {
    match bytes {
        [.., b'\r', b'\n', b'\r'] => 3,
        [.., b'\r', b'\n'] => 2,
        [.., b'\r'] => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn naive_count(bytes: &[u8]) -> usize {
        let (mut count, mut at) = (0, 0);
        while at + END.len() <= bytes.len() {
            let found = bytes[at..].starts_with(END);
            count += usize::from(found);
            at += if found { END.len() } else { 1 };
        }
        count
    }

    proptest! {
        #[test]
        fn every_end_is_counted_once_however_the_bytes_are_split(
            signs in proptest::collection::vec(prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'x')], 0..60),
            cuts in proptest::collection::vec(0_usize..60, 0..6),
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(signs.len())).collect();
            cuts.extend([0, signs.len()]);
            cuts.sort_unstable();
            let mut matched_prefix = TerminatorMatcher::default();
            let parts = cuts.windows(2).map(|cut| matched_prefix.count_requests(&signs[cut[0]..cut[1]]));
            prop_assert_eq!(parts.sum::<usize>(), naive_count(&signs));
        }
    }

    #[test]
    fn the_answer_is_as_long_as_it_says() {
        let text = std::str::from_utf8(RESPONSE).expect("it is text");
        let (head, body) = text.split_once("\r\n\r\n").expect("it has a head");
        assert!(head.ends_with(&format!("Content-Length: {}", body.len())));
    }
}
