//! Requests of parts whose responses several clients get (single flight).
//!
//! Each is an exchange that belongs to all of them: it ends when its response is complete, or when
//! the last of them has left.

use std::collections::HashMap;
use std::sync::Arc;

use jissoku_os::driver::ConnectionId;
use jissoku_upstream::fan_out::{PartError, PartResponse};

use super::flight_key::FlightKey;
use crate::exchange::Exchange;
use crate::ready::Ready;
use crate::slab::{Key, Slab};

/// The requests of one worker that are shared.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    /// Those that can be joined.
    by_key: HashMap<Arc<FlightKey>, Key>,
    all: Slab<Flight>,
}

/// A request that is shared.
#[derive(Debug)]
pub(crate) struct Flight {
    key: Arc<FlightKey>,
    pub(crate) exchange: Key,
    /// Those that wait for it; twice, if two parts of one do.
    clients: Vec<ConnectionId>,
    /// When one that hangs is left to those that wait for it.
    joinable_until_ns: u64,
    pub(crate) body_size_max: usize,
    /// What was received.
    pub(crate) response: PartResponse,
    pub(crate) state: FlightState,
}

/// How far a request has come that is shared.
#[derive(Clone, Debug)]
pub(crate) enum FlightState {
    Running,
    Complete(Arc<PartResponse>),
    Failed(PartError),
}

impl Flight {
    /// Bytes of its body that are held.
    pub(crate) fn held(&self) -> usize {
        match &self.state {
            FlightState::Running => self.response.body.len(),
            FlightState::Complete(response) => response.body.len(),
            FlightState::Failed(_) => 0,
        }
    }
}

impl Flights {
    /// Lets a client wait for the response to a request that is under way, if there is one.
    pub(crate) fn join(
        &mut self,
        key: &FlightKey,
        client: ConnectionId,
        now_ns: u64,
    ) -> Option<Key> {
        let &place = self.by_key.get(key)?;
        let flight = self.all.get(place)?;
        (now_ns < flight.joinable_until_ns).then(|| {
            flight.clients.push(client);
            place
        })
    }

    /// Others can join the exchange of a client from now on.
    pub(crate) fn begin(
        &mut self,
        (key, body_size_max): (FlightKey, usize),
        client: ConnectionId,
        exchange: Key,
        joinable_until_ns: u64,
    ) -> Key {
        let key = Arc::new(key);
        let place = self.all.insert(Flight {
            key: Arc::clone(&key),
            exchange,
            clients: vec![client],
            joinable_until_ns,
            body_size_max,
            response: PartResponse::default(),
            state: FlightState::Running,
        });
        // One that was too old to be joined stays with its clients.
        self.by_key.insert(key, place);
        place
    }

    #[inline]
    pub(crate) fn get(&mut self, place: Key) -> Option<&mut Flight> {
        self.all.get(place)
    }

    pub(crate) fn get_ref(&self, place: Key) -> Option<&Flight> {
        self.all.get_ref(place)
    }

    /// A request has ended: later ones are sent anew.
    pub(crate) fn close(&mut self, place: Key) {
        let Some(flight) = self.all.get_ref(place) else { return };
        if self.by_key.get(&flight.key) == Some(&place) {
            self.by_key.remove(&flight.key);
        }
    }

    /// A client does not wait for a request any more. Returns it if no other does.
    pub(crate) fn leave(&mut self, place: Key, client: ConnectionId) -> Option<Flight> {
        let flight = self.all.get(place)?;
        let index = flight.clients.iter().position(|other| *other == client)?;
        flight.clients.swap_remove(index);
        if !flight.clients.is_empty() {
            return None;
        }
        self.close(place);
        self.all.remove(place)
    }

    /// Has the clients called that wait for an exchange.
    #[inline]
    pub(crate) fn wake(&self, key: Key, exchange: &Exchange, ready: &mut Ready) {
        match exchange.part.as_ref().and_then(|part| part.flight) {
            None => ready.wake(key, exchange),
            Some(place) => {
                let flight = self.all.get_ref(place);
                flight.into_iter().flat_map(|one| &one.clients).for_each(|id| ready.push_back(*id));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use jissoku_http::Limits;
    use jissoku_http::head::HeadReader;

    use super::*;
    use crate::config::Forwarding;

    fn key(target: &str) -> FlightKey {
        let text = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        let head = HeadReader::default().read(text.as_bytes(), &Limits::DEFAULT);
        let head = head.expect("it is a head").expect("it is whole");
        FlightKey::new((&head, text.as_bytes()), (Forwarding::new(0, 1), 0), 1, false)
    }

    fn clients() -> [ConnectionId; 3] {
        [1, 2, 3].map(ConnectionId::from_token)
    }

    #[test]
    fn a_request_ends_with_the_last_client_that_waits_for_it() {
        let (mut flights, mut exchanges) = (Flights::default(), Slab::default());
        let ([a, b, c], exchange) = (clients(), exchanges.insert(()));
        assert_eq!(flights.join(&key("/a"), a, 0), None);
        let place = flights.begin((key("/a"), 1), a, exchange, 100);
        assert_eq!(flights.join(&key("/a"), b, 99), Some(place));
        assert_eq!(flights.join(&key("/b"), b, 99), None);
        assert!(flights.leave(place, a).is_none());
        assert!(flights.leave(place, a).is_none(), "it has left before");
        assert_eq!(flights.join(&key("/a"), c, 99), Some(place));
        assert!(flights.leave(place, c).is_none());
        let ended = flights.leave(place, b).expect("it was the last one");
        assert_eq!(ended.exchange, exchange);
        assert_eq!(flights.join(&key("/a"), a, 99), None);
        assert!(flights.get(place).is_none() && flights.by_key.is_empty());
    }

    #[test]
    fn a_request_that_has_ended_or_hangs_is_not_joined() {
        let (mut flights, mut exchanges) = (Flights::default(), Slab::default());
        let ([a, b, c], exchange) = (clients(), exchanges.insert(()));
        let old = flights.begin((key("/a"), 1), a, exchange, 100);
        assert_eq!(flights.join(&key("/a"), b, 100), None);
        let new = flights.begin((key("/a"), 1), b, exchange, 200);
        flights.close(old);
        assert_eq!(flights.join(&key("/a"), c, 100), Some(new), "the old one was another");
        flights.close(new);
        assert_eq!(flights.join(&key("/a"), a, 100), None);
        assert!(flights.leave(new, c).is_none());
        assert!(flights.leave(new, b).is_some() && flights.leave(old, a).is_some());
    }
}
