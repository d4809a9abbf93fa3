//! The server over real sockets on free ports; tests wait for events only.

use jissoku_os::driver::Backend;

mod ceiling;
mod client;
mod echo;
mod exchanges;
mod files;
mod limits;
mod log;
mod metrics;
mod processes;
mod reload;
mod slow;
mod stopping;
mod tls;

fn driver() -> Backend {
    Backend::Epoll
}
