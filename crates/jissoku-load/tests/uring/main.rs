//! The load generator over io_uring, against servers with known behaviour, which it must measure.

#[path = "../it/closed_loop.rs"]
mod closed_loop;
#[path = "../it/counts.rs"]
mod counts;
#[path = "../it/error_examples.rs"]
mod error_examples;
#[path = "../it/errors.rs"]
mod errors;
#[path = "../it/honesty.rs"]
mod honesty;
#[path = "../it/open_loop.rs"]
mod open_loop;
#[path = "../it/plans.rs"]
mod plans;
#[path = "../it/request_log.rs"]
mod request_log;
#[path = "../it/request_sequence.rs"]
mod request_sequence;
#[path = "../it/scripted.rs"]
mod scripted;
#[path = "../it/setting.rs"]
mod setting;
mod submission;
#[path = "../it/time_slices.rs"]
mod time_slices;
#[path = "../it/tls.rs"]
mod tls;
#[path = "../it/websocket.rs"]
mod websocket;
#[path = "../it/websocket_server.rs"]
mod websocket_server;
#[path = "../it/windows.rs"]
mod windows;

use jissoku_load::Driver;
pub(crate) use setting::{measure, plan, summarise, target, try_to_measure};

const DRIVER: Driver = Driver::Uring;
