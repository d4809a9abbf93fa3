//! Events of one connection: calls of the handler, and sends.

use std::io;

use super::slot::{PeerState, ReadState, interest};
use super::{Buffers, Driver, RECEIVE_OPENED_SIZE, RECEIVE_SIZE};
use crate::driver::listener::Origin;
use crate::driver::send_buffer::Sent;
use crate::driver::{Action, ConnectionId, EventHandler};
use crate::epoll::Interest;
use crate::socket::{self, Received};

/// After the bytes that are available, the connection ends.
const ENDS: Interest = Interest::RDHUP.union(Interest::HUP).union(Interest::ERR);

impl<H: EventHandler> Driver<H> {
    /// Processes an epoll event.
    pub(super) fn on_event(&mut self, handler: &mut H, id: ConnectionId, flags: Interest) {
        let Some(slot) = self.slab.get(id) else { return };
        if flags.contains(Interest::ERR) && slot.origin == Origin::Accepted {
            self.close(handler, id);
            return;
        }
        if slot.origin == Origin::Connecting {
            return self.finish_connecting(handler, id);
        }
        if flags.contains(Interest::OUT) && slot.unsent.is_some() {
            self.flush(handler, id);
        }
        if flags.intersects(Interest::IN | ENDS) {
            let is_last = flags.intersects(ENDS);
            if is_last && let Some(slot) = self.slab.get(id) {
                slot.peer = PeerState::HungUp;
            }
            self.receive(handler, id, is_last);
        }
    }

    /// Receives once, if the handler wants bytes; otherwise records that the socket is readable.
    ///
    /// `is_last`: end of file follows the available bytes, and will not be reported again.
    pub(super) fn receive(&mut self, handler: &mut H, id: ConnectionId, is_last: bool) {
        let Some(slot) = self.slab.get(id) else { return };
        if slot.read_state == ReadState::Eof {
            return;
        }
        slot.read_state = ReadState::Ready;
        let is_wanted = matches!(slot.next, Action::Receive | Action::ShutdownWrite);
        if !is_wanted || slot.is_blocked() {
            slot.report_hangup(handler);
            return;
        }
        let unsent = slot.unsent.as_ref().map_or(0, |unsent| unsent.size());
        let Buffers { received, output, .. } = &mut self.buffers;
        let size_max = match slot.origin {
            Origin::Accepted => RECEIVE_SIZE,
            Origin::Connecting | Origin::Opened => RECEIVE_OPENED_SIZE,
        };
        let received = &mut received[..size_max];
        let next = match socket::receive(&slot.socket, received) {
            Ok(Received::Bytes(size)) => {
                // A receive that did not fill the buffer has drained the socket (`epoll(7)`).
                if !is_last && size < received.len() {
                    slot.read_state = ReadState::NotReady;
                }
                let (connection, bytes) = (&mut slot.connection, &received[..size]);
                match slot.origin {
                    Origin::Accepted => handler.on_data(connection, bytes, output),
                    _ => handler.on_opened_data(connection, bytes, unsent, output),
                }
            }
            Ok(Received::End | Received::NotYet) if slot.send_error.is_some() => {
                return self.fail_opened(handler, id, None);
            }
            Ok(Received::End) => {
                slot.read_state = ReadState::Eof;
                handler.on_eof(&mut slot.connection, output)
            }
            Ok(Received::NotYet) => {
                slot.read_state = ReadState::NotReady;
                return;
            }
            Err(_) if slot.origin == Origin::Accepted => return self.close(handler, id),
            Err(error) => return self.fail_opened(handler, id, Some(error)),
        };
        self.apply_next(handler, id, next);
    }

    pub(super) fn resume(&mut self, handler: &mut H, id: ConnectionId) {
        let Some(slot) = self.slab.get(id) else { return };
        let unsent = slot.unsent.as_ref().map_or(0, |unsent| unsent.size());
        let next = handler.resume(&mut slot.connection, unsent, &mut self.buffers.output);
        self.apply_next(handler, id, next);
    }

    pub(super) fn call_queued(&mut self, handler: &mut H, id: ConnectionId) {
        let Some(slot) = self.slab.get(id) else { return };
        slot.is_queued = false;
        match slot.next {
            // It continues when the output is flushed.
            _ if slot.is_blocked() => {}
            Action::Yield | Action::Flush => self.resume(handler, id),
            Action::Receive | Action::ShutdownWrite if slot.read_state == ReadState::Ready => {
                self.receive(handler, id, true);
            }
            Action::Receive
            | Action::ShutdownWrite
            | Action::Suspend
            | Action::Move
            | Action::Close
            | Action::Abort
            | Action::Reset => {}
        }
    }

    /// Sends the output of a handler call and applies its `Action`.
    pub(super) fn apply_next(&mut self, handler: &mut H, id: ConnectionId, next: Action) {
        let next = if next == Action::Flush {
            let Some(next) = self.flush_and_resume(handler, id) else { return };
            next
        } else {
            next
        };
        let Some(slot) = self.slab.get(id) else { return };
        slot.next = next;
        let output = &mut self.buffers.output;
        if matches!(next, Action::Abort | Action::Reset) {
            output.clear();
            if slot.unsent.is_some() || next == Action::Reset {
                // Otherwise the kernel would keep the unsent data, possibly megabytes, for a peer
                // that does not read.
                let _gone = socket::set_linger_zero(&slot.socket);
            }
            return self.close(handler, id);
        }
        if slot.send_error.is_some() {
            output.clear();
        }
        if !output.is_empty() {
            if let Some(unsent) = &mut slot.unsent {
                unsent.append_all(output);
                return self.schedule(handler, id);
            }
            match output.send(&slot.socket) {
                Ok(Sent::All) => output.clear(),
                Ok(Sent::WouldBlock | Sent::BudgetSpent) => {
                    slot.unsent = Some(Box::new(output.take_unsent()));
                    if slot.is_registered
                        && self.epoll.modify(&slot.socket, id.token(), interest(true)).is_err()
                    {
                        return self.close(handler, id);
                    }
                }
                Err(error) => {
                    output.clear();
                    return self.on_send_error(handler, id, &error);
                }
            }
        }
        self.schedule(handler, id);
    }

    /// Sends pending output when the socket is writable.
    fn flush(&mut self, handler: &mut H, id: ConnectionId) {
        let Some(slot) = self.slab.get(id) else { return };
        let Some(unsent) = &mut slot.unsent else { return };
        match unsent.send(&slot.socket) {
            Ok(Sent::All) => {
                slot.unsent = None;
                let is_awaiting_room = slot.is_awaiting_room();
                match self.epoll.modify(&slot.socket, id.token(), interest(false)) {
                    Ok(()) if is_awaiting_room => self.resume(handler, id),
                    Ok(()) => self.schedule(handler, id),
                    Err(_) => self.close(handler, id),
                }
            }
            Ok(Sent::WouldBlock) => {}
            Ok(Sent::BudgetSpent) => {
                // Modifying the registration reports a socket again that is writable already.
                if self.epoll.modify(&slot.socket, id.token(), interest(true)).is_err() {
                    self.close(handler, id);
                }
            }
            Err(error) => self.on_send_error(handler, id, &error),
        }
    }

    /// Schedules the next call, once the output is sent.
    pub(super) fn schedule(&mut self, handler: &mut H, id: ConnectionId) {
        let Some(slot) = self.slab.get(id) else { return };
        if slot.is_blocked() {
            return;
        }
        let is_due = match slot.next {
            Action::Suspend => {
                slot.report_hangup(handler);
                false
            }
            Action::Yield | Action::Flush => true,
            Action::Move if slot.read_state != ReadState::Eof => {
                return self.move_connection(handler, id);
            }
            Action::Close | Action::Abort | Action::Reset | Action::Move => {
                return self.close_or_linger(handler, id);
            }
            Action::Receive | Action::ShutdownWrite if slot.read_state == ReadState::Eof => {
                return self.close(handler, id);
            }
            Action::Receive => slot.read_state == ReadState::Ready,
            Action::ShutdownWrite => {
                // A reset connection is detected by the next receive.
                let is_sent = slot.unsent.is_none();
                if is_sent && !std::mem::replace(&mut slot.write_is_shut, true) {
                    let _gone = socket::shutdown_write(&slot.socket);
                }
                slot.read_state == ReadState::Ready
            }
        };
        if is_due && !std::mem::replace(&mut slot.is_queued, true) {
            self.queue.push(id);
        }
    }

    /// Sends a connection to the queue of its listener. If that fails, it is received from here.
    fn move_connection(&mut self, handler: &mut H, id: ConnectionId) {
        let Some(slot) = self.slab.get(id) else { return };
        let queue = usize::try_from(slot.listener).ok().and_then(|it| self.move_queues.get(it));
        let Some(Some(queue)) = queue else {
            handler.on_move_failed(false);
            return self.receive_here(handler, id);
        };
        // Otherwise it would last as long as any process has the connection open (`epoll(7)`).
        let was_registered = std::mem::replace(&mut slot.is_registered, false);
        if was_registered && self.epoll.remove(&slot.socket).is_err() {
            return self.close(handler, id);
        }
        let Err(error) = socket::send_connection(queue, &slot.socket) else {
            return self.close(handler, id);
        };
        handler.on_move_failed(error.kind() == io::ErrorKind::WouldBlock);
        if was_registered {
            slot.is_registered = true;
            // The new registration reports bytes that were received meanwhile.
            if self.epoll.add(&slot.socket, id.token(), interest(false)).is_err() {
                return self.close(handler, id);
            }
        }
        self.receive_here(handler, id);
    }

    /// Closes a connection, unless that would reset it and the handler lets it linger.
    fn close_or_linger(&mut self, handler: &mut H, id: ConnectionId) {
        let Some(slot) = self.slab.get(id) else { return };
        let may_have_more = slot.read_state == ReadState::Ready && slot.next == Action::Close;
        if may_have_more && slot.origin == Origin::Accepted && socket::has_unread(&slot.socket) {
            slot.next = handler.on_unread(&mut slot.connection);
            if slot.next != Action::Close {
                return self.schedule(handler, id);
            }
        }
        self.close(handler, id);
    }

    fn receive_here(&mut self, handler: &mut H, id: ConnectionId) {
        let Some(slot) = self.slab.get(id) else { return };
        slot.next = Action::Receive;
        self.schedule(handler, id);
    }

    pub(super) fn close(&mut self, handler: &mut H, id: ConnectionId) {
        if let Some(slot) = self.slab.remove(id) {
            self.opened_count -= usize::from(slot.origin != Origin::Accepted);
            handler.on_close(slot.connection);
            // Closing the socket unregisters it: there is no duplicate, or it is unregistered.
            drop(slot.socket);
            if self.acceptor.is_paused() {
                self.acceptor.resume_at(self.now_ns);
            }
        }
    }
}
