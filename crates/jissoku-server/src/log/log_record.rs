//! The record of a request in the access log, as handlers see it.

use super::forwarded::Forwarded;
use super::record::LogEntry;
use crate::app_times::AppTimes;

/// The record of a request in the access log, if there is one.
#[derive(Debug, Default)]
pub struct LogRecord<'a>(Option<&'a mut LogEntry>);

impl<'a> LogRecord<'a> {
    pub(crate) const fn new(entry: Option<&'a mut LogEntry>) -> Self {
        Self(entry)
    }

    /// The same record, for a shorter time.
    pub(crate) fn reborrow(&mut self) -> LogRecord<'_> {
        LogRecord(self.0.as_deref_mut())
    }

    /// Whether there is one.
    #[must_use]
    pub const fn is_there(&self) -> bool {
        self.0.is_some()
    }

    /// Sets the phases of a request that an application has answered.
    pub(crate) const fn set_times(&mut self, times: AppTimes) {
        if let Some(entry) = &mut self.0 {
            entry.record.app_times = Some(times);
        }
    }

    /// Adds a request to another server. It is called at most once for each.
    pub fn add_forwarded(&mut self, forwarded: &Forwarded<'_>) {
        if let Some(entry) = &mut self.0 {
            entry.add_forwarded(forwarded);
        }
    }
}
