//! What is done with one connection: calls of its handler, and what they lead to.

use super::slot::Inbound;
use super::{Buffers, Driver};
use crate::driver::output::Sent;
use crate::driver::{Handler, Key, Next};
use crate::epoll::Interest;
use crate::socket::{self, Received};

impl<H: Handler> Driver<H> {
    /// Deals with what the kernel says about one connection.
    pub(super) fn report(&mut self, handler: &mut H, key: Key, flags: Interest) {
        let Some(slot) = self.slots.get(key) else { return };
        if flags.contains(Interest::ERR) {
            self.close(handler, key);
            return;
        }
        if flags.contains(Interest::OUT) && slot.unsent.is_some() {
            self.flush(handler, key);
        }
        if flags.intersects(Interest::IN | Interest::RDHUP | Interest::HUP) {
            let is_last = flags.intersects(Interest::RDHUP | Interest::HUP);
            self.receive(handler, key, is_last);
        }
    }

    /// Receives once, if the connection wants that now; otherwise remembers that it can.
    ///
    /// `is_last`: the end lies behind the bytes that are there, and no further report will come for it.
    pub(super) fn receive(&mut self, handler: &mut H, key: Key, is_last: bool) {
        let Some(slot) = self.slots.get(key) else { return };
        if slot.inbound == Inbound::Ended {
            return;
        }
        slot.inbound = Inbound::Ready;
        let is_wanted = matches!(slot.next, Next::Receive | Next::Finish);
        if !is_wanted || slot.unsent.is_some() {
            return;
        }
        let Buffers { received, output, .. } = &mut self.buffers;
        let next = match socket::receive(&slot.socket, received) {
            Ok(Received::Bytes(size)) => {
                // A receive that did not fill the buffer has drained the socket (`epoll(7)`).
                if !is_last && size < received.len() {
                    slot.inbound = Inbound::Drained;
                }
                handler.receive(&mut slot.connection, &received[..size], output)
            }
            Ok(Received::End) => {
                slot.inbound = Inbound::Ended;
                handler.end(&mut slot.connection, output)
            }
            Ok(Received::NotYet) => {
                slot.inbound = Inbound::Drained;
                return;
            }
            Err(_) => return self.close(handler, key),
        };
        self.settle(handler, key, next);
    }

    pub(super) fn proceed(&mut self, handler: &mut H, key: Key) {
        let Some(slot) = self.slots.get(key) else { return };
        let unsent = slot.unsent.as_ref().map_or(0, |unsent| unsent.size());
        let next = handler.proceed(&mut slot.connection, unsent, &mut self.buffers.output);
        self.settle(handler, key, next);
    }

    pub(super) fn call_queued(&mut self, handler: &mut H, key: Key) {
        let Some(slot) = self.slots.get(key) else { return };
        slot.is_queued = false;
        match slot.next {
            // The report of a flush will come back to it.
            _ if slot.unsent.is_some() => {}
            Next::Proceed => self.proceed(handler, key),
            Next::Receive | Next::Finish if slot.inbound == Inbound::Ready => {
                self.receive(handler, key, true);
            }
            Next::Receive | Next::Finish | Next::Hold | Next::Close | Next::Abort => {}
        }
    }

    /// Sends what a call has put out, and arranges for what the connection needs next.
    fn settle(&mut self, handler: &mut H, key: Key, next: Next) {
        let Some(slot) = self.slots.get(key) else { return };
        slot.next = next;
        let output = &mut self.buffers.output;
        if next == Next::Abort {
            output.clear();
            if slot.unsent.is_some() {
                // Otherwise the kernel would keep what it has taken of it, megabytes perhaps, for a peer
                // that does not read.
                let _gone = socket::reset_on_close(&slot.socket);
            }
            return self.close(handler, key);
        }
        if !output.is_empty() {
            if let Some(unsent) = &mut slot.unsent {
                unsent.append_all(output);
                return;
            }
            match output.send(&slot.socket) {
                Ok(Sent::All) => output.clear(),
                Ok(Sent::NoRoom | Sent::Enough) => {
                    slot.unsent = Some(Box::new(output.take_unsent()));
                    if slot.is_watched
                        && self.epoll.modify(&slot.socket, key.token(), interest(true)).is_err()
                    {
                        self.close(handler, key);
                    }
                    return;
                }
                Err(_) => {
                    output.clear();
                    return self.close(handler, key);
                }
            }
        }
        self.arrange(handler, key);
    }

    /// Sends what was left over; the peer has made room.
    fn flush(&mut self, handler: &mut H, key: Key) {
        let Some(slot) = self.slots.get(key) else { return };
        let Some(unsent) = &mut slot.unsent else { return };
        match unsent.send(&slot.socket) {
            Ok(Sent::All) => {
                slot.unsent = None;
                match self.epoll.modify(&slot.socket, key.token(), interest(false)) {
                    Ok(()) => self.arrange(handler, key),
                    Err(_) => self.close(handler, key),
                }
            }
            Ok(Sent::NoRoom) => {}
            Ok(Sent::Enough) => {
                // Said again, it is reported again, room being there already.
                if self.epoll.modify(&slot.socket, key.token(), interest(true)).is_err() {
                    self.close(handler, key);
                }
            }
            Err(_) => self.close(handler, key),
        }
    }

    /// Sees to it that the next call comes, now that the output has gone.
    fn arrange(&mut self, handler: &mut H, key: Key) {
        let Some(slot) = self.slots.get(key) else { return };
        if slot.unsent.is_some() {
            return;
        }
        let is_due = match slot.next {
            Next::Hold => false,
            Next::Proceed => true,
            Next::Close | Next::Abort => return self.close(handler, key),
            Next::Receive | Next::Finish if slot.inbound == Inbound::Ended => {
                return self.close(handler, key);
            }
            Next::Receive => slot.inbound == Inbound::Ready,
            Next::Finish => {
                // A peer that has gone already will be noticed by the next receive.
                if !std::mem::replace(&mut slot.has_finished, true) {
                    let _gone = socket::finish(&slot.socket);
                }
                slot.inbound == Inbound::Ready
            }
        };
        if is_due && !std::mem::replace(&mut slot.is_queued, true) {
            self.queue.push(key);
        }
    }

    pub(super) fn close(&mut self, handler: &mut H, key: Key) {
        if let Some(slot) = self.slots.remove(key) {
            handler.close(slot.connection);
            // Closing the socket ends the watch: nobody else has this description.
            drop(slot.socket);
            if self.gate.is_paused() {
                self.gate.open_at(self.now_ns);
            }
        }
    }
}

/// Room to send is reported only while something waits for it: a Unix socket would report it after every
/// message that the peer takes.
pub(super) const fn interest(waits_for_room: bool) -> Interest {
    let always = Interest::IN.union(Interest::RDHUP).union(Interest::ET);
    if waits_for_room { always.union(Interest::OUT) } else { always }
}
