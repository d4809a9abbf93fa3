//! The handler of one worker: brings clients and servers together.

mod bodies;
mod client_end;
mod connections;
mod events;
mod gather;
mod hedge;
mod response;
mod retry;
mod spare;
mod status_retry;
mod telemetry;

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use jissoku_os::clock;
use jissoku_os::driver::{ConnectionId, NewConnection, Next, Opening, SendBuffer};
use jissoku_server::{
    AbandonReason, Background, BodyFlow, Handler, LogRecord, Metrics, Outbound, Progress,
    RequestHead, Response, Service, Timers, UpstreamEvent, UpstreamEventKind, WorkerInfo,
};

use jissoku_upstream::random::Random;
use jissoku_upstream::retry::HedgeDelay;

use crate::client::Client;
use crate::config::{Forwarding, Gateway};
use crate::diagnostics::Diagnostics;
use crate::error_response;
use crate::exchange::Exchange;
use crate::failure::Fault;
use crate::gather::{GatherState, LostGathering};
use crate::lost::Lost;
use crate::ready::Ready;
use crate::request::{Request, RequestState};
use crate::servers::Servers;
use crate::slab::{Key, Slab};
use crate::upstream::{Sending, State};
use crate::upstream_table::UpstreamTable;

/// Forwards the requests of one worker.
#[derive(Debug)]
pub struct GatewayHandler {
    service: Arc<Gateway>,
    exchanges: Slab<Exchange>,
    upstreams: UpstreamTable,
    /// Of each upstream.
    servers: Vec<Servers>,
    ready: Ready,
    /// How many exchanges have no client any more.
    orphans: usize,
    /// To be opened, or opened before they were the driver's.
    openings: VecDeque<(Key, Option<OwnedFd>)>,
    /// Exchanges that are sent again.
    retries: Timers<Key>,
    /// Exchanges of which a second copy is sent if their responses are late.
    hedges: Timers<Key>,
    /// Of each route with second copies: when one is sent.
    hedge_delays: Vec<HedgeDelay>,
    /// When the queues are looked at, if requests wait there.
    queues_due_ns: Option<u64>,
    /// When it is looked at how many connections are idle, if some are to be.
    spares_due_ns: Option<u64>,
    /// A shutdown has begun: no connections are kept.
    is_retired: bool,
    random: Random,
    gather: GatherState,
    /// Exchanges of requests that were dropped; they may have ended since.
    lost: Lost<Key>,
    lost_gatherings: Lost<LostGathering>,
    now_ns: u64,
}

impl GatewayHandler {
    fn new(service: Arc<Gateway>) -> Self {
        let mut random = Random::new(RandomState::new().hash_one(()));
        let servers = service
            .upstreams
            .iter()
            .map(|upstream| Servers::new(upstream, random.next()))
            .collect();
        let now_ns = clock::monotonic_ns();
        let fields_max = service.fields_max;
        let hedges = service.hedges.iter();
        let gather = GatherState::new(service.gather_memory);
        let hedge_delays = hedges.map(|hedge| HedgeDelay::new(hedge.after, now_ns)).collect();
        Self {
            servers,
            random,
            service,
            exchanges: Slab::default(),
            upstreams: UpstreamTable::new(fields_max),
            ready: Ready::default(),
            orphans: 0,
            openings: VecDeque::new(),
            retries: Timers::default(),
            hedges: Timers::default(),
            hedge_delays,
            queues_due_ns: None,
            spares_due_ns: None,
            is_retired: false,
            gather,
            lost: Lost::default(),
            lost_gatherings: Lost::default(),
            now_ns: 0,
        }
    }
}

impl Service for Gateway {
    type Handler = GatewayHandler;

    fn handler(self: &Arc<Self>, _worker: &WorkerInfo) -> io::Result<GatewayHandler> {
        self.start_helpers()?;
        let mut handler = GatewayHandler::new(Arc::clone(self));
        handler.open_first_spares()?;
        Ok(handler)
    }

    fn report_to(&self, metrics: &Metrics) {
        for upstream in &self.upstreams {
            upstream.report_to(metrics);
        }
    }
}

impl Handler for GatewayHandler {
    type Connection = Client;
    type Request = Request;

    fn on_open(&mut self, opened: &NewConnection<'_>) -> Client {
        Client::new(opened)
    }

    fn on_head(&mut self, client: &mut Client, request: &RequestHead<'_>) -> Request {
        let forwarding = Forwarding::new(0, self.service.timeouts.head_ns);
        self.begin(client, request, forwarding)
    }

    fn body_flow(&self, request: &Request) -> BodyFlow {
        self.flow(request)
    }

    fn on_body(&mut self, request: &mut Request, part: &[u8]) {
        self.take_body(request, part);
    }

    fn on_end(&mut self, request: &mut Request) {
        self.take_end(request);
    }

    fn on_hangup(&mut self, _client: &mut Client, request: &mut Request) {
        let ended = self.note_hangup(request);
        self.ready.extend(ended);
    }

    fn respond(
        &mut self,
        client: &mut Client,
        request: &mut Request,
        response: &mut Response<'_>,
    ) -> Progress {
        self.now_ns = response.now_ns();
        match self.start_if_ready(client, request) {
            RequestState::Refused(error) => {
                if request.is_cut_off {
                    response.close_after();
                }
                let error_type = Some(error.error_type()).filter(|name| !name.is_empty());
                let diagnostics = Diagnostics { error: error_type, ..Diagnostics::default() };
                let fields = if request.is_diagnosed { diagnostics.lines() } else { String::new() };
                error_response::write(error.status(), &fields, response);
                Self::log_refusal(error, response.log_record());
                Progress::Complete
            }
            RequestState::Collecting(_) => Progress::Pending,
            RequestState::Forwarded(key) => {
                let key = self.settle(key);
                request.state = RequestState::Forwarded(key);
                if let Some(progress) = self.abort(key, response) {
                    return progress;
                }
                let progress = self.write(key, response);
                if matches!(progress, Progress::Complete | Progress::Reset) {
                    self.log_exchange(key, response.log_record());
                    self.end_exchange(key);
                }
                progress
            }
        }
    }

    fn on_abandon(
        &mut self,
        _client: &mut Client,
        request: Request,
        reason: AbandonReason,
        log: &mut LogRecord<'_>,
    ) {
        match reason {
            AbandonReason::Rejected => {
                self.record_end(&request, "http_request_error", log);
                self.abandon(&request);
            }
            AbandonReason::Closed => self.lose_client(&request, None, log),
        }
    }

    fn outbound(&mut self) -> Option<&mut impl Outbound> {
        Some(self)
    }
}

impl Background for GatewayHandler {
    fn on_shutdown(&mut self) {
        self.retire();
    }

    fn is_busy(&self) -> bool {
        self.orphans > 0
    }

    fn deadline_ns(&self) -> Option<u64> {
        let retry_ns = self.retries.earliest_ns();
        let gather_ns = self.gather.earliest_ns();
        let hedge_ns = self.hedges.earliest_ns();
        let own = [self.upstreams.earliest_ns(), self.queues_due_ns, self.spares_due_ns];
        own.into_iter().chain([retry_ns, gather_ns, hedge_ns]).flatten().min()
    }

    fn next_ready(&mut self, now_ns: u64) -> Option<ConnectionId> {
        self.now_ns = now_ns;
        self.end_lost();
        while let Some(key) = self.upstreams.take_due(now_ns) {
            self.end_state(key);
        }
        while let Some(key) = self.ready.pop_orphan() {
            self.continue_orphan(key);
        }
        self.retry_due();
        self.hedge_due();
        self.serve_queues();
        self.open_spares();
        if let Some(client) = self.gather.take_due(now_ns) {
            return Some(client);
        }
        self.ready.pop_front()
    }
}

impl Outbound for GatewayHandler {
    fn next_opening(&mut self) -> Option<Opening> {
        while let Some((key, socket)) = self.openings.pop_front() {
            if let Some(connection) = self.upstreams.get(key) {
                let endpoint = Arc::clone(&connection.endpoint);
                return Some(Opening { endpoint, token: key.token(), socket });
            }
        }
        None
    }

    fn on_opening(&mut self, token: u64, id: ConnectionId) {
        if let Some(upstream) = self.upstreams.get(Key::from_token(token)) {
            upstream.id = Some(id);
        }
    }

    fn on_event(&mut self, event: UpstreamEvent<'_>, output: &mut SendBuffer) -> Next {
        self.now_ns = event.now_ns;
        let key = Key::from_token(event.token);
        match event.kind {
            UpstreamEventKind::Connected => self.on_connected(key, output),
            UpstreamEventKind::Data { bytes, unsent } => self.on_data(key, bytes, unsent),
            UpstreamEventKind::Eof => self.on_eof(key),
            UpstreamEventKind::Resumed { unsent } => self.on_resumed(key, unsent, output),
        }
    }

    fn on_close(&mut self, token: u64, error: Option<&io::Error>, now_ns: u64) {
        self.now_ns = now_ns;
        let key = Key::from_token(token);
        let Some(upstream) = self.upstreams.get(key) else { return };
        match (upstream.state(), error) {
            (State::Connecting(_), Some(error)) => return self.on_connect_error(key, error),
            (State::Connecting(_), None) => self.fail_exchange(key, Fault::Closed),
            (State::Busy(exchange, Sending::Pending), _) => self.replace(key, exchange),
            (State::Busy(..), _) => {
                let fault = upstream.reset_fault();
                self.fail_exchange(key, fault);
            }
            (State::Finishing(exchange), _) => self.end_upload(exchange),
            (State::Idle, _) => {
                let pool = &mut self.servers[upstream.pool].pool;
                pool.remove_closed(key, &upstream.endpoint, now_ns);
            }
            (State::Reopening(_) | State::Spare | State::Ending | State::Closing, _) => {}
        }
        self.end_busy(key);
        self.upstreams.remove(key);
    }
}

#[cfg(test)]
mod tests;
