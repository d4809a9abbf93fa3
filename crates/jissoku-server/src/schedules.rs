//! Responses belong to their requests, in order and one each: for any sequence of requests, any
//! split of it into TLS records, segments and reads, any handler, and whatever else happens: timeouts,
//! a shutdown, clients that leave.
//!
//! A case is a list of bytes, from which every decision is taken, so that a failure shrinks to a
//! simple one. Most cases have no sockets: [`Simulation`] drives a worker as the epoll driver does,
//! or as that over `io_uring`. `sockets` uses
//! the real drivers; `upstream` is TLS with a server. `PROPTEST_CASES` sets the number.

mod client;
mod plan;
mod scripted;
mod simulation;
mod sockets;
mod upstream;

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use plan::{Choices, config};
use simulation::{Simulation, Style, Wire};

/// Cases of each transport, unless `PROPTEST_CASES` says otherwise: some seconds.
const CASES: u32 = 1_000;

/// Runs cases, and as many as there have to be for a quarter of `RANDOM_EVENTS`, if that is set.
#[expect(clippy::disallowed_methods, reason = "the environment says how long a test runs")]
fn check(wire: Wire, style: Style) {
    let actions_min = std::env::var("RANDOM_EVENTS").ok().and_then(|text| text.parse().ok());
    let actions_min = actions_min.unwrap_or(0_u64).div_ceil(4);
    let simulation = RefCell::new(Simulation::new(wire, style));
    let cases = prop::collection::vec(any::<u8>(), 8..200);
    loop {
        let outcome = TestRunner::new(config(CASES, 1)).run(&cases, |bytes| {
            let mut simulation = simulation.borrow_mut();
            let run = AssertUnwindSafe(|| simulation.run(&mut Choices::new(&bytes)));
            let outcome = catch_unwind(run).unwrap_or_else(|_| Err("a panic".to_owned()));
            if outcome.is_err() {
                simulation.renew();
            }
            outcome.map_err(TestCaseError::fail)
        });
        outcome.expect("each request gets its own response");
        if simulation.borrow().actions >= actions_min {
            return;
        }
    }
}

#[test]
fn responses_belong_to_their_requests_in_plain_text_as_over_epoll() {
    check(Wire::Plain, Style::Epoll);
}

#[test]
fn responses_belong_to_their_requests_in_plain_text_as_over_io_uring() {
    check(Wire::Plain, Style::Uring);
}

#[test]
fn responses_belong_to_their_requests_in_tls_as_over_epoll() {
    check(Wire::Tls, Style::Epoll);
}

#[test]
fn responses_belong_to_their_requests_in_tls_as_over_io_uring() {
    check(Wire::Tls, Style::Uring);
}
