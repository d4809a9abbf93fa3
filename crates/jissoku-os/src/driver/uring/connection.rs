//! Completions of one connection: calls of the handler, and sends.

use super::Driver;
use super::send_queue::{PendingSend, SendQueue};
use super::slot::{Eof, RecvState, Slot};
use crate::driver::Slab;
use crate::driver::listener::Origin;
use crate::driver::send_buffer::Sent;
use crate::driver::{Action, ConnectionId, EventHandler, SendBuffer};
use crate::socket;
use crate::uring::{BufferLease, Received, SendData};

impl<H: EventHandler> Driver<H> {
    /// Processes the completion of a receive.
    #[inline]
    pub(super) fn received(
        &mut self,
        handler: &mut H,
        id: ConnectionId,
        result: Received,
        more: bool,
    ) {
        if let Some(slot) = self.slab.get(id)
            && !more
        {
            slot.recv_state = RecvState::Off;
        }
        match result {
            Received::Bytes(filled) => {
                self.take_bytes(handler, id, &filled);
                self.ring.release(filled);
            }
            Received::End => {
                let Some(slot) = self.slab.get(id) else { return };
                slot.eof = Eof::Pending;
                if slot.wants_bytes() && slot.pending_input.is_empty() {
                    return self.deliver_eof(handler, id);
                }
                slot.report_hangup(handler);
            }
            // Buffers are released before the next wait.
            Received::NoBuffers | Received::Cancelled => {}
            Received::Failed => return self.on_receive_error(handler, id),
        }
        if !more {
            self.receive(id);
        }
    }

    fn take_bytes(&mut self, handler: &mut H, id: ConnectionId, filled: &BufferLease) {
        let Some(slot) = self.slab.get(id) else { return };
        let bytes = self.ring.bytes(filled);
        if slot.wants_bytes() && slot.pending_input.is_empty() {
            let send_queue = &mut self.send_queue;
            let origin = slot.origin;
            let next = call(&mut self.slab, send_queue, id, |connection, unsent, output| {
                pass(handler, origin, (connection, bytes), unsent, output)
            });
            return self.apply_next(handler, id, next);
        }
        slot.pending_input.extend_from_slice(bytes);
        if slot.recv_state == RecvState::On {
            slot.recv_state = RecvState::Cancelling;
            self.ring.cancel_receive(id.token());
        }
    }

    pub(super) fn deliver_eof(&mut self, handler: &mut H, id: ConnectionId) {
        if let Some(slot) = self.slab.get(id) {
            slot.eof = Eof::Delivered;
            if let Some(error) = slot.error {
                return self.fail_opened(handler, id, &error.into());
            }
        }
        let next = call(&mut self.slab, &mut self.send_queue, id, |connection, _, output| {
            handler.on_eof(connection, output)
        });
        self.apply_next(handler, id, next);
    }

    pub(super) fn resume(&mut self, handler: &mut H, id: ConnectionId) {
        let next = call(&mut self.slab, &mut self.send_queue, id, |connection, unsent, output| {
            handler.resume(connection, unsent, output)
        });
        self.apply_next(handler, id, next);
    }

    pub(super) fn call_queued(&mut self, handler: &mut H, id: ConnectionId) {
        let Some(slot) = self.slab.get(id) else { return };
        slot.is_queued = false;
        match slot.next {
            // It continues when the output is sent.
            _ if slot.is_blocked() || slot.send.is_some() => {}
            Action::Yield | Action::Flush => self.resume(handler, id),
            Action::Receive | Action::ShutdownWrite if !slot.pending_input.is_empty() => {
                let bytes = std::mem::take(&mut slot.pending_input);
                let send_queue = &mut self.send_queue;
                let origin = slot.origin;
                let next = call(&mut self.slab, send_queue, id, |connection, unsent, output| {
                    pass(handler, origin, (connection, &bytes), unsent, output)
                });
                self.apply_next(handler, id, next);
            }
            Action::Receive | Action::ShutdownWrite if slot.eof == Eof::Pending => {
                self.deliver_eof(handler, id);
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

    /// Queues the output of a handler call and applies its `Action`.
    #[inline]
    pub(super) fn apply_next(&mut self, handler: &mut H, id: ConnectionId, next: Option<Action>) {
        let next = match next {
            Some(Action::Flush) => self.flush_and_resume(handler, id),
            next => next,
        };
        let (Some(slot), Some(next)) = (self.slab.get(id), next) else { return };
        slot.next = next;
        if next == Action::Move {
            handler.on_move_failed(false);
            slot.next = Action::Receive;
        }
        let send_queue = &mut self.send_queue;
        if matches!(next, Action::Abort | Action::Reset) {
            send_queue.scratch.clear();
            if slot.unsent.is_some() || next == Action::Reset {
                // Otherwise the kernel would keep the unsent data, possibly megabytes, for a peer
                // that does not read.
                let _gone = socket::set_linger_zero(&slot.socket);
            }
            return self.close(handler, id);
        }
        if slot.error.is_some() {
            send_queue.output(slot.send).clear();
        }
        if let Some(unsent) = &mut slot.unsent {
            unsent.append_all(&mut send_queue.scratch);
            return self.schedule(handler, id);
        }
        if slot.send.is_none() && !send_queue.scratch.is_empty() {
            slot.send = Some(send_queue.enqueue(id));
        }
        let Some(place) = slot.send else { return self.schedule(handler, id) };
        send_queue.is_urgent |= slot.has_followup();
        send_queue.check(place);
        // The response may be followed by the next request.
        self.receive(id);
    }

    /// Sends output with files, which the ring does not support.
    pub(super) fn send_files(&mut self, handler: &mut H) {
        for place in std::mem::take(&mut self.send_queue.files) {
            let send = &mut self.send_queue.sends[place];
            let id = send.id;
            let Some(slot) = self.slab.get(id) else { continue };
            match send.output.send(&slot.socket) {
                Ok(Sent::All) => {}
                Ok(Sent::WouldBlock | Sent::BudgetSpent) => {
                    let unsent = std::mem::take(&mut send.output);
                    slot.send = None;
                    self.keep(id, unsent);
                }
                Err(error) => {
                    send.output.clear();
                    slot.send = None;
                    self.on_send_error(handler, id, &error);
                }
            }
        }
    }

    /// Processes the result of a send.
    #[inline]
    pub(super) fn sent(&mut self, handler: &mut H, send: PendingSend) {
        let PendingSend { id, mut output, short, .. } = send;
        let Some(slot) = self.slab.get(id) else { return self.send_queue.recycle(output) };
        slot.send = None;
        let sent = match short {
            None => match output.sendable() {
                SendData::One(bytes) => bytes.len(),
                SendData::Many(places) => places.map(<[u8]>::len).sum(),
            },
            Some(Ok(size)) => size,
            Some(Err(error)) => {
                self.send_queue.recycle(output);
                return self.on_send_error(handler, id, &error);
            }
        };
        output.advance(sent);
        if output.is_empty() {
            self.send_queue.recycle(output);
            self.schedule(handler, id);
        } else {
            self.keep(id, output);
        }
    }

    /// Keeps unsent output until the socket is writable.
    fn keep(&mut self, id: ConnectionId, mut output: SendBuffer) {
        let Some(slot) = self.slab.get(id) else { return };
        slot.unsent = Some(Box::new(output.take_unsent()));
        self.send_queue.recycle(output);
        self.ring.poll_writable(&slot.socket, id.token());
        self.receive(id);
    }

    /// Sends pending output when the socket is writable or reset.
    pub(super) fn flush(&mut self, handler: &mut H, id: ConnectionId) {
        let Some(slot) = self.slab.get(id) else { return };
        if slot.origin == Origin::Connecting {
            return self.finish_connecting(handler, id);
        }
        let Some(unsent) = &mut slot.unsent else { return };
        match unsent.send(&slot.socket) {
            Ok(Sent::All) => {
                slot.unsent = None;
                if slot.is_awaiting_room() {
                    return self.resume(handler, id);
                }
                self.schedule(handler, id);
            }
            Ok(Sent::WouldBlock | Sent::BudgetSpent) => {
                self.ring.poll_writable(&slot.socket, id.token());
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
            Action::Close if slot.origin == Origin::Accepted && !slot.pending_input.is_empty() => {
                slot.next = handler.on_unread(&mut slot.connection);
                if slot.next == Action::Close {
                    return self.close(handler, id);
                }
                return self.schedule(handler, id);
            }
            Action::Close | Action::Abort | Action::Reset => return self.close(handler, id),
            Action::Receive | Action::ShutdownWrite if slot.eof == Eof::Delivered => {
                return self.close(handler, id);
            }
            Action::Receive | Action::Move => slot.has_more(),
            Action::ShutdownWrite => {
                // A reset connection is detected by the next receive.
                let is_sent = slot.unsent.is_none() && slot.send.is_none();
                if is_sent && !std::mem::replace(&mut slot.write_is_shut, true) {
                    let _gone = socket::shutdown_write(&slot.socket);
                }
                slot.has_more()
            }
        };
        if !is_due {
            self.receive(id);
        } else if !std::mem::replace(&mut slot.is_queued, true) {
            self.queue.push(id);
        }
    }

    /// Starts a receive, if the handler wants bytes and none is active.
    pub(super) fn receive(&mut self, id: ConnectionId) {
        let Some(slot) = self.slab.get(id) else { return };
        if slot.origin == Origin::Connecting {
            return;
        }
        let is_possible = slot.recv_state == RecvState::Off && slot.eof == Eof::No;
        if is_possible && slot.wants_bytes() && slot.pending_input.is_empty() {
            slot.recv_state = RecvState::On;
            self.ring.receive_some(&slot.socket, id.token());
        }
    }

    pub(super) fn close(&mut self, handler: &mut H, id: ConnectionId) {
        let Some(slot) = self.slab.remove(id) else { return };
        self.opened_count -= usize::from(slot.origin != Origin::Accepted);
        handler.on_close(slot.connection);
        if let Some(place) = slot.send {
            // Its descriptor may be reused.
            self.send_queue.output(Some(place)).clear();
        }
        if slot.recv_state == RecvState::On {
            self.ring.cancel_receive(id.token());
        }
        if slot.unsent.is_some() || slot.origin == Origin::Connecting {
            self.ring.cancel_poll(id.token());
        }
        self.ring.close(slot.socket);
        if self.acceptor.is_paused() {
            self.acceptor.resume_at(self.now_ns);
        }
    }
}

/// Passes received bytes to the handler.
#[inline]
fn pass<H: EventHandler>(
    handler: &mut H,
    origin: Origin,
    (connection, bytes): (&mut H::Connection, &[u8]),
    unsent: usize,
    output: &mut SendBuffer,
) -> Action {
    match origin {
        Origin::Accepted => handler.on_data(connection, bytes, output),
        _ => handler.on_opened_data(connection, bytes, unsent + output.size(), output),
    }
}

/// Calls the handler of a connection; its output is appended to that of this iteration.
#[inline]
pub(super) fn call<C>(
    slots: &mut Slab<Slot<C>>,
    send_queue: &mut SendQueue,
    id: ConnectionId,
    call: impl FnOnce(&mut C, usize, &mut SendBuffer) -> Action,
) -> Option<Action> {
    let slot = slots.get(id)?;
    let unsent = slot.unsent.as_ref().map_or(0, |unsent| unsent.size());
    Some(call(&mut slot.connection, unsent, send_queue.output(slot.send)))
}
