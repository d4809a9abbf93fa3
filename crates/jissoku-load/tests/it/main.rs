//! The load generator over epoll, against servers with known behaviour, which it must measure.

mod accounting;
mod closed_loop;
mod counts;
mod error_examples;
mod errors;
mod honesty;
mod open_loop;
mod plans;
mod request_log;
mod request_sequence;
mod scripted;
mod setting;
mod starting;
mod time_slices;
mod tls;
mod websocket;
mod websocket_server;
mod windows;

use jissoku_load::Driver;
pub(crate) use setting::{measure, plan, summarise, target, try_to_measure};

const DRIVER: Driver = Driver::Epoll;
