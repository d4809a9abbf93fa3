//! The contract of the comparison of nine server cores: `GET /` is 42, everything else is not
//! found.
//!
//! That comparison fixed the header fields, so exactly these are sent, and no Date.

use std::io;
use std::sync::Arc;

use jissoku_http::Method;
use jissoku_http::response::StaticResponse;
use jissoku_os::driver::NewConnection;
use jissoku_server::{Handler, Progress, RequestHead, Response, Service, WorkerInfo};

/// Serves 42.
#[derive(Debug)]
pub struct FortyTwo {
    keep_alive: StaticResponse,
    close: StaticResponse,
    not_found: StaticResponse,
}

impl Default for FortyTwo {
    fn default() -> Self {
        Self::new()
    }
}

impl FortyTwo {
    /// Answers `GET /`.
    #[must_use]
    pub fn new() -> Self {
        let answer = |connection: &str| {
            let head = "HTTP/1.1 200 OK\r\nServer: bench\r\nConnection: ";
            StaticResponse::new(
                &format!("{head}{connection}\r\nContent-Type: text/plain\r\n"),
                b"42",
            )
        };
        Self {
            keep_alive: answer("keep-alive"),
            close: answer("close"),
            not_found: StaticResponse::new("Content-Type: text/plain\r\n", b"Not Found\n"),
        }
    }

    /// Writes the response.
    #[inline]
    pub(crate) fn write(&self, response: &mut Response<'_>) {
        let answer = if response.keeps_alive() { &self.keep_alive } else { &self.close };
        response.send_verbatim(200, answer);
    }
}

/// Whether 42 was requested.
#[derive(Clone, Copy, Debug)]
pub struct FortyTwoRequest(bool);

impl Service for FortyTwo {
    type Handler = FortyTwoHandler;

    fn handler(self: &Arc<Self>, _: &WorkerInfo) -> io::Result<FortyTwoHandler> {
        Ok(FortyTwoHandler(Arc::clone(self)))
    }
}

/// Processes the requests of one worker.
#[derive(Debug)]
pub struct FortyTwoHandler(Arc<FortyTwo>);

impl Handler for FortyTwoHandler {
    type Connection = ();
    type Request = FortyTwoRequest;

    fn on_open(&mut self, _: &NewConnection<'_>) {}

    #[inline]
    fn on_head(&mut self, (): &mut (), head: &RequestHead<'_>) -> FortyTwoRequest {
        FortyTwoRequest(head.method() == Method::Get && head.path_and_query().0 == b"/")
    }

    #[inline]
    fn respond(
        &mut self,
        (): &mut (),
        request: &mut FortyTwoRequest,
        response: &mut Response<'_>,
    ) -> Progress {
        if request.0 {
            self.0.write(response);
        } else {
            response.send(404, &self.0.not_found);
        }
        Progress::Complete
    }
}
