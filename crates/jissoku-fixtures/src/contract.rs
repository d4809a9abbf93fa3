//! The contract of all benchmark targets: a greeting, 42, a delay, and files.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use jissoku_http::Method;
use jissoku_http::response::StaticResponse;
use jissoku_os::driver::NewConnection;
use jissoku_server::{
    FileResponse, Files, FilesHandler, Handler, Metrics, Progress, RequestHead, Response, Service,
    WorkerInfo,
};

use crate::forty_two::FortyTwo;
use crate::slow_text::SlowText;

const GREETING: &str = "Hello, World!";

/// The longest delay that a request can ask for; each pending one takes memory.
const DELAY_MS_MAX: u64 = 60_000;

/// Serves the whole contract from one process.
#[derive(Debug)]
pub struct Contract {
    greeting: SlowText,
    forty_two: FortyTwo,
    files: Option<Arc<Files>>,
    bad_request: StaticResponse,
    not_found: StaticResponse,
}

/// Serves the contract in one worker.
#[derive(Debug)]
pub struct ContractHandler {
    contract: Arc<Contract>,
    files: Option<FilesHandler>,
}

/// A request of the contract.
#[derive(Debug)]
pub struct ContractRequest(Page);

#[derive(Debug)]
enum Page {
    Greeting,
    /// The greeting after this delay.
    Delay(u64),
    FortyTwo,
    File(FileResponse),
    BadRequest,
    NotFound,
}

impl Contract {
    /// `files` are served below `/files/`; `delay` and `busy_ns` apply to `/`, as in
    /// [`SlowText::new`].
    #[must_use]
    pub fn new(files: Option<Files>, delay: Duration, busy_ns: u64) -> Self {
        let text =
            |body: &str| StaticResponse::new("Content-Type: text/plain\r\n", body.as_bytes());
        Self {
            greeting: SlowText::new(GREETING, delay, busy_ns),
            forty_two: FortyTwo::new(),
            files: files.map(Arc::new),
            bad_request: text("Bad Request\n"),
            not_found: text("Not Found\n"),
        }
    }
}

impl Service for Contract {
    type Handler = ContractHandler;

    fn handler(self: &Arc<Self>, worker: &WorkerInfo) -> io::Result<ContractHandler> {
        let files = self.files.as_ref().map(|files| files.handler(worker)).transpose()?;
        Ok(ContractHandler { contract: Arc::clone(self), files })
    }

    fn report_to(&self, metrics: &Metrics) {
        if let Some(files) = &self.files {
            files.report_to(metrics);
        }
    }
}

impl ContractHandler {
    fn page(&mut self, head: &RequestHead<'_>, path: &[u8], query: &[u8]) -> Page {
        match (path, &mut self.files, path.strip_prefix(b"/files")) {
            (b"/42", ..) => Page::FortyTwo,
            (b"/delay", ..) => {
                delay_ms(query).map_or(Page::BadRequest, |ms| Page::Delay(ms * 1_000_000))
            }
            (_, Some(files), Some(path)) if path.starts_with(b"/") => {
                Page::File(files.get(head, path))
            }
            _ => Page::NotFound,
        }
    }
}

impl Handler for ContractHandler {
    type Connection = ();
    type Request = ContractRequest;

    fn on_open(&mut self, _: &NewConnection<'_>) {}

    #[inline]
    fn on_head(&mut self, (): &mut (), head: &RequestHead<'_>) -> ContractRequest {
        let (path, query) = head.path_and_query();
        ContractRequest(match (head.method(), path) {
            (Method::Get | Method::Head | Method::Post, b"/") => Page::Greeting,
            (Method::Get | Method::Head, _) => self.page(head, path, query),
            _ => Page::NotFound,
        })
    }

    #[inline]
    fn respond(
        &mut self,
        (): &mut (),
        request: &mut ContractRequest,
        response: &mut Response<'_>,
    ) -> Progress {
        match (&request.0, &self.files) {
            (Page::Greeting, _) => return self.contract.greeting.respond(response),
            (Page::Delay(delay_ns), _) => {
                return self.contract.greeting.respond_after(*delay_ns, response);
            }
            (Page::FortyTwo, _) => self.contract.forty_two.write(response),
            (Page::File(file), Some(files)) => files.write(file, response),
            (Page::BadRequest, _) => response.send(400, &self.contract.bad_request),
            (Page::NotFound | Page::File(_), _) => response.send(404, &self.contract.not_found),
        }
        Progress::Complete
    }
}

/// Reads `?ms=N`.
fn delay_ms(query: &[u8]) -> Option<u64> {
    let digits = query.strip_prefix(b"?ms=")?;
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let number = str::from_utf8(digits).ok().filter(|_| is_number)?;
    number.parse().ok().filter(|&delay_ms| delay_ms <= DELAY_MS_MAX)
}

#[cfg(test)]
mod tests {
    use jissoku_http::Limits;
    use jissoku_http::head::HeadReader;

    use super::*;

    #[test]
    fn a_delay_is_a_plain_number_of_milliseconds() {
        assert_eq!(delay_ms(b"?ms=0"), Some(0));
        assert_eq!(delay_ms(b"?ms=10"), Some(10));
        assert_eq!(delay_ms(b"?ms=60000"), Some(60_000));
        for wrong in ["", "?", "?ms=", "?ms=1s", "?ms=-1", "?ms=+1", "?ms=60001", "?ms=1&x", "?x=1"]
        {
            assert_eq!(delay_ms(wrong.as_bytes()), None, "{wrong:?}");
        }
    }

    #[test]
    fn every_part_of_the_contract_is_found() {
        let contract = Arc::new(Contract::new(None, Duration::from_millis(3), 0));
        let mut handler = contract.handler(&WorkerInfo::default()).expect("nothing can fail");
        let mut page = |method: &str, target: &str| {
            let bytes = format!("{method} {target} HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes();
            let head = HeadReader::default().read(&bytes, &Limits::DEFAULT).expect("a good head");
            let head = head.expect("a whole head");
            let request = RequestHead { head: &head, bytes: &bytes, now_ns: 0, origin: None };
            format!("{:?}", handler.on_head(&mut (), &request).0)
        };
        assert_eq!(page("GET", "/"), "Greeting");
        assert_eq!(page("GET", "/?x"), "Greeting");
        assert_eq!(page("HEAD", "/"), "Greeting");
        assert_eq!(page("GET", "/42"), "FortyTwo");
        assert_eq!(page("GET", "/delay?ms=5"), "Delay(5000000)");
        assert_eq!(page("GET", "/delay"), "BadRequest");
        assert_eq!(page("GET", "/files/1k.bin"), "NotFound");
        assert_eq!(page("POST", "/42"), "NotFound");
        // The response to a request body, for measurements of uploads.
        assert_eq!(page("POST", "/"), "Greeting");
    }
}
