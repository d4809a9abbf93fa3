//! Requests whose parts are known when they are complete: the same request to several servers of an
//! upstream, and batches.

use std::sync::Arc;

use jissoku_http::Version;
use jissoku_http::framing::Body;
use jissoku_server::{DynamicResponse, OwnedOrigin, RequestHead};
use jissoku_upstream::fan_out::{BatchItem, Form, PartPlan, PartResponse, PartTemplate, Plan};
use jissoku_upstream::retry::RetryPolicy;

use super::GatewayHandler;
use super::gather::{cannot_be_forwarded, refusal};
use crate::client::Client;
use crate::config::Forwarding;
use crate::gather::{
    BatchPart, BroadcastRoute, CollectedRequest, FormChoice, GatherRoute, Gathering, LostGathering,
    PartState, PassedFields, batch_request, broadcast_request,
};
use crate::lost::Lost;

impl GatewayHandler {
    /// A request that is to be broadcast is complete; else the response.
    pub(crate) fn begin_broadcast(
        &mut self,
        client: &Client,
        collected: &CollectedRequest,
        route: &BroadcastRoute,
        now_ns: u64,
    ) -> Result<Gathering, DynamicResponse> {
        self.now_ns = now_ns;
        self.check_memory()?;
        let origin = collected.origin.as_ref().map(OwnedOrigin::as_origin);
        let CollectedRequest { head, head_bytes, body, .. } = collected;
        let request = RequestHead { head, bytes: head_bytes, now_ns, origin: origin.as_ref() };
        let choice = FormChoice::new(&request, &route.plan)?;
        let body_size = (head.body != Body::Empty).then_some(body.len());
        let part_head = broadcast_request(&request, body_size, choice.passes_accept)
            .ok_or_else(|| refusal(400, "", "Bad Request\n"))?;
        let forwarding = Forwarding { hedge: None, retry: RetryPolicy::NONE, ..route.forwarding };
        let shared = Arc::clone(&self.service.upstreams[forwarding.upstream]);
        for idle in self.servers[forwarding.upstream].renew(&shared) {
            self.close(idle);
        }
        let servers = &self.servers[forwarding.upstream];
        let addresses = servers.addresses(route.servers, now_ns, &mut self.random);
        let (mut plans, mut parts) = (Vec::new(), Vec::new());
        for (id, endpoint) in addresses.into_iter().take(jissoku_upstream::fan_out::PARTS_MAX) {
            let mut exchange = self
                .part_exchange(client, forwarding, (&part_head, body), request.origin)
                .map_err(cannot_be_forwarded)?;
            exchange.place.pinned = Some(endpoint);
            plans.push(part_plan(id, shared.label(), false));
            parts.push(exchange.into());
        }
        Ok(gathering(
            client,
            (&request, choice.form),
            &self.lost_gatherings,
            &route.plan,
            (plans, parts),
        ))
    }

    /// A batch is complete, and the routes of its requests are known; else the response.
    pub(crate) fn begin_batch(
        &mut self,
        client: &Client,
        collected: &CollectedRequest,
        (plan, items, routes): (&Plan, &[BatchItem], Vec<BatchPart>),
        now_ns: u64,
    ) -> Result<Gathering, DynamicResponse> {
        self.now_ns = now_ns;
        self.check_memory()?;
        let origin = collected.origin.as_ref().map(OwnedOrigin::as_origin);
        let CollectedRequest { head, head_bytes, .. } = collected;
        let request = RequestHead { head, bytes: head_bytes, now_ns, origin: origin.as_ref() };
        let FormChoice { form, passes_accept } = FormChoice::new(&request, plan)?;
        let passed = PassedFields { names: plan.fields.as_deref(), has_accept: passes_accept };
        let (mut plans, mut parts) = (Vec::new(), Vec::new());
        let (mut refusals, mut permits) = (Vec::new(), Vec::new());
        for (index, (item, route)) in items.iter().zip(routes).enumerate() {
            let exchange = route.and_then(|(forwarding, permit, notes)| {
                permits.extend(permit);
                let head = batch_request(&request, item, passed)
                    .ok_or_else(|| (431, "the part's head is too large\n".to_owned()))?;
                let mut exchange = self
                    .part_exchange(client, forwarding, (&head, &item.body), request.origin)
                    .map_err(|error| (error.status(), "it cannot be forwarded\n".to_owned()))?;
                exchange.place.notes = notes;
                Ok(exchange)
            });
            let upstream = exchange.as_ref().map_or("", |exchange| {
                self.service.upstreams[exchange.place.forwarding.upstream].label()
            });
            plans.push(part_plan(item.id.clone(), upstream, item.is_required));
            parts.push(match exchange {
                Ok(exchange) => exchange.into(),
                Err(refusal) => {
                    refusals.push((index, refusal));
                    PartState::Ended
                }
            });
        }
        let mut gathering =
            gathering(client, (&request, form), &self.lost_gatherings, plan, (plans, parts));
        gathering.permits = permits;
        for (part, (status, text)) in refusals {
            let fields = vec![("content-type", "text/plain".to_owned())];
            let response = PartResponse { status, fields, body: text.into_bytes() };
            gathering.collection.on_refusal(part, response, now_ns);
        }
        Ok(gathering)
    }
}

fn part_plan(id: String, upstream: &str, is_required: bool) -> PartPlan {
    PartPlan { id, template: PartTemplate::fixed(upstream, ""), is_required }
}

/// A request with these parts, by a plan that has none.
fn gathering(
    client: &Client,
    (request, form): (&RequestHead<'_>, Form),
    lost: &Lost<LostGathering>,
    plan: &Plan,
    (plans, parts): (Vec<PartPlan>, Vec<PartState>),
) -> Gathering {
    let route = Arc::new(GatherRoute::new(plan.with_parts(plans), Vec::new()));
    let is_chunked = request.head.version == Version::Http11;
    Gathering::new((client.id, is_chunked, form), &route, parts, (request.now_ns, lost.clone()))
}
