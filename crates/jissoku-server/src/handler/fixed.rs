//! One text for every request, optionally after a delay or a busy loop.

use std::sync::Arc;
use std::time::Duration;

use jissoku_http::Method;
use jissoku_http::response::StaticResponse;

use super::{ResponseKind, ResponsePlan, ResponseRef};
use crate::busy_loop::BusyLoop;
use crate::limits::SHARED_SIZE_MIN;

/// Serves one text.
#[derive(Debug)]
pub struct Fixed {
    answer: StaticResponse,
    /// The text, if it is too large to be copied behind its head.
    large: Option<Arc<[u8]>>,
    delay_ns: u64,
    busy_loop: Option<BusyLoop>,
}

impl Fixed {
    /// Responds to every method on every path with `text`, `delay` after the request was received,
    /// and after a busy loop of `busy_ns` nanoseconds (accurate to about 10 ns).
    #[must_use]
    pub fn new(text: &str, delay: Duration, busy_ns: u64) -> Self {
        let charset = if text.is_ascii() { "" } else { "; charset=utf-8" };
        let fields = format!("Content-Type: text/plain{charset}\r\n");
        let (answer, large) = if text.len() < SHARED_SIZE_MIN {
            (StaticResponse::new(&fields, text.as_bytes()), None)
        } else {
            (StaticResponse::head_only(&fields, text.len() as u64), Some(text.as_bytes().into()))
        };
        Self {
            answer,
            large,
            delay_ns: u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX),
            busy_loop: BusyLoop::calibrate(busy_ns),
        }
    }

    #[inline]
    pub(super) fn plan(&self, method: Method) -> ResponsePlan {
        let plan = ResponsePlan::new(ResponseKind::Text, method);
        ResponsePlan { delay_ns: self.delay_ns, is_busy: self.busy_loop.is_some(), ..plan }
    }

    #[inline]
    pub(super) const fn reply(&self) -> ResponseRef<'_> {
        match &self.large {
            None => ResponseRef::Whole(200, &self.answer),
            Some(text) => ResponseRef::Split(200, &self.answer, text),
        }
    }

    #[inline]
    pub(super) const fn busy_loop(&self) -> Option<&BusyLoop> {
        self.busy_loop.as_ref()
    }
}
