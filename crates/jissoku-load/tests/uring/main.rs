//! The whole stopwatch, over io_uring, against servers whose every act is known: it must recover what was planted.

#[path = "../it/closed_loop.rs"]
mod closed_loop;
#[path = "../it/counts.rs"]
mod counts;
#[path = "../it/faults.rs"]
mod faults;
#[path = "../it/honesty.rs"]
mod honesty;
#[path = "../it/ledger.rs"]
mod ledger;
#[path = "../it/open_loop.rs"]
mod open_loop;
#[path = "../it/plans.rs"]
mod plans;
#[path = "../it/rotation.rs"]
mod rotation;
#[path = "../it/scripted.rs"]
mod scripted;
#[path = "../it/setting.rs"]
mod setting;
#[path = "../it/tls.rs"]
mod tls;
#[path = "../it/windows.rs"]
mod windows;

use jissoku_load::Driver;
pub(crate) use setting::{lane, measure, plan, try_to_measure};

const DRIVER: Driver = Driver::Uring;
