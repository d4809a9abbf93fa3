//! Calls of the handler for one connection before any other ([`Action::Flush`]).

use super::Driver;
use crate::clock;
use crate::driver::flush::{PeerSide, flush};
use crate::driver::{Action, ConnectionId, EventHandler};
use rustix::fd::AsFd;

impl<H: EventHandler> Driver<H> {
    /// Sends the output and calls the handler until it requests something else, which is returned;
    /// `None` if the connection is closed. These sends are not those of the ring, which are submitted
    /// with the next wait only.
    pub(super) fn flush_and_resume(&mut self, handler: &mut H, id: ConnectionId) -> Option<Action> {
        let mut next = Action::Flush;
        while next == Action::Flush {
            next = self.flush_once(handler, id)?;
        }
        Some(next)
    }

    fn flush_once(&mut self, handler: &mut H, id: ConnectionId) -> Option<Action> {
        let Self { slab, send_queue, .. } = self;
        let slot = slab.get(id)?;
        if slot.unsent.is_none() && slot.send.is_none() && !send_queue.scratch.is_empty() {
            slot.send = Some(send_queue.enqueue(id));
        }
        let socket = slot.socket.as_fd();
        let output = match &mut slot.unsent {
            // A poll for writability is active: it stays until that has completed, even if empty.
            Some(unsent) => {
                unsent.append_all(&mut send_queue.scratch);
                &mut **unsent
            }
            None => send_queue.output(slot.send),
        };
        let flushed = flush(handler, socket, output);
        let unsent = output.size();
        match flushed {
            Ok(PeerSide::Open) => {}
            Ok(PeerSide::Shut) => handler.on_hangup(&mut slot.connection),
            Err(error) => {
                output.clear();
                self.on_send_error(handler, id, &error);
                return None;
            }
        }
        self.now_ns = clock::monotonic_ns();
        handler.on_flush(self.now_ns);
        let output = send_queue.output(slot.send);
        Some(handler.resume(&mut slot.connection, unsent, output))
    }
}
