//! The contract of all benchmark targets: a greeting, 42, a delay, and files.

use std::time::Duration;

use jissoku_http::Method;
use jissoku_http::response::StaticResponse;

use super::{
    FileRequest, Files, Fixed, FortyTwo, ResponseKind, ResponsePlan, ResponseRef, WorkerCache,
    plain,
};
use crate::busy_loop::BusyLoop;
use crate::limits::DELAY_MS_MAX;

const GREETING: &str = "Hello, World!";

/// Serves the whole contract from one process.
#[derive(Debug)]
pub struct Contract {
    greeting: Fixed,
    forty_two: Box<FortyTwo>,
    files: Option<Files>,
    bad_request: StaticResponse,
    not_found: StaticResponse,
}

impl Contract {
    /// `files` are served below `/files/`; `delay` and `busy_ns` apply to `/`, as in
    /// [`Fixed::new`].
    #[must_use]
    pub fn new(files: Option<Files>, delay: Duration, busy_ns: u64) -> Self {
        Self {
            greeting: Fixed::new(GREETING, delay, busy_ns),
            forty_two: Box::default(),
            files,
            bad_request: plain("Bad Request\n"),
            not_found: plain("Not Found\n"),
        }
    }

    #[inline]
    pub(super) fn plan(&self, cache: &mut WorkerCache, request: &FileRequest<'_>) -> ResponsePlan {
        let method = request.head.method;
        match (method, request.path) {
            (Method::Get | Method::Head, b"/") => self.greeting.plan(method),
            (Method::Get | Method::Head, _) => self.plan_other(cache, request),
            _ => ResponsePlan::new(ResponseKind::NotFound, method),
        }
    }

    fn plan_other(&self, cache: &mut WorkerCache, request: &FileRequest<'_>) -> ResponsePlan {
        let page = match (request.path, &self.files, request.path.strip_prefix(b"/files")) {
            (b"/42", ..) => ResponseKind::FortyTwo,
            (b"/delay", ..) => return plan_delay(request.head.method, request.query),
            (_, Some(files), Some(path)) if path.starts_with(b"/") => {
                files.page(cache, &FileRequest { path, ..*request })
            }
            _ => ResponseKind::NotFound,
        };
        ResponsePlan::new(page, request.head.method)
    }

    pub(super) const fn files(&self) -> Option<&Files> {
        self.files.as_ref()
    }

    #[inline]
    pub(super) fn reply<'a>(&'a self, page: &'a ResponseKind) -> ResponseRef<'a> {
        match page {
            ResponseKind::Text => self.greeting.reply(),
            ResponseKind::FortyTwo => self.forty_two.reply(page),
            ResponseKind::BadRequest => ResponseRef::Whole(400, &self.bad_request),
            ResponseKind::File(cached, choice) => {
                cached.reply(*choice).unwrap_or(ResponseRef::Whole(404, &self.not_found))
            }
            _ => ResponseRef::Whole(404, &self.not_found),
        }
    }

    #[inline]
    pub(super) const fn busy_loop(&self) -> Option<&BusyLoop> {
        self.greeting.busy_loop()
    }
}

fn plan_delay(method: Method, query: &[u8]) -> ResponsePlan {
    match delay_ms(query) {
        Some(delay_ms) => ResponsePlan {
            delay_ns: delay_ms * 1_000_000,
            ..ResponsePlan::new(ResponseKind::Text, method)
        },
        None => ResponsePlan::new(ResponseKind::BadRequest, method),
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
        let contract = Contract::new(None, Duration::from_millis(3), 0);
        let plan = |method: &str, target: &str| {
            let bytes = format!("{method} {target} HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes();
            let head = HeadReader::default().read(&bytes, &Limits::DEFAULT).expect("a good head");
            let head = head.expect("a whole head");
            let (path, query) = target.split_at(target.find('?').unwrap_or(target.len()));
            let (path, query) = (path.as_bytes(), query.as_bytes());
            let request = FileRequest { head: &head, bytes: &bytes, path, query, now_ns: 0 };
            contract.plan(&mut WorkerCache::default(), &request)
        };
        let page = |method: &str, target: &str| format!("{:?}", plan(method, target).kind);
        assert_eq!(page("GET", "/"), "Text");
        assert_eq!(page("GET", "/?x"), "Text");
        assert_eq!(page("HEAD", "/"), "Text");
        assert_eq!(page("GET", "/42"), "FortyTwo");
        assert_eq!(page("GET", "/delay?ms=5"), "Text");
        assert_eq!(page("GET", "/delay"), "BadRequest");
        assert_eq!(page("GET", "/files/1k.bin"), "NotFound");
        assert_eq!(page("POST", "/42"), "NotFound");
        assert_eq!(page("POST", "/"), "NotFound");
        assert_eq!(plan("GET", "/").delay_ns, 3_000_000);
        assert_eq!(plan("GET", "/42").delay_ns, 0);
        assert_eq!(plan("GET", "/delay?ms=5").delay_ns, 5_000_000);
    }
}
