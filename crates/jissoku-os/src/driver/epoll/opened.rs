//! Connections that the handler opens.

use std::io;

use super::Driver;
use super::acceptor::Acceptor;
use super::slot::{ReadState, Slot, interest};
use super::{TIMER, WAKER};
use crate::driver::listener::Origin;
use crate::driver::{ConnectionId, EventHandler, Opening};
use crate::epoll::Interest;
use crate::socket::{self, Endpoint};

impl<H: EventHandler> Driver<H> {
    /// Starts to open a connection.
    pub(super) fn open(&mut self, handler: &mut H, opening: Opening) {
        let Opening { endpoint, token, socket } = opening;
        let socket = match socket.map_or_else(|| socket::connect(&endpoint), Ok) {
            Ok(socket) => socket,
            Err(error) => return handler.on_connect_error(token, error),
        };
        let id = self.slab.next_key();
        // A Unix socket is connected at once or not at all (`connect(2)`).
        let is_connecting = matches!(*endpoint, Endpoint::Tcp(_));
        if let Err(error) = self.epoll.add(&socket, id.token(), interest(is_connecting)) {
            return handler.on_connect_error(token, error);
        }
        let Some(connection) = handler.on_connecting(token, id) else { return };
        let mut slot = Slot::new(socket, connection, Origin::Connecting);
        slot.is_registered = true;
        slot.read_state = ReadState::NotReady;
        self.slab.insert(slot);
        self.opened_count += 1;
        if !is_connecting {
            self.establish(handler, id);
        }
    }

    /// The outcome of connecting is known.
    pub(super) fn finish_connecting(&mut self, handler: &mut H, id: ConnectionId) {
        let Some(slot) = self.slab.get(id) else { return };
        let outcome = socket::take_error(&slot.socket)
            .and_then(|()| self.epoll.modify(&slot.socket, id.token(), interest(false)));
        match outcome {
            Ok(()) => self.establish(handler, id),
            Err(error) => self.fail_opened(handler, id, Some(error)),
        }
    }

    fn establish(&mut self, handler: &mut H, id: ConnectionId) {
        let Some(slot) = self.slab.get(id) else { return };
        slot.origin = Origin::Opened;
        let next = handler.on_connected(&mut slot.connection, &mut self.buffers.output);
        self.apply_next(handler, id, next);
    }

    /// Processes the events of opened connections, of `count` events: so that the handler knows of
    /// the end of an idle one before it could be used for a client.
    pub(super) fn process_opened(&mut self, handler: &mut H, count: usize) {
        for index in 0..count {
            let event = self.buffers.events[index];
            let token = event.data.u64();
            if token == WAKER || token == TIMER || Acceptor::index_of(token).is_some() {
                continue;
            }
            let id = ConnectionId::from_token(token);
            if self.slab.get_ref(id).is_some_and(|slot| slot.origin != Origin::Accepted) {
                self.buffers.events[index].flags = Interest::empty();
                self.on_event(handler, id, event.flags);
            }
        }
    }

    /// A send has failed. An opened connection is received from to its end first: a response may
    /// be there already.
    pub(super) fn on_send_error(&mut self, handler: &mut H, id: ConnectionId, error: &io::Error) {
        let Some(slot) = self.slab.get(id) else { return };
        if slot.origin == Origin::Accepted {
            return self.close(handler, id);
        }
        slot.send_error = Some(error.kind());
        slot.unsent = None;
        if slot.read_state == ReadState::Eof {
            return self.fail_opened(handler, id, None);
        }
        slot.read_state = ReadState::Ready;
        self.schedule(handler, id);
    }

    /// Reports the error of a connection, or that of its last send, and closes it.
    pub(super) fn fail_opened(
        &mut self,
        handler: &mut H,
        id: ConnectionId,
        error: Option<io::Error>,
    ) {
        let Some(slot) = self.slab.get(id) else { return };
        let error = error.or_else(|| slot.send_error.map(io::Error::from));
        if let Some(error) = error {
            handler.on_error(&mut slot.connection, &error);
        }
        self.close(handler, id);
    }
}
