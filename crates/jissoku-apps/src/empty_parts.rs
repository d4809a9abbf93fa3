//! Limits of an iterable that yields empty parts, which are allowed (PEP 3333, "Buffering and
//! Streaming"): nothing that is sent would show that the client is gone.

/// How long an application may yield only empty parts.
const EMPTY_NS_MAX: u64 = 60 * 1_000_000_000;

/// The same while its client has shut down its side, which most do only when they leave.
const EMPTY_UNREAD_NS_MAX: u64 = 1_000_000_000;

/// What follows an empty part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterEmpty {
    Continue,
    /// The response ends: its client is gone.
    ClientGone,
    /// The response ends: the application does not continue.
    TooLong,
}

/// Times of a response, on the monotonic clock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EmptyParts {
    /// Since when all parts were empty, if the last one was.
    since_ns: Option<u64>,
    /// Since when the client is known to have shut down its side.
    client_shut_ns: Option<u64>,
}

impl EmptyParts {
    /// The client has shut down its side. It may still read.
    pub(crate) fn set_client_shut(&mut self, now_ns: u64) {
        self.client_shut_ns.get_or_insert(now_ns);
    }

    /// Whether the last part was empty.
    pub(crate) const fn is_last_empty(&self) -> bool {
        self.since_ns.is_some()
    }

    /// A part had content.
    pub(crate) const fn end(&mut self) {
        self.since_ns = None;
    }

    /// A part was empty.
    pub(crate) fn add(&mut self, now_ns: u64) -> AfterEmpty {
        let since_ns = *self.since_ns.get_or_insert(now_ns);
        let is_over = |since_ns: u64, ns_max| now_ns.saturating_sub(since_ns) >= ns_max;
        if self.client_shut_ns.is_some_and(|it| is_over(it.max(since_ns), EMPTY_UNREAD_NS_MAX)) {
            AfterEmpty::ClientGone
        } else if is_over(since_ns, EMPTY_NS_MAX) {
            AfterEmpty::TooLong
        } else {
            AfterEmpty::Continue
        }
    }
}

#[cfg(test)]
mod tests {
    use super::AfterEmpty::{ClientGone, Continue, TooLong};
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn a_minute_of_empty_parts_is_too_long() {
        let mut empty = EmptyParts::default();
        for (now_ns, expected) in
            [(5 * S, Continue), (64 * S, Continue), (65 * S - 1, Continue), (65 * S, TooLong)]
        {
            assert_eq!(empty.add(now_ns), expected, "at {now_ns} ns");
        }
        assert!(empty.is_last_empty());
    }

    #[test]
    fn a_part_with_content_starts_the_minute_again() {
        let mut empty = EmptyParts::default();
        assert_eq!(empty.add(5 * S), Continue);
        empty.end();
        assert!(!empty.is_last_empty());
        assert_eq!((empty.add(70 * S), empty.add(129 * S)), (Continue, Continue));
        assert_eq!(empty.add(130 * S), TooLong);
    }

    #[test]
    fn a_client_that_has_shut_down_its_side_is_given_a_second() {
        let mut empty = EmptyParts::default();
        assert_eq!(empty.add(5 * S), Continue);
        empty.set_client_shut(10 * S);
        // Reported again.
        empty.set_client_shut(11 * S);
        assert_eq!((empty.add(11 * S - 1), empty.add(11 * S)), (Continue, ClientGone));
        // The second begins with the empty parts, if these come later.
        empty.end();
        assert_eq!((empty.add(20 * S), empty.add(21 * S - 1)), (Continue, Continue));
        assert_eq!(empty.add(21 * S), ClientGone);
    }
}
