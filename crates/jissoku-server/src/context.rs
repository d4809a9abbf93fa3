//! The state of a worker that its connections use.

use jissoku_http::LastHead;
use jissoku_os::driver::{Action, ConnectionId, SendBuffer};
use jissoku_os::timers::Timers;

use crate::early_output::EarlyState;
use crate::handler::{Handler, Outbound as _, UpstreamEvent, UpstreamEventKind};
use crate::limits::{Limits, REFUSALS_MAX};
use crate::request_id::RequestIds;
use crate::shutdown::{MOVE_DRAIN, Shutdown};
use crate::status_lines::StatusLineCache;
use crate::telemetry::Telemetry;

/// The state of a worker that its connections use.
#[derive(Debug)]
pub(crate) struct WorkerContext<H> {
    pub(crate) handler: H,
    pub(crate) limits: Limits,
    pub(crate) last_head: LastHead,
    pub(crate) status_lines: StatusLineCache,
    pub(crate) timers: Timers<ConnectionId>,
    pub(crate) telemetry: Telemetry,
    /// `None` if requests get no ids.
    pub(crate) request_ids: Option<RequestIds>,
    /// Reusable buffer for a head whose target is in absolute form.
    pub(crate) head_text: Vec<u8>,
    /// Reusable buffer for plaintext that is about to be encrypted.
    plain: SendBuffer,
    /// Reusable buffer for decrypted input.
    pub(crate) decrypted: Vec<u8>,
    pub(crate) early: EarlyState,
    pub(crate) over_limit_open: usize,
    /// Connections that discard input.
    pub(crate) lingering: usize,
    /// The time of this wake-up, on the monotonic clock.
    pub(crate) now_ns: u64,
    pub(crate) shutdown: Option<Shutdown>,
    /// Whether idle connections cannot be moved after all.
    pub(crate) keeps_connections: bool,
    /// Number of complete responses.
    pub(crate) response_count: u64,
}

impl<H: Handler> WorkerContext<H> {
    pub(crate) fn new(handler: H, limits: Limits, telemetry: Telemetry, now_ns: u64) -> Self {
        Self {
            handler,
            limits,
            last_head: LastHead::default(),
            status_lines: StatusLineCache::new(now_ns),
            timers: Timers::default(),
            telemetry,
            request_ids: None,
            head_text: Vec::new(),
            plain: SendBuffer::default(),
            decrypted: Vec::new(),
            early: EarlyState::default(),
            over_limit_open: 0,
            lingering: 0,
            now_ns,
            shutdown: None,
            keeps_connections: false,
            response_count: 0,
        }
    }

    /// Whether a connection over a limit may linger, to read the 503.
    pub(crate) const fn may_linger_over_limit(&self) -> bool {
        self.over_limit_open <= REFUSALS_MAX
    }

    /// Passes an event of a connection that the handler has opened to the handler.
    pub(crate) fn call_outbound(
        &mut self,
        token: u64,
        kind: UpstreamEventKind<'_>,
        output: &mut SendBuffer,
    ) -> Action {
        let event = UpstreamEvent { token, kind, now_ns: self.now_ns };
        self.handler.outbound().map_or(Action::Close, |outbound| outbound.on_event(event, output))
    }

    /// Takes the empty plaintext buffer.
    pub(crate) fn take_plain_buffer(&mut self) -> SendBuffer {
        std::mem::take(&mut self.plain)
    }

    /// Returns the plaintext buffer; `plain` is empty.
    pub(crate) fn return_plain_buffer(&mut self, plain: SendBuffer) {
        self.plain = plain;
    }

    #[inline]
    pub(crate) const fn is_stopping(&self) -> bool {
        self.shutdown.is_some()
    }

    /// Whether idle connections are passed on to another worker.
    #[inline]
    pub(crate) fn moves_connections(&self) -> bool {
        let is_asked = self.shutdown.is_some_and(|shutdown| shutdown.signal == MOVE_DRAIN);
        is_asked && !self.keeps_connections
    }

    /// Whether the time for requests in flight is over.
    pub(crate) const fn shutdown_deadline_passed(&self) -> bool {
        match &self.shutdown {
            Some(shutdown) => shutdown.is_over(self.now_ns),
            None => false,
        }
    }

    /// As [`WorkerContext::shutdown_deadline_passed`], for a response that has begun or a tunnel.
    pub(crate) const fn streams_deadline_passed(&self) -> bool {
        match &self.shutdown {
            Some(shutdown) => shutdown.is_over_for_streams(self.now_ns),
            None => false,
        }
    }

    /// Whether a connection idle for `idle_ns` may be closed because of a shutdown.
    pub(crate) const fn may_close_idle(&self, idle_ns: u64) -> bool {
        match &self.shutdown {
            Some(shutdown) => shutdown.may_close_idle(idle_ns, self.now_ns),
            None => false,
        }
    }
}
