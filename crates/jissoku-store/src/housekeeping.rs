//! A thread that calls a function every second, until its store is closed.

use std::io;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::Builder;
use std::time::Duration;

/// How often a store is synchronised, and expired entries are removed.
const EVERY: Duration = Duration::from_secs(1);

/// Calls `work` every second until it returns `false`, or until the returned value is dropped.
pub(crate) fn start(mut work: impl FnMut() -> bool + Send + 'static) -> io::Result<Sender<()>> {
    let (stop, stopped) = channel();
    Builder::new().name("jissoku-store".to_owned()).spawn(move || {
        while stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
            if !work() {
                return;
            }
        }
    })?;
    Ok(stop)
}
