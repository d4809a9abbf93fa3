//! Calls of the handler for one connection before any other ([`Action::Flush`]).

use super::slot::interest;
use super::{Buffers, Driver};
use crate::clock;
use crate::driver::flush::{PeerSide, flush};
use crate::driver::{Action, ConnectionId, EventHandler};
use rustix::fd::AsFd;

impl<H: EventHandler> Driver<H> {
    /// Sends the output and calls the handler until it requests something else, which is returned;
    /// `None` if the connection is closed.
    pub(super) fn flush_and_resume(&mut self, handler: &mut H, id: ConnectionId) -> Option<Action> {
        let is_watched = self.slab.get(id)?.unsent.is_some();
        let mut next = Action::Flush;
        while next == Action::Flush {
            next = self.flush_once(handler, id)?;
        }
        let slot = self.slab.get(id)?;
        let waits_for_room = slot.unsent.is_some();
        if waits_for_room != is_watched
            && slot.is_registered
            && self.epoll.modify(&slot.socket, id.token(), interest(waits_for_room)).is_err()
        {
            self.buffers.output.clear();
            self.close(handler, id);
            return None;
        }
        Some(next)
    }

    fn flush_once(&mut self, handler: &mut H, id: ConnectionId) -> Option<Action> {
        let slot = self.slab.get(id)?;
        let Buffers { output, .. } = &mut self.buffers;
        let flushed = match &mut slot.unsent {
            Some(unsent) => {
                unsent.append_all(output);
                flush(handler, slot.socket.as_fd(), unsent)
            }
            None => flush(handler, slot.socket.as_fd(), output),
        };
        match flushed {
            Ok(PeerSide::Open) => {}
            Ok(PeerSide::Shut) => handler.on_hangup(&mut slot.connection),
            Err(error) => {
                output.clear();
                self.on_send_error(handler, id, &error);
                return None;
            }
        }
        if !output.is_empty() {
            slot.unsent = Some(Box::new(output.take_unsent()));
        }
        slot.unsent.take_if(|unsent| unsent.is_empty());
        let unsent = slot.unsent.as_ref().map_or(0, |unsent| unsent.size());
        self.now_ns = clock::monotonic_ns();
        handler.on_flush(self.now_ns);
        Some(handler.resume(&mut slot.connection, unsent, output))
    }
}
