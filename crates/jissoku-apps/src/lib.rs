//! Python applications on the engine of the server.
//!
//! An application is one more handler. `asgi` is that of ASGI. For WSGI, `environ` makes the request
//! of an application, `wsgi` calls it, `start_response` and `head` take and validate the head of its
//! response, and `response` sends the rest, a part at a time. Everything here runs on a worker's thread, which
//! is attached to the interpreter except while it waits for events.

mod asgi;
mod constant_headers;
mod decimal;
mod early_hints;
mod environ;
mod file_wrapper;
mod handler;
mod hash;
mod head;
mod input;
mod interpreter;
mod load;
mod log;
mod names;
mod overlay;
mod recent_heads;
mod response;
mod routes;
mod start_response;
#[cfg(test)]
mod tests;
mod text;
mod threaded;
mod wsgi;

pub use environ::ServerInfo;
pub use load::{AppSpec, Interface, LoadError, load, serve_object};
