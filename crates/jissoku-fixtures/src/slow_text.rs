//! One text for every request, after a delay and a busy loop.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use jissoku_os::driver::NewConnection;
use jissoku_server::{Fixed, Handler, Progress, RequestHead, Response, Service, WorkerInfo};

use crate::busy_loop::BusyLoop;

/// Serves one text.
#[derive(Debug)]
pub struct SlowText {
    text: Fixed,
    delay_ns: u64,
    busy_loop: Option<BusyLoop>,
}

impl SlowText {
    /// Responds to every method on every path with `text`, `delay` after the request was received,
    /// and after a busy loop of `busy_ns` nanoseconds (accurate to about 10 ns).
    #[must_use]
    pub fn new(text: &str, delay: Duration, busy_ns: u64) -> Self {
        Self {
            text: Fixed::new(text),
            delay_ns: u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX),
            busy_loop: BusyLoop::calibrate(busy_ns),
        }
    }

    /// Writes the response, or returns when it is due.
    #[inline]
    pub(crate) fn respond(&self, response: &mut Response<'_>) -> Progress {
        if let Some(due_ns) = due_ns(self.delay_ns, response) {
            return Progress::Until(due_ns);
        }
        if let Some(busy_loop) = &self.busy_loop {
            busy_loop.run();
        }
        self.text.write(response);
        Progress::Complete
    }

    /// As [`SlowText::respond`] with another delay and without the busy loop.
    pub(crate) fn respond_after(&self, delay_ns: u64, response: &mut Response<'_>) -> Progress {
        if let Some(due_ns) = due_ns(delay_ns, response) {
            return Progress::Until(due_ns);
        }
        self.text.write(response);
        Progress::Complete
    }
}

/// When a response with this delay is due, unless it is now.
#[inline]
const fn due_ns(delay_ns: u64, response: &Response<'_>) -> Option<u64> {
    let due_ns = response.received_ns().saturating_add(delay_ns);
    if delay_ns > 0 && due_ns > response.now_ns() { Some(due_ns) } else { None }
}

impl Service for SlowText {
    type Handler = SlowTextHandler;

    fn handler(self: &Arc<Self>, _: &WorkerInfo) -> io::Result<SlowTextHandler> {
        Ok(SlowTextHandler(Arc::clone(self)))
    }
}

/// Processes the requests of one worker.
#[derive(Debug)]
pub struct SlowTextHandler(Arc<SlowText>);

impl Handler for SlowTextHandler {
    type Connection = ();
    type Request = ();

    fn on_open(&mut self, _: &NewConnection<'_>) {}

    fn on_head(&mut self, (): &mut (), _: &RequestHead<'_>) {}

    fn respond(&mut self, (): &mut (), (): &mut (), response: &mut Response<'_>) -> Progress {
        self.0.respond(response)
    }
}
