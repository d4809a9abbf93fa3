//! The contract of the comparison of nine server cores: `GET /` is 42, everything else is not
//! found.
//!
//! That comparison fixed the header fields, so exactly these are sent, and no Date.

use jissoku_http::Method;
use jissoku_http::response::StaticResponse;

use super::{ResponseKind, ResponsePlan, ResponseRef, path_of, plain};

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
            not_found: plain("Not Found\n"),
        }
    }

    #[inline]
    pub(super) fn plan(method: Method, path_and_query: &[u8]) -> ResponsePlan {
        let is_it = method == Method::Get && path_of(path_and_query) == b"/";
        ResponsePlan::new(
            if is_it { ResponseKind::FortyTwo } else { ResponseKind::NotFound },
            method,
        )
    }

    #[inline]
    pub(super) const fn reply(&self, page: &ResponseKind) -> ResponseRef<'_> {
        match page {
            ResponseKind::FortyTwo => {
                ResponseRef::Verbatim { keep_alive: &self.keep_alive, close: &self.close }
            }
            _ => ResponseRef::Whole(404, &self.not_found),
        }
    }
}
