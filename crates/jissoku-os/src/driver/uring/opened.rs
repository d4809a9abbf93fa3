//! Connections that the handler opens.

use std::io;

use super::Driver;
use super::connection::call;
use super::slot::{Eof, Slot};
use crate::driver::listener::Origin;
use crate::driver::{ConnectionId, EventHandler, Opening};
use crate::socket::{self, Endpoint};
use crate::uring::Completion;

impl<H: EventHandler> Driver<H> {
    /// Starts to open a connection.
    pub(super) fn open(&mut self, handler: &mut H, opening: Opening) {
        let Opening { endpoint, token, socket } = opening;
        let socket = match socket.map_or_else(|| socket::connect(&endpoint), Ok) {
            Ok(socket) => socket,
            Err(error) => return handler.on_connect_error(token, error),
        };
        let id = self.slab.next_key();
        let Some(connection) = handler.on_connecting(token, id) else { return };
        self.slab.insert(Slot::new(socket, connection, Origin::Connecting));
        self.opened_count += 1;
        match (&*endpoint, self.slab.get(id)) {
            (Endpoint::Tcp(_), Some(slot)) => self.ring.poll_writable(&slot.socket, id.token()),
            // A Unix socket is connected at once or not at all (`connect(2)`).
            _ => self.establish(handler, id),
        }
    }

    /// The outcome of connecting is known.
    pub(super) fn finish_connecting(&mut self, handler: &mut H, id: ConnectionId) {
        let Some(slot) = self.slab.get(id) else { return };
        match socket::take_error(&slot.socket) {
            Ok(()) => self.establish(handler, id),
            Err(error) => self.fail_opened(handler, id, &error),
        }
    }

    fn establish(&mut self, handler: &mut H, id: ConnectionId) {
        let Some(slot) = self.slab.get(id) else { return };
        slot.origin = Origin::Opened;
        let next = call(&mut self.slab, &mut self.send_queue, id, |connection, _, output| {
            handler.on_connected(connection, output)
        });
        self.apply_next(handler, id, next);
        self.receive(id);
    }

    /// Sorts the completions of opened connections to the front: so that the handler knows of the
    /// end of an idle one before it could be used for a client.
    pub(super) fn put_opened_first(&self, completions: &mut [Completion]) {
        if self.opened_count == 0 {
            return;
        }
        completions.sort_by_key(|completion| {
            let (Completion::Received { number, .. } | Completion::Ready { number, .. }) =
                completion
            else {
                return true;
            };
            let slot = self.slab.get_ref(ConnectionId::from_token(*number));
            slot.is_none_or(|slot| slot.origin == Origin::Accepted)
        });
    }

    /// A send has failed. An opened connection is received from to its end first: a response may
    /// be there already.
    pub(super) fn on_send_error(&mut self, handler: &mut H, id: ConnectionId, error: &io::Error) {
        let Some(slot) = self.slab.get(id) else { return };
        if slot.origin == Origin::Accepted {
            return self.close(handler, id);
        }
        slot.error = Some(error.kind());
        slot.unsent = None;
        if slot.eof == Eof::Delivered {
            return self.fail_opened(handler, id, error);
        }
        self.schedule(handler, id);
        self.receive(id);
    }

    /// A receive has failed. Bytes before that are passed first.
    pub(super) fn on_receive_error(&mut self, handler: &mut H, id: ConnectionId) {
        let Some(slot) = self.slab.get(id) else { return };
        if slot.origin == Origin::Accepted {
            return self.close(handler, id);
        }
        let error = *slot.error.get_or_insert(io::ErrorKind::ConnectionReset);
        if slot.pending_input.is_empty() {
            return self.fail_opened(handler, id, &error.into());
        }
        slot.eof = Eof::Pending;
        self.schedule(handler, id);
    }

    /// Reports the error of a connection, and closes it.
    pub(super) fn fail_opened(&mut self, handler: &mut H, id: ConnectionId, error: &io::Error) {
        let Some(slot) = self.slab.get(id) else { return };
        handler.on_error(&mut slot.connection, error);
        self.close(handler, id);
    }
}
