//! Requests to several servers.

use std::sync::Arc;

use jissoku_http::forward::ForwardError;
use jissoku_http::{Method, Version};
use jissoku_server::{DynamicResponse, Origin, Progress, RequestHead, Response};
use jissoku_upstream::fan_out::{Effect, Form, PartError};
use jissoku_upstream::health::Outcome;
use jissoku_upstream::routes::Captures;

use super::GatewayHandler;
use super::bodies::HeadEdit;
use crate::client::Client;
use crate::config::Forwarding;
use crate::exchange::{Ending, Exchange};
use crate::gather::{
    self, GatherRoute, Gathering, PartRequest, PartState, PassedFields, error_of, part_request,
};
use crate::hash_key::hash_of;
use crate::part_head::PartHead;
use crate::place::Place;
use crate::slab::Key;

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
        let mut parts = Vec::with_capacity(route.forwardings.len());
        for (part, forwarding) in route.plan.parts.iter().zip(&route.forwardings) {
            let target = part.template.target(path, captures);
            let head = target.and_then(|target| part_request(request, &target, passed));
            let head = head.ok_or_else(|| refusal(400, "", "Bad Request\n"))?;
            let exchange = self
                .part_exchange(client, *forwarding, &head, request.origin)
                .map_err(cannot_be_forwarded)?;
            parts.push(PartState::Waiting(Box::new(exchange)));
        }
        let is_chunked = request.head.version == Version::Http11;
        let begun = (self.now_ns, self.lost_gatherings.clone());
        Ok(Gathering::new((client.id, is_chunked, form), route, parts, begun))
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
        origin: Option<&Origin<'_>>,
    ) -> Result<Exchange, ForwardError> {
        let upstream = &self.service.upstreams[forwarding.upstream];
        let address = origin.map_or(client.peer, |origin| origin.client);
        let (hash, protocol) =
            (hash_of(&upstream.options, (head, bytes), address), upstream.options.protocol);
        let mut exchange = Exchange::new(client.id, head, (Place::new(forwarding, hash), protocol));
        exchange.part = Some(Box::new(PartHead::default()));
        let Forwarding { upstream, deadline_field, .. } = forwarding;
        let edit = HeadEdit { upstream, collected_size: None, passes: None, deadline_field };
        self.write_head(client, (head, bytes, origin), edit, &mut exchange.request)?;
        exchange.head_size = exchange.request.len();
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
        let held = gathering.collection.held();
        for part in 0..gathering.parts.len() {
            if let PartState::Running(key) = gathering.parts[part] {
                let key = self.settle(key);
                gathering.parts[part] = PartState::Running(key);
                let room = self.gather.room(held);
                self.collect(gathering, (part, key, room), response);
            }
        }
        let route = Arc::clone(&gathering.route);
        if let Some(late) = gathering.collection.close_if_due(&route.plan, self.now_ns) {
            for part in late {
                self.log_part(gathering, part, response.log_record());
                self.cancel(gathering, part);
            }
            gathering.is_closed = true;
        }
        self.begin_parts(gathering);
        if !gathering.is_closed {
            self.gather.watch(gathering);
        }
        let progress = gather::write(gathering, response);
        self.gather.change(held, gathering.collection.held());
        progress
    }

    /// Sends the requests of all parts that the plan allows to start now.
    pub(super) fn begin_parts(&mut self, gathering: &mut Gathering) {
        let route = Arc::clone(&gathering.route);
        while let Some(part) = gathering.collection.begin_next(&route.plan) {
            self.ask(gathering, part);
        }
    }

    /// The client of a gathering has its response, or is gone.
    pub(crate) fn end_gathering(&mut self, gathering: &mut Gathering) {
        if std::mem::replace(&mut gathering.is_ended, true) {
            return;
        }
        for part in 0..gathering.parts.len() {
            self.cancel(gathering, part);
        }
        self.gather.end(gathering.client, gathering.collection.held());
    }

    fn ask(&mut self, gathering: &mut Gathering, part: usize) {
        let state = std::mem::replace(&mut gathering.parts[part], PartState::Ended);
        if let PartState::Waiting(mut exchange) = state {
            exchange.place.whole_until_ns = gathering.deadline_ns();
            let key = self.exchanges.insert(*exchange);
            gathering.parts[part] = PartState::Running(key);
            self.assign(key, true);
        } else {
            gathering.parts[part] = state;
        }
    }

    /// Takes what was received for a part, unless the gathering then held more than it has room for.
    fn collect(
        &mut self,
        gathering: &mut Gathering,
        (part, key, room): (usize, Key, usize),
        response: &mut Response<'_>,
    ) {
        let (now_ns, plan) = (self.now_ns, &gathering.route.plan);
        let Some(exchange) = self.exchanges.get(key) else { return };
        let collection = &mut gathering.collection;
        if let Some(fields) = exchange.part.as_mut().and_then(|head| head.fields.take()) {
            collection.on_head(part, exchange.output.status, fields);
        }
        let was_held = exchange.is_held();
        let mut effect = Effect::Continues;
        if !exchange.output.bytes.is_empty() {
            effect = if collection.held() + exchange.output.bytes.len() > room {
                collection.on_failure(part, PartError::Shortage, now_ns)
            } else {
                collection.on_body(plan, part, &exchange.output.bytes, now_ns)
            };
            exchange.output.bytes.clear();
        }
        let upstream = exchange.upstream;
        let ended = match exchange.ending {
            None => effect,
            Some(Ending::Complete) => collection.on_end(part, now_ns),
            Some(Ending::Truncated) => {
                collection.on_failure(part, PartError::ResponseIncomplete, now_ns)
            }
            Some(Ending::Failed(_, error)) => collection.on_failure(part, error_of(error), now_ns),
        };
        if ended != Effect::Continues {
            self.log_part(gathering, part, response.log_record());
            self.cancel(gathering, part);
        } else if was_held {
            let upstream = upstream.and_then(|key| self.upstreams.get(key));
            self.ready.extend(upstream.and_then(|upstream| upstream.id));
        }
    }

    /// The exchange of a part ends. If it is without a response at the deadline, that is a failure of
    /// its server, which hangs, unless it was asked so late that others had most of the time.
    fn end_part(&mut self, gathering: &Gathering, key: Key) {
        let is_over = self.now_ns >= gathering.deadline_ns();
        let awaited = self.exchanges.get_ref(key).filter(|it| is_over && it.is_awaited());
        if let Some(Place { phases, forwarding, .. }) = awaited.map(|exchange| &exchange.place)
            && self.now_ns.saturating_sub(phases.connecting_ns)
                >= gathering.route.plan.deadline_ns / 2
        {
            let late = PartError::ResponseTimeout.name();
            self.service.upstreams[forwarding.upstream].count_failure(late);
            self.release(key, Outcome::Failure);
        }
        self.end_exchange(key);
    }

    /// Ends the exchange of a part. Its connection is closed, unless its
    /// response is complete.
    fn cancel(&mut self, gathering: &mut Gathering, part: usize) {
        if let PartState::Running(key) = gathering.parts[part] {
            self.end_part(gathering, key);
        }
        gathering.parts[part] = PartState::Ended;
    }
}

fn cannot_be_forwarded(error: ForwardError) -> DynamicResponse {
    refusal(error.status(), "", "the request cannot be forwarded\n")
}

fn refusal(status: u16, fields: &str, text: &str) -> DynamicResponse {
    DynamicResponse::text(status, fields, text.as_bytes())
}
