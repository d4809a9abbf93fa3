//! What becomes of a request when something fails: a pure function.

use jissoku_http::response_reader::BadResponse;

/// What has gone wrong on the side of the upstream server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The connection was refused, or there is no such Unix socket.
    Refused,
    /// Connecting took too long.
    ConnectTimeout,
    /// The queue of a Unix socket stayed full.
    QueueFull,
    /// This process lacks descriptors, ports or memory.
    Shortage,
    /// The connection was closed or reset.
    Closed,
    /// The head of the response is late.
    HeadTimeout,
    /// The body of the response has stopped.
    BodyTimeout,
    /// The response is malformed or incomplete.
    BadResponse(BadResponse),
    /// The server has switched protocols without being asked to.
    UnexpectedUpgrade,
}

impl Fault {
    /// The error type of RFC 9209 section 2.3.
    pub(crate) const fn error_type(self) -> &'static str {
        match self {
            Self::Refused => "connection_refused",
            Self::ConnectTimeout => "connection_timeout",
            Self::QueueFull => "connection_limit_reached",
            Self::Shortage => "proxy_internal_error",
            Self::Closed => "connection_terminated",
            Self::HeadTimeout => "http_response_timeout",
            Self::BodyTimeout => "connection_read_timeout",
            Self::BadResponse(error) => error.error_type(),
            Self::UnexpectedUpgrade => "http_upgrade_failed",
        }
    }

    /// The status of the response to the client.
    const fn status(self) -> u16 {
        match self {
            Self::ConnectTimeout | Self::HeadTimeout | Self::BodyTimeout => 504,
            Self::QueueFull | Self::Shortage => 503,
            Self::Refused | Self::Closed | Self::BadResponse(_) | Self::UnexpectedUpgrade => 502,
        }
    }
}

/// How far a request has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    /// The connection had served another request before.
    pub(crate) is_reused: bool,
    pub(crate) received: Received,
    /// The request may be repeated (RFC 9110 section 9.2.2), and was not streamed.
    pub(crate) is_repeatable: bool,
}

/// What was received of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    Nothing,
    /// Less than the head of the final response.
    Part,
    /// Its head, which was passed on.
    Head,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Send the request again, on a new connection.
    Repeat,
    /// Respond with this status.
    Respond(u16),
    /// End the response such that the client notices that it is incomplete.
    Truncate,
}

/// Decides what becomes of a request.
pub(crate) const fn decide(fault: Fault, attempt: Attempt) -> Verdict {
    if matches!(attempt.received, Received::Head) {
        return Verdict::Truncate;
    }
    // A server may close a kept connection at any time, also while a request is under way to it.
    // That says nothing about the server, and a new connection can end like this only for a reason.
    let is_race = matches!(fault, Fault::Closed)
        && attempt.is_reused
        && matches!(attempt.received, Received::Nothing);
    if is_race && attempt.is_repeatable {
        return Verdict::Repeat;
    }
    Verdict::Respond(fault.status())
}

#[cfg(test)]
mod tests {
    use jissoku_http::Reject;
    use proptest::prelude::*;

    use super::*;

    const FAULTS: [Fault; 9] = [
        Fault::Refused,
        Fault::ConnectTimeout,
        Fault::QueueFull,
        Fault::Shortage,
        Fault::Closed,
        Fault::HeadTimeout,
        Fault::BodyTimeout,
        Fault::BadResponse(BadResponse::Chunk(Reject::ChunkSizeInvalid)),
        Fault::UnexpectedUpgrade,
    ];

    fn attempt() -> impl Strategy<Value = Attempt> {
        let received =
            prop::sample::select(&[Received::Nothing, Received::Part, Received::Head][..]);
        (any::<[bool; 2]>(), received).prop_map(|([is_reused, is_repeatable], received)| Attempt {
            is_reused,
            received,
            is_repeatable,
        })
    }

    proptest! {
        #[test]
        fn nothing_is_repeated_that_must_not_be(
            fault in prop::sample::select(&FAULTS[..]),
            attempt in attempt(),
        ) {
            match decide(fault, attempt) {
                Verdict::Repeat => {
                    prop_assert!(attempt.is_repeatable && attempt.is_reused);
                    prop_assert_eq!(attempt.received, Received::Nothing);
                    // The second attempt is on a new connection and is the last.
                    let second = Attempt { is_reused: false, ..attempt };
                    prop_assert_ne!(decide(fault, second), Verdict::Repeat);
                }
                Verdict::Truncate => prop_assert_eq!(attempt.received, Received::Head),
                Verdict::Respond(status) => {
                    prop_assert_ne!(attempt.received, Received::Head);
                    prop_assert!((502..=504).contains(&status));
                }
            }
        }
    }

    #[test]
    fn a_kept_connection_that_ends_is_not_noticed_by_the_client() {
        let get = Attempt { is_reused: true, received: Received::Nothing, is_repeatable: true };
        assert_eq!(decide(Fault::Closed, get), Verdict::Repeat);
        let post = Attempt { is_repeatable: false, ..get };
        assert_eq!(decide(Fault::Closed, post), Verdict::Respond(502));
        assert_eq!(decide(Fault::HeadTimeout, get), Verdict::Respond(504));
        assert_eq!(decide(Fault::Refused, get), Verdict::Respond(502));
    }
}
