//! The handler of one worker: brings clients and servers together.

mod bodies;
mod client_end;
mod connections;
pub(crate) mod edits;
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
use std::rc::Rc;
use std::sync::Arc;

use jissoku_http::forward::ForwardError;
use jissoku_os::clock;
use jissoku_os::driver::{Action, ConnectionId, NewConnection, Opening, SendBuffer};
use jissoku_os::timers::earliest;
use jissoku_server::{
    AbandonReason, Background, BodyFlow, Handler, LogRecord, Metrics, Outbound, Progress,
    RequestHead, Response, Service, Timers, TlsFailure, TlsOpening, UpstreamEvent,
    UpstreamEventKind, WorkerInfo,
};

use crate::client::{Client, ClientSide, Lost};
use crate::config::{Forwarding, Gateway};
use crate::exchange::Exchange;
use crate::failure::Fault;
use crate::gather::{GatherState, LostGathering};
use crate::policy::fields::FieldRules;
use crate::policy::random::Random;
use crate::policy::retry::HedgeDelay;
use crate::policy::routes::Captures;
use crate::pool::Pool;
use crate::server_set::UpstreamGroup;
use crate::upstream_connection::{Phase, Sending, UpstreamConnections};
use crate::worker_upstream::WorkerUpstream;
use crate::{Key, Slab};

/// Forwards the requests of one worker.
#[derive(Debug)]
pub struct GatewayHandler {
    service: Arc<Gateway>,
    worker: usize,
    exchanges: Slab<Exchange>,
    upstreams: UpstreamConnections,
    /// This worker's view of each upstream.
    servers: Vec<WorkerUpstream>,
    ready: Ready,
    /// Number of exchanges whose client is gone.
    orphans: usize,
    /// Connections for the driver to open, or to take over if they have a socket already.
    openings: VecDeque<(Key, Option<OwnedFd>)>,
    /// When exchanges are sent again.
    retries: Timers<Key>,
    /// When second copies of late exchanges are sent.
    hedges: Timers<Key>,
    /// For each route with second copies, how late a response must be.
    hedge_delays: Vec<HedgeDelay>,
    /// The fields of responses of each edit, which exchanges share.
    response_rules: Vec<Rc<FieldRules>>,
    /// When the queues are served next, if requests wait there.
    queues_due_ns: Option<u64>,
    /// When idle connections are counted and opened next, if a minimum is configured.
    spares_due_ns: Option<u64>,
    /// Whether a shutdown has begun: connections are not kept.
    is_retired: bool,
    random: Random,
    gather: GatherState,
    /// Exchanges of requests that were dropped; they may have ended since.
    lost: Lost<Key>,
    lost_gatherings: Lost<LostGathering>,
    now_ns: u64,
}

impl GatewayHandler {
    /// The handler of a worker, whose choices between servers depend on `seed`.
    fn new(service: Arc<Gateway>, worker: usize, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let servers = service
            .upstreams
            .iter()
            .map(|upstream| WorkerUpstream::new(upstream, random.next()))
            .collect();
        let pool = |upstream: &Arc<UpstreamGroup>| Pool::new(upstream.options.policy.idle_min);
        let pools = service.upstreams.iter().map(pool).collect();
        let now_ns = clock::monotonic_ns();
        let fields_max = service.fields_max;
        let hedges = service.hedges.iter();
        let gather = GatherState::new(service.gather_memory);
        let edits = service.edits.iter();
        let response_rules = edits.map(|edit| Rc::new(edit.response.clone())).collect();
        let hedge_delays = hedges.map(|hedge| HedgeDelay::new(hedge.after, now_ns)).collect();
        Self {
            worker,
            servers,
            random,
            service,
            exchanges: Slab::default(),
            upstreams: UpstreamConnections::new(pools, fields_max),
            ready: Ready::default(),
            orphans: 0,
            openings: VecDeque::new(),
            retries: Timers::default(),
            hedges: Timers::default(),
            hedge_delays,
            response_rules,
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

/// The result of a call of `respond`.
#[derive(Debug)]
struct Reply {
    progress: Progress,
    /// The exchange that has ended.
    ended: Option<Key>,
    /// Why the request is not forwarded.
    refused: Option<ForwardError>,
}

impl Service for Gateway {
    type Handler = GatewayHandler;

    fn handler(self: &Arc<Self>, worker: &WorkerInfo) -> io::Result<GatewayHandler> {
        self.start_helpers()?;
        let mut handler =
            GatewayHandler::new(Arc::clone(self), worker.index, RandomState::new().hash_one(()));
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
    type Request = ClientSide;

    fn on_open(&mut self, opened: &NewConnection<'_>) -> Client {
        Client::new(opened, &self.service.secure_listeners)
    }

    fn on_head(&mut self, client: &mut Client, request: &RequestHead<'_>) -> ClientSide {
        let service = &self.service;
        let edit = service.common_edit;
        let forwarding = Forwarding { edit, ..Forwarding::new(0, service.timeouts.head_ns) };
        self.begin(client, request, forwarding, &Captures::default())
    }

    fn body_flow(&self, request: &ClientSide) -> BodyFlow {
        self.flow(request)
    }

    fn on_body(&mut self, request: &mut ClientSide, part: &[u8]) {
        self.take_body(request, part);
    }

    fn on_end(&mut self, request: &mut ClientSide) {
        self.take_end(request);
    }

    fn on_hangup(&mut self, _client: &mut Client, request: &mut ClientSide) {
        let ended = self.record_hangup(request);
        self.ready.extend(ended);
    }

    fn respond(
        &mut self,
        client: &mut Client,
        request: &mut ClientSide,
        response: &mut Response<'_>,
    ) -> Progress {
        self.now_ns = response.now_ns();
        let Reply { progress, ended, refused } = self.reply(client, request, response);
        if let Some(error) = refused {
            Self::log_refusal(error, response.log_record());
        }
        if let Some(key) = ended {
            self.log_exchange(key, response.log_record());
            self.end_exchange(key);
        }
        progress
    }

    fn on_abandon(
        &mut self,
        _client: &mut Client,
        request: ClientSide,
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
        earliest([
            self.upstreams.earliest_ns(),
            self.queues_due_ns,
            self.spares_due_ns,
            self.retries.earliest_ns(),
            self.gather.earliest_ns(),
            self.hedges.earliest_ns(),
        ])
    }

    fn next_ready(&mut self, now_ns: u64) -> Option<ConnectionId> {
        self.now_ns = now_ns;
        self.end_lost();
        while let Some(key) = self.upstreams.take_due(now_ns) {
            self.end_phase(key);
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
                let endpoint = Arc::clone(connection.server().1);
                return Some(Opening { endpoint, token: key.token(), socket });
            }
        }
        None
    }

    fn on_opening(&mut self, token: u64, id: ConnectionId) {
        self.upstreams.set_id(Key::from_token(token), Some(id));
    }

    fn tls(&mut self, token: u64) -> Option<TlsOpening> {
        let (upstream, endpoint) = self.upstreams.get_ref(Key::from_token(token))?.server();
        let name = self.servers[upstream].tls_name(endpoint);
        self.service.upstreams[upstream].options.tls_with(name)
    }

    fn on_event(&mut self, event: UpstreamEvent<'_>, output: &mut SendBuffer) -> Action {
        self.now_ns = event.now_ns;
        let key = Key::from_token(event.token);
        match event.kind {
            UpstreamEventKind::Connected => self.on_connected(key, output),
            UpstreamEventKind::Data { bytes, unsent } => self.on_data(key, bytes, unsent),
            UpstreamEventKind::Eof { is_clean } => self.on_eof(key, is_clean),
            UpstreamEventKind::Resumed { unsent } => self.on_resumed(key, unsent, output),
        }
    }

    fn on_close(&mut self, token: u64, error: Option<&io::Error>, now_ns: u64) {
        self.now_ns = now_ns;
        let key = Key::from_token(token);
        let failure = error.and_then(TlsFailure::of);
        if let Some(TlsFailure::Certificate(fault)) = failure {
            self.report_certificate(key, fault);
        }
        let Some(upstream) = self.upstreams.get(key) else { return };
        match (upstream.phase(), error) {
            (Phase::Connecting(_), Some(error)) => return self.on_connect_error(key, error),
            (Phase::Connecting(_), None) => self.fail_exchange(key, Fault::Closed),
            (Phase::Busy(exchange, Sending::Pending), _) => self.replace(key, exchange),
            (Phase::Busy(..), _) => {
                let fault = failure.map_or_else(|| upstream.reset_fault(), Fault::Tls);
                self.fail_exchange(key, fault);
            }
            (Phase::Finishing(exchange), _) => self.end_upload(key, exchange),
            (Phase::Idle, _) => self.upstreams.record_closing(key, now_ns),
            (Phase::Reopening(_) | Phase::Preconnect | Phase::Ending | Phase::Closing, _) => {}
        }
        self.upstreams.remove(key, now_ns);
    }
}

/// What is to be continued in this wake-up: connections of either side, and exchanges that have no
/// client any more.
#[derive(Debug, Default)]
struct Ready {
    connections: VecDeque<ConnectionId>,
    orphans: VecDeque<Key>,
}

impl Ready {
    fn push_back(&mut self, connection: ConnectionId) {
        self.connections.push_back(connection);
    }

    fn extend(&mut self, connection: Option<ConnectionId>) {
        self.connections.extend(connection);
    }

    /// There is more of the response to an exchange.
    fn wake(&mut self, key: Key, exchange: &Exchange) {
        if exchange.is_orphan() {
            self.orphans.push_back(key);
        } else {
            self.connections.push_back(exchange.client());
        }
    }

    fn pop_front(&mut self) -> Option<ConnectionId> {
        self.connections.pop_front()
    }

    /// The next exchange without a client.
    fn pop_orphan(&mut self) -> Option<Key> {
        self.orphans.pop_front()
    }
}

#[cfg(test)]
mod tests;
