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

/// Actions of the long test.
const ACTIONS: u64 = 10_000_000;

/// Runs cases until there were `actions_min` actions.
fn check(wire: Wire, style: Style, actions_min: u64) {
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
    check(Wire::Plain, Style::Epoll, 0);
}

#[test]
fn responses_belong_to_their_requests_in_plain_text_as_over_io_uring() {
    check(Wire::Plain, Style::Uring, 0);
}

#[test]
fn responses_belong_to_their_requests_in_tls_as_over_epoll() {
    check(Wire::Tls, Style::Epoll, 0);
}

#[test]
fn responses_belong_to_their_requests_in_tls_as_over_io_uring() {
    check(Wire::Tls, Style::Uring, 0);
}

/// Minutes.
#[test]
#[ignore = "minutes"]
fn responses_belong_to_their_requests_in_ten_million_actions() {
    for wire in [Wire::Plain, Wire::Tls] {
        for style in [Style::Epoll, Style::Uring] {
            check(wire, style, ACTIONS / 4);
        }
    }
}
