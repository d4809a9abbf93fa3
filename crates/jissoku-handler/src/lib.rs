//! Handlers in Rust for `jissoku serve`.
//!
//! ```toml
//! [lib]
//! crate-type = ["cdylib"]
//! ```
//!
//! ```ignore
//! use jissoku_handler::{Request, Response, handler};
//!
//! fn hello(request: Request<'_>) -> Response<'_> {
//!     let name = request.query("name").unwrap_or_default();
//!     Response::text(format!("Hello, {name}!"))
//! }
//!
//! handler!(fn hello);
//! ```
//!
//! `jissoku serve target/release/libhello.so` calls the function for each request. A [`Handler`] has a
//! state per worker, too, and a [`PartsHandler`] takes bodies by parts. A panic is a 500; what it says is
//! on standard error.

mod chart;
mod ffi;
mod handler;
mod later;
mod paused;
mod request;
mod response;
mod store;
mod upload;

pub use chart::{Chart, ChartKind};
pub use ffi::Server;
pub use handler::Handler;
pub use later::{Later, Parts};
pub use paused::Paused;
pub use request::Request;
pub use response::{Body, Response};
pub use store::{Store, StoreError, Ttl};
pub use upload::{PartsHandler, Taken};

/// What [`handler!`] expands to needs these; they are no part of the interface.
#[doc(hidden)]
pub mod exported {
    pub use crate::ffi::{ABI, Api, Call, RawRequest, Str, handle, handle_with_state, start, stop};
    pub use crate::handler::{begin, respond};
    pub use crate::upload::take_part;
}
