//! What becomes of a request when something fails: a pure function.
//!
//! A kept connection that its server closes while a request is on its way arrives as `on_eof` or
//! `on_close` of the handler: before the request was handed to the driver, `replace` gives it a new
//! connection; after that, `fail_exchange` asks [`decide`], to which it is a closing race.

use jissoku_http::response_reader::BadResponse;
use jissoku_server::TlsFailure;

use crate::policy::health::Outcome;
use crate::policy::retry::{Attempt, Cause, Received, Retry};

/// The error of a request whose client has closed its connection: no error type of RFC 9209.
pub(crate) const CLIENT_GONE: &str = "client_gone";

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
    /// TLS has failed before the connection was established: nothing was sent.
    TlsHandshake(TlsFailure),
    /// TLS has failed after that.
    Tls(TlsFailure),
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
            Self::TlsHandshake(failure) | Self::Tls(failure) => match failure {
                TlsFailure::Certificate(_) => "tls_certificate_error",
                TlsFailure::Alert => "tls_alert_received",
                TlsFailure::Protocol => "tls_protocol_error",
            },
        }
    }

    /// Whether the head of the response is malformed, or was not to be expected.
    pub(crate) fn is_malformed_head(self) -> bool {
        // Sizes beyond the limits have error types of their own.
        matches!(self.error_type(), "http_protocol_error" | "http_upgrade_failed")
    }

    /// The status of the response to the client.
    pub(crate) const fn status(self) -> u16 {
        match self {
            Self::ConnectTimeout | Self::HeadTimeout | Self::BodyTimeout => 504,
            Self::QueueFull | Self::Shortage => 503,
            Self::Refused
            | Self::Closed
            | Self::BadResponse(_)
            | Self::UnexpectedUpgrade
            | Self::TlsHandshake(_)
            | Self::Tls(_) => 502,
        }
    }
}

impl Fault {
    /// How a try ended, for the decision about another; `None` if another would end likewise.
    const fn cause(self, attempt: &Attempt) -> Option<Cause> {
        match (self, attempt.received) {
            (Self::Refused | Self::ConnectTimeout | Self::QueueFull | Self::TlsHandshake(_), _) => {
                Some(Cause::Connect)
            }
            (Self::Closed | Self::Tls(_), Received::Nothing) if attempt.is_reused => {
                Some(Cause::ClosingRace)
            }
            (Self::Closed | Self::Tls(_), Received::Nothing) => Some(Cause::Reset),
            (Self::HeadTimeout, Received::Nothing) => Some(Cause::Timeout),
            _ => None,
        }
    }

    /// Whether the server has closed a kept connection as idle while the request was on its way.
    pub(crate) const fn is_closing_race(self, attempt: &Attempt) -> bool {
        matches!(self.cause(attempt), Some(Cause::ClosingRace))
    }

    /// Whether the try was sent, and counts.
    pub(crate) const fn counts(self, attempt: &Attempt) -> bool {
        !matches!(self.cause(attempt), Some(Cause::Connect | Cause::ClosingRace))
    }

    /// What the end of the try says about the server.
    pub(crate) const fn outcome(self, attempt: &Attempt) -> Outcome {
        match self {
            Self::Refused => Outcome::Refused,
            // A kept connection may be closed at any time, and a malformed response is no outage.
            Self::Closed | Self::Tls(_) if self.is_closing_race(attempt) => Outcome::Neutral,
            Self::BadResponse(BadResponse::Incomplete)
            | Self::Closed
            | Self::ConnectTimeout
            | Self::HeadTimeout
            | Self::BodyTimeout
            | Self::TlsHandshake(_)
            | Self::Tls(_) => Outcome::Failure,
            Self::QueueFull | Self::Shortage | Self::UnexpectedUpgrade | Self::BadResponse(_) => {
                Outcome::Neutral
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Send the request again, on a new connection to the same server.
    Fresh,
    /// Send it to another server, after this time.
    Other { after_ns: u64 },
    /// Respond with this status.
    Respond(u16),
    /// End the response such that the client notices that it is incomplete.
    Truncate,
}

/// Decides what becomes of a request. `retry` decides whether a try that may be followed by another
/// is.
pub(crate) fn decide(
    fault: Fault,
    attempt: &Attempt,
    retry: impl FnOnce(Cause) -> Retry,
) -> Verdict {
    if matches!(attempt.received, Received::Head) {
        return Verdict::Truncate;
    }
    let Some(cause) = fault.cause(attempt) else { return Verdict::Respond(fault.status()) };
    match retry(cause) {
        Retry::Fresh => Verdict::Fresh,
        Retry::Other { after_ns } => Verdict::Other { after_ns },
        Retry::No => Verdict::Respond(fault.status()),
    }
}

#[cfg(test)]
mod tests {
    use crate::policy::random::Random;
    use crate::policy::retry::{Budget, BudgetPolicy, RetryPolicy};
    use jissoku_http::Reject;
    use jissoku_server::CertificateFault;
    use proptest::prelude::*;

    use super::*;

    const FAULTS: [Fault; 11] = [
        Fault::Refused,
        Fault::ConnectTimeout,
        Fault::QueueFull,
        Fault::Shortage,
        Fault::Closed,
        Fault::HeadTimeout,
        Fault::BodyTimeout,
        Fault::BadResponse(BadResponse::Chunk(Reject::ChunkSizeInvalid)),
        Fault::UnexpectedUpgrade,
        Fault::TlsHandshake(TlsFailure::Certificate(CertificateFault::Expired)),
        Fault::Tls(TlsFailure::Alert),
    ];

    fn attempt() -> impl Strategy<Value = Attempt> {
        let received =
            prop::sample::select(&[Received::Nothing, Received::Part, Received::Head][..]);
        (any::<[bool; 3]>(), received, 0..4_u32, 0..2_u64).prop_map(
            |([is_reused, is_repeatable, was_replaced], received, tries, left_ns)| Attempt {
                is_reused,
                received,
                has_relayed: received == Received::Head,
                is_repeatable,
                tries,
                was_replaced,
                left_ns,
            },
        )
    }

    /// With all that a route can permit.
    fn decided(fault: Fault, attempt: Attempt) -> Verdict {
        let policy = RetryPolicy { tries_max: 3, on_timeout: true, ..RetryPolicy::default() };
        let budget = Budget::new(BudgetPolicy::default());
        let mut random = Random::new(1);
        decide(fault, &attempt, |cause| policy.decide(cause, &attempt, &budget, 0, &mut random))
    }

    proptest! {
        #[test]
        fn nothing_is_repeated_that_must_not_be(
            fault in prop::sample::select(&FAULTS[..]),
            attempt in attempt(),
        ) {
            let has_no_connection = matches!(
                fault,
                Fault::Refused
                    | Fault::ConnectTimeout
                    | Fault::QueueFull
                    | Fault::TlsHandshake(_)
            );
            match decided(fault, attempt) {
                Verdict::Fresh => {
                    prop_assert!(attempt.is_repeatable);
                    prop_assert!(attempt.is_reused);
                    prop_assert_eq!(attempt.received, Received::Nothing);
                    prop_assert!(matches!(fault, Fault::Closed | Fault::Tls(_)));
                    // Once only.
                    let second = Attempt { was_replaced: true, ..attempt };
                    prop_assert!(!matches!(decided(fault, second), Verdict::Fresh));
                }
                Verdict::Other { .. } => {
                    prop_assert!(attempt.is_repeatable || has_no_connection);
                    prop_assert!(attempt.received == Received::Nothing || has_no_connection);
                    prop_assert!(attempt.left_ns > 0 && (has_no_connection || attempt.tries < 2));
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
        let get = Attempt {
            is_reused: true,
            received: Received::Nothing,
            has_relayed: false,
            is_repeatable: true,
            tries: 0,
            was_replaced: false,
            left_ns: 1,
        };
        assert_eq!(decided(Fault::Closed, get), Verdict::Fresh);
        assert_eq!(Fault::Closed.outcome(&get), Outcome::Neutral);
        let post = Attempt { is_repeatable: false, ..get };
        assert_eq!(decided(Fault::Closed, post), Verdict::Respond(502));
        assert_eq!(decided(Fault::Refused, post), Verdict::Other { after_ns: 0 });
        let late = Attempt { left_ns: 0, ..get };
        assert_eq!(decided(Fault::HeadTimeout, late), Verdict::Respond(504));
        assert_eq!(decided(Fault::Shortage, get), Verdict::Respond(503));
    }
}
