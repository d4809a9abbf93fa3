//! The server from the outside: real sockets, free ports, and no waiting but for what is to happen.

mod client;
mod echo;
mod exchanges;
mod files;
mod limits;
mod stopping;
