//! The server from the outside: real sockets, free ports, and no waiting but for what is to happen.

use jissoku_os::driver::Backend;

mod ceiling;
mod client;
mod echo;
mod exchanges;
mod files;
mod limits;
mod log;
mod metrics;
mod reload;
mod slow;
mod stopping;
mod tls;

fn driver() -> Backend {
    Backend::Epoll
}
