//! ASGI 3 (<https://asgi.readthedocs.io>): asyncio's event loop on the worker's thread, and the
//! messages of HTTP requests and of `WebSocket` connections.
//!
//! `event_loop` starts and runs the loop, whose selector calls the worker, and `tasks` starts the
//! tasks of requests; `scope` describes a
//! request, `http_cycle` is its `receive` and `send`, `message` reads the application's messages, and
//! `response` encodes them. `handshake`, `websocket`, `session`, `frames` and `deflate` implement a
//! `WebSocket`.

mod awaitable;
mod deflate;
mod event_loop;
mod failure;
mod frames;
mod handler;
mod handshake;
mod http_cycle;
mod message;
mod response;
mod scope;
mod session;
mod shared;
mod tasks;
#[cfg(test)]
mod tests;
mod unchanged;
mod websocket;

pub(crate) use handler::AsgiService;
