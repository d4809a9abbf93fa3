//! The common contract of every target: a greeting, 42, a delay, and files.

use std::time::Duration;

use jissoku_http::Method;
use jissoku_http::response::Answer;

use super::{Files, Fixed, FortyTwo, Page, Plan, Reply, path_of, plain};
use crate::limits::DELAY_MS_MAX;
use crate::spin::Spin;

const GREETING: &str = "Hello, World!";

/// Serves the whole contract from one process.
#[derive(Debug)]
pub struct Contract {
    greeting: Fixed,
    forty_two: Box<FortyTwo>,
    files: Option<Files>,
    bad_request: Answer,
    not_found: Answer,
}

impl Contract {
    /// `files` are served below `/files/`; `delay` and `busy_ns` apply to `/`, as in [`Fixed::new`].
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
    pub(super) fn plan(&self, method: Method, path_and_query: &[u8]) -> Plan {
        let is_read = matches!(method, Method::Get | Method::Head);
        if is_read && path_and_query == b"/" {
            return self.greeting.plan(method);
        }
        self.plan_other(method, is_read, path_and_query)
    }

    fn plan_other(&self, method: Method, is_read: bool, path_and_query: &[u8]) -> Plan {
        let path = path_of(path_and_query);
        let page = match path {
            _ if !is_read => Page::NotFound,
            b"/" => return self.greeting.plan(method),
            b"/42" => Page::FortyTwo,
            b"/delay" => return plan_delay(method, &path_and_query[path.len()..]),
            _ => match (&self.files, path.strip_prefix(b"/files")) {
                (Some(files), Some(rest)) if rest.starts_with(b"/") => files.find(rest),
                _ => Page::NotFound,
            },
        };
        Plan::new(page, method)
    }

    #[inline]
    pub(super) fn reply<'a>(&'a self, page: &'a Page) -> Reply<'a> {
        match (page, &self.files) {
            (Page::Text, _) => self.greeting.reply(),
            (Page::FortyTwo, _) => self.forty_two.reply(page),
            (Page::BadRequest, _) => Reply::Whole(400, &self.bad_request),
            (Page::File(_) | Page::Moved(_), Some(files)) => files.reply(page),
            _ => Reply::Whole(404, &self.not_found),
        }
    }

    #[inline]
    pub(super) const fn spin(&self) -> Option<&Spin> {
        self.greeting.spin()
    }
}

fn plan_delay(method: Method, query: &[u8]) -> Plan {
    match delay_ms(query) {
        Some(delay_ms) => Plan { delay_ns: delay_ms * 1_000_000, ..Plan::new(Page::Text, method) },
        None => Plan::new(Page::BadRequest, method),
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
        let page =
            |method, path: &str| format!("{:?}", contract.plan(method, path.as_bytes()).page);
        assert_eq!(page(Method::Get, "/"), "Text");
        assert_eq!(page(Method::Get, "/?x"), "Text");
        assert_eq!(page(Method::Head, "/"), "Text");
        assert_eq!(page(Method::Get, "/42"), "FortyTwo");
        assert_eq!(page(Method::Get, "/delay?ms=5"), "Text");
        assert_eq!(page(Method::Get, "/delay"), "BadRequest");
        assert_eq!(page(Method::Get, "/files/1k.bin"), "NotFound");
        assert_eq!(page(Method::Post, "/42"), "NotFound");
        assert_eq!(page(Method::Post, "/"), "NotFound");
        assert_eq!(contract.plan(Method::Get, b"/").delay_ns, 3_000_000);
        assert_eq!(contract.plan(Method::Get, b"/42").delay_ns, 0);
        assert_eq!(contract.plan(Method::Get, b"/delay?ms=5").delay_ns, 5_000_000);
    }
}
