//! The main thread of a process that imports an application: it imports and calls it, and the rest
//! of the server runs on another thread.
//!
//! What a module sets for its thread when it is imported (`decimal`'s context, context variables,
//! `threading.local`, connections of `sqlite3`) holds in its requests only if both are on one thread,
//! and an interpreter installs and calls handlers of signals on its main thread only.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use jissoku_os::driver::Waker;
use jissoku_os::poll;
use jissoku_server::RunThere;

use super::LoadApp;
use super::failure::Failure;

/// How late a handler of a signal may be called that arrives just before the main thread waits.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Calls `serve` on another thread, with an application that is imported and called on this one.
pub(super) fn serve_beside(
    load: &LoadApp,
    serve: impl FnOnce(&LoadApp) -> Result<(), Failure> + Send,
) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::of_work(&error);
    let waker = Waker::new().map_err(failed)?;
    let (sender, queue) = mpsc::channel::<Box<dyn FnOnce() + Send>>();
    let wake = waker.clone();
    let run_there: RunThere = Arc::new(move |work| {
        // Received as long as the other thread runs.
        let _sent = sender.send(work);
        let _woken = wake.wake();
    });
    let load_there = load.on_thread(run_there);
    thread::scope(|scope| {
        let has_ended = Arc::new(AtomicBool::new(false));
        let end = End { has_ended: Arc::clone(&has_ended), waker: waker.clone() };
        let server = thread::Builder::new().name("server".to_owned());
        let server = server.spawn_scoped(scope, move || {
            let _end = end;
            serve(&load_there)
        });
        let server = server.map_err(failed)?;
        while !has_ended.load(Ordering::Acquire) {
            if let Ok(work) = queue.try_recv() {
                // A panic is printed, and the thread that waits for the result knows of it.
                let _ended = catch_unwind(AssertUnwindSafe(work));
                continue;
            }
            poll::wait_readable(&[std::os::fd::AsFd::as_fd(&waker)], Some(CHECK_INTERVAL))
                .map_err(failed)?;
            waker.take();
            load.check_signals();
        }
        server.join().unwrap_or_else(|_| Err(Failure::of_work("a panic in jissoku, printed above")))
    })
}

/// Wakes the main thread when the other one has no more work for it, also after a panic. That the
/// other thread has ended would be known only some time after the wake-up.
struct End {
    has_ended: Arc<AtomicBool>,
    waker: Waker,
}

impl Drop for End {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::Release);
        let _woken = self.waker.wake();
    }
}
