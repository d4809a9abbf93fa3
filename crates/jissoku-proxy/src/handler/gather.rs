//! Requests to several servers.

use std::sync::Arc;

use jissoku_http::forward::ForwardError;
use jissoku_http::{Method, Version};
use jissoku_server::{ClientIdentity, DynamicResponse, Progress, RequestHead, Response};

use super::GatewayHandler;
use super::bodies::HeadEdit;
use super::edits::added_lines;
use crate::Key;
use crate::client::Client;
use crate::config::Forwarding;
use crate::exchange::Exchange;
use crate::gather::{self, GatherRoute, Gathering, PartRequest, PassedFields, part_request};
use crate::policy::fan_out::{Form, PartError};
use crate::policy::health::Outcome;
use crate::policy::routes::Captures;
use crate::transfer::ResponseEdit;

impl GatewayHandler {
    /// A request for a gathering route, and its head was received; else the response.
    pub(crate) fn begin_gathering(
        &mut self,
        client: &Client,
        request: &RequestHead<'_>,
        (route, captures): (&Arc<GatherRoute>, &Captures),
    ) -> Result<Gathering, DynamicResponse> {
        self.now_ns = request.now_ns;
        if !matches!(request.method(), Method::Get | Method::Head) {
            return Err(refusal(405, "Allow: GET, HEAD\r\n", "Method Not Allowed\n"));
        }
        self.check_memory()?;
        let accept = request.fields().find(|(name, _)| name.eq_ignore_ascii_case(b"accept"));
        let accepted = accept.and_then(|(_, value)| Form::accepted(value));
        let form = accepted.unwrap_or(route.plan.form);
        let names = route.plan.fields.as_deref();
        let has_accept = accepted.is_none_or(|form| form == Form::Json);
        let passed = PassedFields { names, has_accept };
        let (path, _) = request.path_and_query();
        let mut parts = Vec::new();
        for (part, forwarding) in route.plan.parts.iter().zip(&route.forwardings) {
            let target = part.template.target(path, captures);
            let head = target.and_then(|target| part_request(request, &target, passed));
            let head = head.ok_or_else(|| refusal(400, "", "Bad Request\n"))?;
            let exchange = self
                .part_exchange(client, *forwarding, &head, request.identity)
                .map_err(cannot_be_forwarded)?;
            parts.push(exchange);
        }
        let is_chunked = request.head.version == Version::Http11;
        let begun = (self.now_ns, self.lost_gatherings.clone());
        let gathering = Gathering::new((client.id, is_chunked, form), route, parts, begun);
        Ok(if route.fields.adds() {
            gathering.with_lines(added_lines(&route.fields, client, request, captures))
        } else {
            gathering
        })
    }

    /// The response if the bodies that this worker holds are as large as they may be.
    fn check_memory(&self) -> Result<(), DynamicResponse> {
        if self.gather.is_full() {
            return Err(refusal(503, "Retry-After: 1\r\n", "Service Unavailable\n"));
        }
        Ok(())
    }

    /// The exchange of a part, whose request has this head.
    fn part_exchange(
        &self,
        client: &Client,
        forwarding: Forwarding,
        (head, bytes): &PartRequest,
        identity: Option<&ClientIdentity<'_>>,
    ) -> Result<Exchange, ForwardError> {
        // Nothing is changed of a part but what its template says.
        let forwarding = Forwarding { edit: None, ..forwarding };
        let upstream = &self.service.upstreams[forwarding.upstream];
        let address = identity.map_or(client.peer, |identity| identity.client);
        let (hash, protocol) =
            (upstream.options.hash_of((head, bytes), address), upstream.options.policy.protocol);
        let mut exchange = Exchange::new(client.id, head, (forwarding, protocol, hash), false);
        exchange.become_part();
        let edit = HeadEdit {
            forwarding: &forwarding,
            collected_size: None,
            passes: None,
            captures: &Captures::default(),
            request_id: None,
        };
        let mut output = Vec::new();
        let offer = self.write_head(client, (head, bytes, identity), edit, &mut output)?;
        exchange.set_head(output, offer, ResponseEdit::default());
        Ok(exchange)
    }

    /// Collects what has been received, has more parts asked, and writes what can be written. If the
    /// client is slower than the servers, these wait: what it has not read is not held in memory.
    pub(crate) fn continue_gathering(
        &mut self,
        gathering: &mut Gathering,
        response: &mut Response<'_>,
    ) -> Progress {
        self.now_ns = response.now_ns();
        if gathering.is_behind(response) {
            return Progress::Sent;
        }
        let held = gathering.held();
        let running: Vec<_> = gathering.running().collect();
        for (part, key) in running {
            let key = self.resolve_hedge(key);
            gathering.set_running(part, key);
            let room = self.gather.room(held);
            self.collect(gathering, (part, key, room), response);
        }
        for part in gathering.close_if_due(self.now_ns) {
            self.log_part(gathering, part, response.log_record());
            self.end_part(gathering, part);
        }
        self.begin_parts(gathering);
        self.gather.watch(gathering);
        let progress = gather::answer::write(gathering, response);
        self.gather.change(held, gathering.held());
        progress
    }

    /// Sends the requests of all parts that the plan allows to start now.
    pub(super) fn begin_parts(&mut self, gathering: &mut Gathering) {
        while let Some((part, exchange)) = gathering.begin_next() {
            let key = self.exchanges.insert(exchange);
            gathering.set_running(part, key);
            self.assign(key, true);
        }
    }

    /// The client of a gathering has its response, or is gone.
    pub(crate) fn end_gathering(&mut self, gathering: &mut Gathering) {
        if let Some(running) = gathering.end() {
            for key in running {
                self.end_part_exchange(gathering, key);
            }
            self.gather.end(gathering.client(), gathering.held());
        }
    }

    /// Takes what was received for a part, unless the gathering then held more than it has room for.
    fn collect(
        &mut self,
        gathering: &mut Gathering,
        (part, key, room): (usize, Key, usize),
        response: &mut Response<'_>,
    ) {
        let Some(exchange) = self.exchanges.get(key) else { return };
        let was_held = exchange.is_held();
        if gathering.collect(part, exchange, room, self.now_ns) {
            self.log_part(gathering, part, response.log_record());
            self.end_part(gathering, part);
        } else if was_held {
            self.resume_upstream(key);
        }
    }

    /// Ends a part. Its connection is closed, unless its response is complete.
    fn end_part(&mut self, gathering: &mut Gathering, part: usize) {
        if let Some(key) = gathering.end_part(part) {
            self.end_part_exchange(gathering, key);
        }
    }

    /// Ends the exchange of a part. If it is without a response at the deadline, that is a failure of
    /// its server, which hangs, unless it was asked so late that others had most of the time.
    fn end_part_exchange(&mut self, gathering: &Gathering, key: Key) {
        let is_over = self.now_ns >= gathering.deadline_ns();
        let awaited = self.exchanges.get_ref(key).filter(|it| is_over && it.is_awaited());
        if let Some(exchange) = awaited
            && gathering.had_most_of_the_time(exchange.latency_ns(self.now_ns))
            && let Some(connection) = exchange.connection()
        {
            let late = PartError::RESPONSE_TIMEOUT.name();
            self.service.upstreams[exchange.upstream()].count_failure(late);
            self.give_back(connection, key, (Outcome::Failure, late));
        }
        self.end_exchange(key);
    }
}

fn cannot_be_forwarded(error: ForwardError) -> DynamicResponse {
    refusal(error.status(), "", "the request cannot be forwarded\n")
}

fn refusal(status: u16, fields: &str, text: &str) -> DynamicResponse {
    DynamicResponse::text(status, fields, text.as_bytes())
}
