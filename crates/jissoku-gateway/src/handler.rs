//! The handler of one worker: brings clients and servers together.

mod connections;
mod events;
mod gather;
mod response;
mod retry;

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::Arc;

use jissoku_http::Head;
use jissoku_http::forward::{
    ClientFields, ForwardError, ForwardedHost, RequestEdit, write_request_head,
};
use jissoku_http::framing::Body;
use jissoku_os::driver::{ConnectionId, NewConnection, Next, Opening, SendBuffer};
use jissoku_server::{
    ForwardedFields, Handler, Origin, OwnedOrigin, Progress, RequestHead, Response, Service,
    UpstreamEvent, UpstreamEventKind, WorkerInfo,
};

use jissoku_upstream::balance::Balance;
use jissoku_upstream::random::{self, Random};

use crate::client::Client;
use crate::config::{Forwarding, Gateway};
use crate::deadlines::Deadlines;
use crate::error_response;
use crate::exchange::Exchange;
use crate::failure::Fault;
use crate::gather::GatherState;
use crate::place::Place;
use crate::servers::Servers;
use crate::slab::{Key, Slab};
use crate::upstream::{State, Upstream};

/// Forwards the requests of one worker.
#[derive(Debug)]
pub struct GatewayHandler {
    service: Arc<Gateway>,
    exchanges: Slab<Exchange>,
    upstreams: Slab<Upstream>,
    /// Of each upstream.
    servers: Vec<Servers>,
    /// Connections of either side that are to be resumed.
    ready: VecDeque<ConnectionId>,
    openings: VecDeque<Key>,
    /// Of connections to servers.
    deadlines: Deadlines,
    /// Exchanges that are sent again.
    retries: Deadlines,
    /// When the queues are looked at, if requests wait there.
    queues_due_ns: Option<u64>,
    random: Random,
    gather: GatherState,
    now_ns: u64,
}

/// A request.
#[derive(Debug)]
pub struct Request {
    state: RequestState,
    /// A chunked body is collected before the head is written, which has its size.
    chunked: Option<Box<ChunkedRequest>>,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug)]
enum RequestState {
    Refused(ForwardError),
    /// Its body is being received.
    Collecting(Key),
    Forwarded(Key),
}

/// A request with a chunked body.
#[derive(Debug)]
struct ChunkedRequest {
    head: Head,
    head_bytes: Vec<u8>,
    origin: Option<OwnedOrigin>,
    body: Vec<u8>,
}

/// The address that is appended to X-Forwarded-For: of the peer, which is behind those that it has
/// sent itself; or of the client, if it has named that in another field.
fn forwarded_address(origin: &Origin<'_>) -> Option<Box<str>> {
    let address = match origin.trusted_fields {
        Some(ForwardedFields::Forwarded) => origin.client,
        Some(ForwardedFields::XForwarded) | None => origin.peer,
    };
    address.map(|address| address.ip().to_canonical().to_string().into())
}

impl GatewayHandler {
    fn new(service: Arc<Gateway>) -> Self {
        let mut random = Random::new(RandomState::new().hash_one(()));
        let servers = service
            .upstreams
            .iter()
            .map(|upstream| Servers::new(upstream, random.next()))
            .collect();
        Self {
            servers,
            random,
            service,
            exchanges: Slab::default(),
            upstreams: Slab::default(),
            ready: VecDeque::new(),
            openings: VecDeque::new(),
            deadlines: Deadlines::default(),
            retries: Deadlines::default(),
            queues_due_ns: None,
            gather: GatherState::default(),
            now_ns: 0,
        }
    }

    fn write_head(
        &self,
        (client, upstream): (&Client, usize),
        (head, bytes, origin): (&Head, &[u8], Option<&Origin<'_>>),
        collected_size: Option<u64>,
        output: &mut Vec<u8>,
    ) -> Result<(), ForwardError> {
        let is_secure = self.service.is_secure && client.address.is_some();
        let said = origin.map(forwarded_address);
        let edit = RequestEdit {
            adds_via: true,
            client_fields: origin
                .and_then(|origin| origin.trusted_fields)
                .map_or(ClientFields::Drop, ClientFields::Append),
            client: match &said {
                Some(address) => address.as_deref(),
                None => client.address.as_deref(),
            },
            is_secure: origin.and_then(|origin| origin.is_secure).unwrap_or(is_secure),
            host: ForwardedHost::Client,
            upstream_host: &self.service.upstreams[upstream].host,
            collected_size,
            expects_continue: false,
        };
        write_request_head(head, bytes, &edit, output)
    }

    /// A request is to be forwarded, and its head was received.
    pub(crate) fn begin(
        &mut self,
        client: &Client,
        request: &RequestHead<'_>,
        forwarding: Forwarding,
    ) -> Request {
        let RequestHead { head, bytes, now_ns, origin } = *request;
        self.now_ns = now_ns;
        let is_by_hash =
            self.service.upstreams[forwarding.upstream].options.balance == Balance::Hash;
        let hash = if is_by_hash { random::hash(head.path_and_query(bytes)) } else { 0 };
        let mut exchange = Exchange::new(client.id, head, Place::new(forwarding, hash));
        let mut chunked = None;
        if head.body == Body::Chunked {
            let head_bytes = bytes[..head.size as usize].to_vec();
            let origin = origin.map(Into::into);
            let body = Vec::new();
            chunked = Some(Box::new(ChunkedRequest { head: *head, head_bytes, origin, body }));
        } else {
            let size = head.size as usize + 256;
            exchange.request.reserve(size);
            let edges = (client, forwarding.upstream);
            let head = (head, bytes, origin);
            if let Err(error) = self.write_head(edges, head, None, &mut exchange.request) {
                return Request { state: RequestState::Refused(error), chunked: None };
            }
        }
        let key = self.exchanges.insert(exchange);
        Request { state: RequestState::Collecting(key), chunked }
    }

    /// Forwards a request that is complete.
    fn start(&mut self, client: &Client, request: &mut Request, key: Key) {
        request.state = RequestState::Forwarded(key);
        if let Some(chunked) = request.chunked.take() {
            let ChunkedRequest { head, head_bytes, origin, body } = *chunked;
            let origin = origin.as_ref().map(OwnedOrigin::as_origin);
            let head = (&head, &*head_bytes, origin.as_ref());
            let mut bytes = Vec::with_capacity(head_bytes.len() + body.len() + 256);
            let size = Some(body.len() as u64);
            let upstream =
                self.exchanges.get(key).map_or(0, |exchange| exchange.place.forwarding.upstream);
            let written = self.write_head((client, upstream), head, size, &mut bytes);
            if let Err(error) = written {
                self.exchanges.remove(key);
                request.state = RequestState::Refused(error);
                return;
            }
            bytes.extend_from_slice(&body);
            if let Some(exchange) = self.exchanges.get(key) {
                exchange.request = bytes;
            }
        }
        self.assign(key, true);
    }
}

impl Service for Gateway {
    type Handler = GatewayHandler;

    fn handler(self: &Arc<Self>, _worker: &WorkerInfo) -> io::Result<GatewayHandler> {
        self.start_probers()?;
        Ok(GatewayHandler::new(Arc::clone(self)))
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

    fn on_body(&mut self, request: &mut Request, part: &[u8]) {
        match (&mut request.chunked, request.state) {
            (Some(chunked), _) => chunked.body.extend_from_slice(part),
            (None, RequestState::Collecting(key)) => {
                if let Some(exchange) = self.exchanges.get(key) {
                    exchange.request.extend_from_slice(part);
                }
            }
            (None, _) => {}
        }
    }

    fn respond(
        &mut self,
        client: &mut Client,
        request: &mut Request,
        response: &mut Response<'_>,
    ) -> Progress {
        self.now_ns = response.now_ns();
        if let RequestState::Collecting(key) = request.state {
            self.start(client, request, key);
        }
        match request.state {
            RequestState::Refused(error) => {
                error_response::write(error.status(), response);
                Progress::Complete
            }
            RequestState::Collecting(key) | RequestState::Forwarded(key) => {
                let progress = self.write(key, response);
                if matches!(progress, Progress::Complete | Progress::Reset) {
                    self.end_exchange(key);
                }
                progress
            }
        }
    }

    fn on_close(&mut self, _client: Client, request: Option<Request>) {
        if let Some(Request {
            state: RequestState::Collecting(key) | RequestState::Forwarded(key),
            ..
        }) = request
        {
            self.end_exchange(key);
        }
    }

    fn deadline_ns(&self) -> Option<u64> {
        let retry_ns = self.retries.earliest_ns();
        let gather_ns = self.gather.earliest_ns();
        let all = [self.deadlines.earliest_ns(), retry_ns, self.queues_due_ns, gather_ns];
        all.into_iter().flatten().min()
    }

    fn next_ready(&mut self, now_ns: u64) -> Option<ConnectionId> {
        self.now_ns = now_ns;
        while let Some(key) = self.deadlines.take_due(now_ns) {
            self.check_deadline(key);
        }
        self.retry_due();
        self.serve_queues();
        if let Some(client) = self.gather.take_due(now_ns) {
            return Some(client);
        }
        self.ready.pop_front()
    }

    fn next_opening(&mut self) -> Option<Opening> {
        while let Some(key) = self.openings.pop_front() {
            if let Some(connection) = self.upstreams.get(key) {
                let endpoint = Arc::clone(&connection.endpoint);
                return Some(Opening { endpoint, token: key.token() });
            }
        }
        None
    }

    fn on_opening(&mut self, token: u64, id: ConnectionId) {
        if let Some(upstream) = self.upstreams.get(Key::from_token(token)) {
            upstream.id = Some(id);
        }
    }

    fn on_upstream(&mut self, event: UpstreamEvent<'_>, output: &mut SendBuffer) -> Next {
        self.now_ns = event.now_ns;
        let key = Key::from_token(event.token);
        match event.kind {
            UpstreamEventKind::Connected => self.on_connected(key, output),
            UpstreamEventKind::Data { bytes, unsent } => self.on_data(key, bytes, unsent),
            UpstreamEventKind::Eof => self.on_eof(key),
            UpstreamEventKind::Resumed => self.on_resumed(key, output),
        }
    }

    fn on_upstream_close(&mut self, token: u64, error: Option<&io::Error>, now_ns: u64) {
        self.now_ns = now_ns;
        let key = Key::from_token(token);
        let Some(upstream) = self.upstreams.get(key) else { return };
        match (upstream.state, error) {
            (State::Connecting(_), Some(error)) => return self.on_connect_error(key, error),
            (State::Connecting(_), None) => self.fail_exchange(key, Fault::Closed),
            (State::Busy(..), _) => {
                let fault = upstream.reset_fault();
                self.fail_exchange(key, fault);
            }
            (State::Idle, _) => self.servers[upstream.pool].pool.remove(key),
            (State::Closing, _) => {}
        }
        self.upstreams.remove(key);
    }
}
