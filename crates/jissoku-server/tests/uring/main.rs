//! The tests of `it` with io_uring.

use std::io::{self, Write};

use jissoku_os::driver::Backend;
use jissoku_os::uring;

#[path = "../it/ceiling.rs"]
mod ceiling;
#[path = "../it/client.rs"]
mod client;
#[path = "../it/echo.rs"]
mod echo;
#[path = "../it/exchanges.rs"]
mod exchanges;
#[path = "../it/files/mod.rs"]
mod files;
#[path = "../it/limits.rs"]
mod limits;
#[path = "../it/log.rs"]
mod log;
#[path = "../it/metrics.rs"]
mod metrics;
#[path = "../it/processes.rs"]
mod processes;
#[path = "../it/reload.rs"]
mod reload;
#[path = "../it/slow.rs"]
mod slow;
#[path = "../it/stopping.rs"]
mod stopping;
#[path = "../it/tls.rs"]
mod tls;

fn driver() -> Backend {
    if uring::is_available() {
        return Backend::Uring;
    }
    let why = "skipped: this kernel lacks io_uring, or keeps it from us";
    // If standard error is closed, there is no reader.
    let _written = writeln!(io::stderr(), "{why}");
    Backend::Epoll
}

#[test]
fn every_module_of_it_is_included() {
    let themes = |text: &str| {
        let lines = text.lines().filter(|line| line.starts_with("mod "));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(themes(include_str!("main.rs")), themes(include_str!("../it/main.rs")));
}
