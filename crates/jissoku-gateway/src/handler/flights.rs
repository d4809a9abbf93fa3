//! Parts whose requests are shared with those of other clients (single flight).

use std::sync::Arc;

use jissoku_server::UpstreamCounter;
use jissoku_upstream::fan_out::{PartError, PartResponse};

use super::GatewayHandler;
use crate::exchange::{Ending, Exchange};
use crate::gather::{FlightKey, FlightState, Gathering, PartState, error_of};
use crate::slab::Key;

impl GatewayHandler {
    /// Has a part wait for the request of another client that is the same, or sends its own.
    pub(super) fn share(
        &mut self,
        gathering: &Gathering,
        exchange: Box<Exchange>,
        key: FlightKey,
    ) -> PartState {
        let (client, now_ns) = (gathering.client, self.now_ns);
        if let Some(flight) = self.flights.join(&key, client, now_ns) {
            let upstream = &self.service.upstreams[exchange.place.forwarding.upstream];
            upstream.count(UpstreamCounter::Requests);
            upstream.count(UpstreamCounter::SharedRequests);
            return PartState::Shared { flight, is_joined: true };
        }
        let plan = &gathering.route.plan;
        let exchange_key = self.exchanges.insert(*exchange);
        // The clients of a server that hangs do not wait for it longer than without others.
        let until_ns = now_ns.saturating_add(plan.deadline_ns);
        let key = (key, plan.part_size_max);
        let flight = self.flights.begin(key, client, exchange_key, until_ns);
        if let Some(part) = self.exchanges.get(exchange_key).and_then(|it| it.part.as_mut()) {
            part.flight = Some(flight);
        }
        self.assign(exchange_key, true);
        PartState::Shared { flight, is_joined: false }
    }

    /// Takes the result of a shared request for a part, if there is one. Returns whether there is.
    pub(super) fn collect_shared(
        &mut self,
        gathering: &mut Gathering,
        part: usize,
        flight: Key,
    ) -> bool {
        self.receive_shared(flight);
        let Some(flight) = self.flights.get_ref(flight) else { return false };
        let collection = &mut gathering.collection;
        match &flight.state {
            FlightState::Running => return false,
            FlightState::Complete(response) => {
                collection.on_response(&gathering.route.plan, part, response, self.now_ns);
            }
            FlightState::Failed(error) => {
                collection.on_failure(part, *error, self.now_ns);
            }
        }
        true
    }

    /// Takes what was received for all clients of a shared request, when one of them is called: one
    /// that reads slowly does not keep the others waiting.
    fn receive_shared(&mut self, flight_key: Key) {
        let exchange_key = match self.flights.get_ref(flight_key) {
            Some(flight) if matches!(flight.state, FlightState::Running) => flight.exchange,
            _ => return,
        };
        let exchange_key = self.settle(exchange_key);
        let Some(flight) = self.flights.get(flight_key) else { return };
        flight.exchange = exchange_key;
        let Some(exchange) = self.exchanges.get(exchange_key) else { return };
        let held = flight.held();
        if let Some(fields) = exchange.part.as_mut().and_then(|head| head.fields.take()) {
            flight.response.status = exchange.output.status;
            flight.response.fields = fields;
            flight.response.body.clear();
        }
        let was_held = exchange.is_held();
        flight.response.body.append(&mut exchange.output.bytes);
        let size = flight.response.body.len();
        let state = match exchange.ending {
            _ if size > flight.body_size_max => FlightState::Failed(PartError::ResponseBodySize),
            _ if size > self.gather.room(held) => FlightState::Failed(PartError::Shortage),
            None => FlightState::Running,
            Some(Ending::Complete) => {
                FlightState::Complete(Arc::new(std::mem::take(&mut flight.response)))
            }
            Some(Ending::Truncated) => FlightState::Failed(PartError::ResponseIncomplete),
            Some(Ending::Failed(_, error)) => FlightState::Failed(error_of(error)),
        };
        let has_ended = !matches!(state, FlightState::Running);
        if matches!(state, FlightState::Failed(_)) {
            flight.response = PartResponse::default();
        }
        flight.state = state;
        self.gather.change(held, flight.held());
        if has_ended {
            self.flights.close(flight_key);
        }
        let Some(exchange) = self.exchanges.get(exchange_key) else { return };
        if has_ended {
            self.flights.wake(exchange_key, exchange, &mut self.ready);
        } else if was_held {
            self.resume_upstream(exchange_key);
        }
    }

    /// A part does not wait for a shared request any more. The request ends with the last one that
    /// does.
    pub(super) fn leave_shared(&mut self, gathering: &Gathering, flight: Key) {
        if let Some(flight) = self.flights.leave(flight, gathering.client) {
            self.gather.change(flight.held(), 0);
            self.end_part(gathering, flight.exchange);
        }
    }
}
