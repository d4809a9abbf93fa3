//! Handlers in C on the engine of the server.
//!
//! `compile` makes a shared object of a source, `ffi` loads it and has the functions that it calls,
//! `call` is a request with its response, and `handler` implements the handler interface. The code
//! of a handler runs on the thread of its worker, and can end the process.

mod cache;
mod call;
mod compile;
mod deferred;
mod dependencies;
mod error;
mod ffi;
mod handler;
mod helpers;
mod library;
mod parameters;
mod parts;
mod reply;
mod stores;
mod stream;

pub use cache::Cache;
pub use compile::{Compiler, Language};
pub use error::HandlerError;
pub use handler::HandlerService;
pub use library::Library;

/// The header that handlers include.
pub const HEADER: &str = include_str!("../include/jissoku.h");
