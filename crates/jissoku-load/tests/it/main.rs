//! The whole stopwatch, over epoll, against servers whose every act is known: it must recover what was planted.

mod closed_loop;
mod counts;
mod faults;
mod honesty;
mod ledger;
mod open_loop;
mod plans;
mod rotation;
mod scripted;
mod setting;
mod tls;
mod windows;

use jissoku_load::Driver;
pub(crate) use setting::{lane, measure, plan, try_to_measure};

const DRIVER: Driver = Driver::Epoll;
