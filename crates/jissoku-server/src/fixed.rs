//! One text for every request.

use std::io;
use std::sync::Arc;

use jissoku_http::response::StaticResponse;
use jissoku_os::driver::NewConnection;

use crate::handler::{BodyFlow, Handler, Progress, RequestHead, Service, WorkerInfo};
use crate::limits::SHARED_SIZE_MIN;
use crate::response::Response;

/// Serves one text.
#[derive(Debug)]
pub struct Fixed {
    response: StaticResponse,
    /// The text, if it is too large to be copied behind its head.
    large: Option<Arc<[u8]>>,
}

impl Fixed {
    /// Responds to every method on every path with `text`.
    pub fn new(text: &str) -> Self {
        let fields = Self::fields(text);
        let (response, large) = if text.len() < SHARED_SIZE_MIN {
            (StaticResponse::new(fields, text.as_bytes()), None)
        } else {
            (StaticResponse::head_only(fields, text.len() as u64), Some(text.as_bytes().into()))
        };
        Self { response, large }
    }

    /// The header lines of a text.
    pub const fn fields(text: &str) -> &'static str {
        if text.is_ascii() {
            "Content-Type: text/plain\r\n"
        } else {
            "Content-Type: text/plain; charset=utf-8\r\n"
        }
    }

    /// Writes the response.
    #[inline]
    pub fn write(&self, response: &mut Response<'_>) {
        match &self.large {
            None => response.send(200, &self.response),
            Some(text) => response.send_shared(200, &self.response, text),
        }
    }
}

impl Service for Fixed {
    type Handler = Arc<Self>;

    fn handler(self: &Arc<Self>, _: &WorkerInfo) -> io::Result<Arc<Self>> {
        Ok(Arc::clone(self))
    }
}

impl Handler for Arc<Fixed> {
    type Connection = ();
    type Request = ();

    fn on_open(&mut self, _: &NewConnection<'_>) {}

    #[inline]
    fn on_head(&mut self, (): &mut (), _: &RequestHead<'_>) {}

    fn body_flow(&self, (): &()) -> BodyFlow {
        BodyFlow::Ignored
    }

    #[inline]
    fn respond(&mut self, (): &mut (), (): &mut (), response: &mut Response<'_>) -> Progress {
        self.write(response);
        Progress::Complete
    }
}
