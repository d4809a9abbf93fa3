//! Python applications on the engine of the server.
//!
//! `handler` and `asgi` implement the handler interface for WSGI and ASGI. For WSGI, `environ`
//! builds the environ of a request, `wsgi` calls the application, `start_response` receives the head
//! of its response, `response_head` checks and encodes it, and `response` sends the body in parts.
//! Unless `threaded` calls the application, all of it runs on a worker's thread, which is attached
//! to the interpreter except while it waits for events.

mod asgi;
mod body;
mod body_writer;
mod constant_headers;
mod early_hints;
mod empty_parts;
mod environ;
mod file_wrapper;
mod handler;
mod hash;
mod input;
mod interpreter;
mod load;
mod names;
mod overlay;
pub mod python_thread;
mod recent_heads;
mod request_name;
mod response;
mod response_head;
mod sink;
mod start_response;
#[cfg(test)]
mod tests;
mod text;
mod thread_link;
mod threaded;
mod wsgi;

pub use environ::{AsgiOptions, BODY_MEMORY_MAX, Lifespan, ServerInfo};
pub use interpreter::{check_signals, name_verb};
pub use load::{AppSpec, Interface, LoadError, Preparation, load, serve_object};
