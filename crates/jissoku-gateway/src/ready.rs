//! What is to be continued in this wake-up.

use std::collections::VecDeque;

use jissoku_os::driver::ConnectionId;

use crate::exchange::Exchange;
use crate::slab::Key;

/// Connections of either side, and exchanges that have no client any more.
#[derive(Debug, Default)]
pub(crate) struct Ready {
    connections: VecDeque<ConnectionId>,
    orphans: VecDeque<Key>,
}

impl Ready {
    /// Adds a connection.
    pub(crate) fn push_back(&mut self, connection: ConnectionId) {
        self.connections.push_back(connection);
    }

    /// Adds a connection, if there is one.
    pub(crate) fn extend(&mut self, connection: Option<ConnectionId>) {
        self.connections.extend(connection);
    }

    /// There is more of the response to an exchange.
    pub(crate) fn wake(&mut self, key: Key, exchange: &Exchange) {
        if exchange.is_orphan() {
            self.orphans.push_back(key);
        } else {
            self.connections.push_back(exchange.client);
        }
    }

    /// The next connection.
    pub(crate) fn pop_front(&mut self) -> Option<ConnectionId> {
        self.connections.pop_front()
    }

    /// The next exchange without a client.
    pub(crate) fn pop_orphan(&mut self) -> Option<Key> {
        self.orphans.pop_front()
    }
}
