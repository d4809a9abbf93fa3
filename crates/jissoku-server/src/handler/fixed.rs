//! One text for every request, possibly late, possibly after burning time.

use std::sync::Arc;
use std::time::Duration;

use jissoku_http::Method;
use jissoku_http::response::Answer;

use super::{Page, Plan, Reply};
use crate::limits::SHARED_SIZE_MIN;
use crate::spin::Spin;

/// Serves one text.
#[derive(Debug)]
pub struct Fixed {
    answer: Answer,
    /// The text, if it is too large to be copied behind its head.
    large: Option<Arc<[u8]>>,
    delay_ns: u64,
    spin: Option<Spin>,
}

impl Fixed {
    /// Answers every method on every path with `text`, no sooner than `delay` after the request came, and
    /// after burning `busy_ns` nanoseconds of this core's time (accurate to some 10 ns).
    #[must_use]
    pub fn new(text: &str, delay: Duration, busy_ns: u64) -> Self {
        let charset = if text.is_ascii() { "" } else { "; charset=utf-8" };
        let fields = format!("Content-Type: text/plain{charset}\r\n");
        let (answer, large) = if text.len() < SHARED_SIZE_MIN {
            (Answer::new(&fields, text.as_bytes()), None)
        } else {
            (Answer::head_only(&fields, text.len() as u64), Some(text.as_bytes().into()))
        };
        Self {
            answer,
            large,
            delay_ns: u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX),
            spin: Spin::calibrate(busy_ns),
        }
    }

    #[inline]
    pub(super) fn plan(&self, method: Method) -> Plan {
        let plan = Plan::new(Page::Text, method);
        Plan { delay_ns: self.delay_ns, is_busy: self.spin.is_some(), ..plan }
    }

    #[inline]
    pub(super) const fn reply(&self) -> Reply<'_> {
        match &self.large {
            None => Reply::Whole(200, &self.answer),
            Some(text) => Reply::Split(200, &self.answer, text),
        }
    }

    #[inline]
    pub(super) const fn spin(&self) -> Option<&Spin> {
        self.spin.as_ref()
    }
}
