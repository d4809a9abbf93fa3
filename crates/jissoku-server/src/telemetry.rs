//! Telemetry of a worker: metrics and the access log.
//!
//! When neither is enabled, each call costs one comparison.

use std::sync::Arc;

use jissoku_http::Head;
use jissoku_os::driver::NewConnection;

use crate::app_times::AppTimes;
use crate::log::{LogEntry, LogSink, Recorder, ResponseInfo};
use crate::metrics::{Counter, Metrics, ShardHandle, ShardOwner};

/// Which telemetry a server records.
#[derive(Clone, Debug, Default)]
pub struct TelemetryConfig {
    /// The access log.
    pub log: Option<LogSink>,
    /// The metrics.
    pub metrics: Option<Arc<Metrics>>,
}

impl TelemetryConfig {
    pub(crate) fn telemetry(&self) -> Telemetry {
        Telemetry {
            shard_owner: self.metrics.as_ref().map(|metrics| metrics.shard_owner()),
            recorder: self.log.as_ref().map(LogSink::recorder),
        }
    }
}

/// The log entry of a connection; `None` without an access log.
pub(crate) type LogSlot = Option<Box<LogEntry>>;

#[derive(Debug, Default)]
pub(crate) struct Telemetry {
    shard_owner: Option<ShardOwner>,
    recorder: Option<Recorder>,
}

impl Telemetry {
    /// Records an accepted connection.
    #[inline]
    pub(crate) fn open(&mut self, arrival: &NewConnection<'_>) -> LogSlot {
        self.count(Counter::Accepted, 1);
        let recorder = self.recorder.as_mut()?;
        Some(recorder.open(arrival.peer()))
    }

    /// Records a closed connection.
    #[inline]
    pub(crate) fn close(&mut self, log_slot: LogSlot) {
        self.count(Counter::Closed, 1);
        if let (Some(recorder), Some(entry)) = (&mut self.recorder, log_slot) {
            recorder.close(entry);
        }
    }

    #[inline]
    pub(crate) fn count(&self, counter: Counter, size: u64) {
        if let Some(shard_owner) = &self.shard_owner {
            shard_owner.add(counter, size);
        }
    }

    /// Counts the phases of a request that an application has answered.
    pub(crate) fn count_times(&self, times: AppTimes) {
        if let Some(shard_owner) = &self.shard_owner {
            shard_owner.add_times(times);
        }
    }

    /// A second handle to the counters.
    pub(crate) fn shard_handle(&self) -> ShardHandle {
        self.shard_owner.as_ref().map(ShardOwner::shard_handle).unwrap_or_default()
    }

    /// Whether responses are recorded.
    #[inline]
    pub(crate) const fn is_on(&self) -> bool {
        self.shard_owner.is_some() || self.recorder.is_some()
    }

    /// Records a parsed request, whose head is at the front of `bytes`.
    #[inline]
    pub(crate) fn begin(
        &self,
        log_slot: &mut LogSlot,
        received_ns: u64,
        head: &Head,
        bytes: &[u8],
    ) {
        if let (Some(recorder), Some(entry)) = (&self.recorder, log_slot) {
            recorder.begin(entry, received_ns, head, bytes);
        }
    }

    pub(crate) fn finish(&mut self, log_slot: &mut LogSlot, response: ResponseInfo) {
        self.count(Counter::of_status(response.status), 1);
        if let (Some(recorder), Some(entry)) = (&mut self.recorder, log_slot) {
            recorder.finish(entry, response);
        }
    }

    /// Records an error response; `bytes` is the rejected input, as far as it is available.
    pub(crate) fn reject(&mut self, log_slot: &mut LogSlot, response: ResponseInfo, bytes: &[u8]) {
        self.count(Counter::of_status(response.status), 1);
        if let (Some(recorder), Some(entry)) = (&mut self.recorder, log_slot) {
            recorder.reject(entry, response, bytes);
        }
    }

    /// Records a request whose connection was closed before its response was complete.
    pub(crate) fn abandon(&mut self, log_slot: &mut LogSlot, response: ResponseInfo) {
        if let (Some(recorder), Some(entry)) = (&mut self.recorder, log_slot) {
            recorder.abandon(entry, response);
        }
    }

    /// When [`Telemetry::wake`] wants to be called at the latest.
    #[inline]
    pub(crate) fn deadline_ns(&self) -> Option<u64> {
        self.recorder.as_ref().and_then(Recorder::deadline_ns)
    }

    /// Submits old log records; called at each wake-up.
    #[inline]
    pub(crate) fn wake(&mut self, now_ns: u64) {
        if let Some(recorder) = &mut self.recorder {
            recorder.wake(now_ns);
        }
    }
}
