//! The contract of the comparison of nine server cores: `GET /` is 42, everything else is not found.
//!
//! That comparison looked at the header fields too, so exactly these are sent, and no Date.

use jissoku_http::Method;
use jissoku_http::response::Answer;

use super::{Page, Plan, Reply, path_of, plain};

/// Serves 42.
#[derive(Debug)]
pub struct FortyTwo {
    lives: Answer,
    ends: Answer,
    not_found: Answer,
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
            Answer::new(&format!("{head}{connection}\r\nContent-Type: text/plain\r\n"), b"42")
        };
        Self { lives: answer("keep-alive"), ends: answer("close"), not_found: plain("Not Found\n") }
    }

    #[inline]
    pub(super) fn plan(method: Method, path_and_query: &[u8]) -> Plan {
        let is_it = method == Method::Get && path_of(path_and_query) == b"/";
        Plan::new(if is_it { Page::FortyTwo } else { Page::NotFound }, method)
    }

    #[inline]
    pub(super) const fn reply(&self, page: &Page) -> Reply<'_> {
        match page {
            Page::FortyTwo => Reply::Verbatim { lives: &self.lives, ends: &self.ends },
            _ => Reply::Whole(404, &self.not_found),
        }
    }
}
