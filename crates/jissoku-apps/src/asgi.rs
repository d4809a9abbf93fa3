//! ASGI 3 (<https://asgi.readthedocs.io>): asyncio's event loop on the worker's thread, and the
//! messages of HTTP requests.
//!
//! `event_loop` starts and runs the loop, whose selector calls the worker; `scope` describes a
//! request, `exchange` is its `receive` and `send`, `message` reads what is sent, and `response` encodes
//! it.

mod awaitable;
mod event_loop;
mod exchange;
mod handler;
mod message;
mod response;
mod scope;
mod service;
mod shared;

pub(crate) use service::AsgiService;
