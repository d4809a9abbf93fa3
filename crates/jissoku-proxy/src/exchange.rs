//! One proxied request: what was received of it and of its response, what serves it, and what is
//! still to be sent.
//!
//! An exchange owns its own state, and refers to the connection that serves it by a key which is
//! never reused. The connection writes the response; the handler reports to the exchange what has happened,
//! and carries out what follows.

mod attempts;
mod record;
mod request;
mod response;

use std::sync::Arc;

use jissoku_http::forward::ClientSupport;
use jissoku_http::framing::Body;
use jissoku_http::{Head, Method, Version};
use jissoku_os::driver::ConnectionId;
use jissoku_os::socket::Endpoint;
use jissoku_server::{ForwardedAnomalies, HedgeResult};

use crate::config::Forwarding;
use crate::diagnostics::Phases;

use crate::Key;
use crate::policy::configuration::{ClientEnd, Protocol};
use crate::policy::rate::Permit;
use crate::policy::retry::Received;
use crate::transfer::{Output, ResponseEdit, Upload};

/// How long a response of unknown length may pause when its client has shut down its side.
const PAUSE_NS: u64 = 1_000_000_000;

/// A request and its response.
#[derive(Debug)]
pub(crate) struct Exchange {
    client: ConnectionId,
    client_state: ClientState,
    /// When something was last sent to the client.
    sent_ns: u64,
    /// Counts the request at its route, if its client does not.
    permit: Option<Permit>,

    method: MethodInfo,
    version: Version,
    /// What its server speaks.
    protocol: Protocol,
    forwarding: Forwarding,
    /// The forwarded head, and the body if it was collected. Kept until the response has begun if
    /// it may be repeated.
    request: Vec<u8>,
    head_size: usize,
    /// The body if it is not collected; after a switch of protocols, what the client sends.
    upload: Option<Box<Upload>>,
    offer: ClientSupport,

    stage: Stage,
    assignment: Assignment,

    received: Received,
    output: Output,
    response_edit: ResponseEdit,
    ending: Option<Ending>,
    /// The server of a tunnel has sent everything.
    server_has_ended: bool,
    /// Set for a part of a gathered response, whose output is the body alone.
    part: Option<Box<PartHead>>,

    /// The second copy of the request, as long as it is not decided whose response is used.
    copy: Option<Key>,
    /// What became of that copy, for the access log.
    hedge: Option<HedgeResult>,
    is_copy_put_off: bool,
    /// Until when the response is received if it is not used, because another copy of the request was
    /// responded to.
    unused_until_ns: Option<u64>,

    record: Record,
}

/// What serves an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing yet, or no more.
    None,
    /// It waits for its turn.
    Queued,
    /// It waits until it is sent again.
    Waiting,
    /// This connection.
    Served(Key),
}

/// Which server gets a request, and which have failed with it.
#[derive(Debug)]
struct Assignment {
    /// The index of its server, of those that `version` refers to.
    server: Option<usize>,
    /// The address of that server.
    endpoint: Option<Arc<Endpoint>>,
    /// The version of the list of servers that `tried` refers to.
    version: u64,
    /// Indices of servers that have failed.
    tried: Vec<usize>,
    /// Tries that count: those that were sent.
    tries: u32,
    /// Whether a reused connection was replaced by a new one.
    was_replaced: bool,
    /// Whether its present connection was used before.
    is_reused: bool,
    /// Connections that it was tried on.
    connections: u32,
    /// When the head of the response has to be there.
    until_ns: u64,
    /// When the response of which it is a part has to be there.
    whole_until_ns: u64,
    /// Key for hash balancing; 0 otherwise.
    hash: u64,
}

/// What the access log and the response say of an exchange.
#[derive(Debug)]
struct Record {
    phases: Phases,
    /// Why its response is incomplete, by error type.
    error: Option<&'static str>,
    /// The last failure that was followed by another try: the status for it and its error type.
    failure: Option<(u16, &'static str)>,
    /// Whether the response says how the request was forwarded.
    is_diagnosed: bool,
    /// Whether the response, although complete, is a failure of its server.
    is_failure: bool,
    notes: ForwardedAnomalies,
    /// The start of a response that is malformed.
    malformed: Option<Box<[u8]>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ClientState {
    Present,
    /// It has shut down its side, and still waits for its response.
    Ended,
    /// It is gone, and the response is received nevertheless.
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// With its last byte.
    Complete,
    /// Before that.
    Truncated,
    /// There is none: a response with this status is made here, because of an error of this type.
    Failed(u16, &'static str),
}

/// How far a copy of a request has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyStage {
    Awaited,
    /// There is the head of a response, at least.
    Responded,
    Failed,
}

/// What becomes of an exchange without a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OrphanStep {
    /// It is over.
    End,
    /// Its server was not received from, and is again.
    Resume,
    Wait,
}

/// What the method of a request means for forwarding it.
#[derive(Clone, Copy, Debug)]
struct MethodInfo {
    is_head: bool,
    /// Whether the request may be sent on a connection that the server may be closing, and then be
    /// repeated (RFC 9110 section 9.2.2).
    is_idempotent: bool,
    /// A body was sent with a method that has none as a rule. Servers may ignore such a body and
    /// take it for the next request, so the connection is not used again.
    has_unusual_body: bool,
}

impl MethodInfo {
    fn new(head: &Head) -> Self {
        let is_safe = matches!(head.method, Method::Get | Method::Head | Method::Options);
        let is_delete = head.method == Method::Delete;
        Self {
            is_head: head.method == Method::Head,
            is_idempotent: is_safe || is_delete || head.method == Method::Put,
            has_unusual_body: (is_safe || is_delete) && head.body != Body::Empty,
        }
    }
}

/// What is kept of the head of a part's response.
#[derive(Debug, Default)]
struct PartHead {
    /// The fields that a gathered response shows, until they are collected.
    fields: Option<Vec<(&'static str, String)>>,
}

impl Assignment {
    const fn new(hash: u64) -> Self {
        Self {
            server: None,
            endpoint: None,
            version: 0,
            tried: Vec::new(),
            tries: 0,
            was_replaced: false,
            is_reused: false,
            connections: 0,
            until_ns: 0,
            whole_until_ns: u64::MAX,
            hash,
        }
    }
}

impl Record {
    const fn new(phases: Phases, is_diagnosed: bool) -> Self {
        Self {
            phases,
            error: None,
            failure: None,
            is_diagnosed,
            is_failure: false,
            notes: ForwardedAnomalies::NONE,
            malformed: None,
        }
    }
}

impl Exchange {
    /// `hash` is the key for hash balancing. Nothing of the request is there yet.
    pub(crate) fn new(
        client: ConnectionId,
        head: &Head,
        (forwarding, protocol, hash): (Forwarding, Protocol, u64),
        is_diagnosed: bool,
    ) -> Self {
        let request = (MethodInfo::new(head), head.version, protocol);
        let record = Record::new(Phases::default(), is_diagnosed);
        Self::unsent(client, request, forwarding, (Assignment::new(hash), record))
    }

    /// Nothing has been sent or received.
    fn unsent(
        client: ConnectionId,
        (method, version, protocol): (MethodInfo, Version, Protocol),
        forwarding: Forwarding,
        (assignment, record): (Assignment, Record),
    ) -> Self {
        Self {
            client,
            client_state: ClientState::Present,
            sent_ns: 0,
            permit: None,
            method,
            version,
            protocol,
            forwarding,
            request: Vec::new(),
            head_size: 0,
            upload: None,
            offer: ClientSupport::default(),
            stage: Stage::None,
            assignment,
            received: Received::Nothing,
            output: Output::default(),
            response_edit: ResponseEdit::default(),
            ending: None,
            server_has_ended: false,
            part: None,
            copy: None,
            hedge: None,
            is_copy_put_off: false,
            unused_until_ns: None,
            record,
        }
    }

    pub(crate) const fn client(&self) -> ConnectionId {
        self.client
    }

    pub(crate) const fn forwarding(&self) -> &Forwarding {
        &self.forwarding
    }

    pub(crate) const fn upstream(&self) -> usize {
        self.forwarding.upstream
    }

    pub(crate) const fn protocol(&self) -> Protocol {
        self.protocol
    }

    pub(crate) const fn is_head(&self) -> bool {
        self.method.is_head
    }

    pub(crate) const fn connection(&self) -> Option<Key> {
        match self.stage {
            Stage::Served(connection) => Some(connection),
            Stage::None | Stage::Queued | Stage::Waiting => None,
        }
    }

    pub(crate) const fn ending(&self) -> Option<Ending> {
        self.ending
    }

    pub(crate) const fn is_over(&self) -> bool {
        self.ending.is_some()
    }

    /// Whether the server has switched protocols.
    pub(crate) fn is_tunnel(&self) -> bool {
        self.output.is_upgraded()
    }

    // The client.

    /// The client has shut down its side. Returns its connection if that ends the exchange.
    pub(crate) fn record_client_end(&mut self) -> Option<ConnectionId> {
        self.client_state = ClientState::Ended;
        self.is_aborted().then_some(self.client)
    }

    /// Whether its client has shut down its side, and that ends it.
    fn is_aborted(&self) -> bool {
        self.client_state == ClientState::Ended
            && self.forwarding.on_client_end == ClientEnd::Abort
            && self.ending.is_none()
            && !self.is_tunnel()
    }

    /// Whether its response is received although its client is gone: a server has the whole request,
    /// or gets it.
    pub(crate) fn is_finishable(&self) -> bool {
        self.forwarding.on_client_end == ClientEnd::Finish
            && self.connection().is_some()
            && self.ending.is_none()
            && self.is_received()
            && !self.is_tunnel()
    }

    /// It counts at its route until it ends.
    pub(crate) fn hold(&mut self, permit: Option<Permit>) {
        self.permit = permit;
    }

    /// Whether it continues without its client.
    pub(crate) fn is_orphan(&self) -> bool {
        self.client_state == ClientState::Gone
    }

    /// Whether the client has shut down its side, and the response, whose end is not known, has
    /// paused: there may be no reader any more.
    pub(crate) fn is_without_reader(&self, now_ns: u64) -> bool {
        self.client_state == ClientState::Ended
            && self.forwarding.on_client_end != ClientEnd::Finish
            && self.ending.is_none()
            && self.output.has_unknown_size()
            && now_ns.saturating_sub(self.sent_ns) >= PAUSE_NS
    }
}

#[cfg(test)]
mod tests {
    use jissoku_http::Limits;
    use jissoku_http::head::HeadReader;

    use super::*;

    #[test]
    fn the_time_for_a_head_includes_what_came_before() {
        let head =
            HeadReader::default().read(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", &Limits::DEFAULT);
        let head = head.expect("it is in order").expect("it is whole");
        for (try_ns, now_ns, deadline_ns) in
            [(None, 20, 110), (None, 100, 110), (Some(20), 20, 40), (Some(20), 100, 110)]
        {
            let forwarding = Forwarding { try_ns, ..Forwarding::new(0, 100) };
            let forwarded = (forwarding, Protocol::Http, 0);
            let mut exchange = Exchange::new(ConnectionId::default(), &head, forwarded, false);
            assert!(exchange.begin(10) && !exchange.begin(11), "once for all tries");
            assert_eq!(exchange.head_deadline_ns(now_ns), deadline_ns, "{try_ns:?} {now_ns}");
        }
    }
}
