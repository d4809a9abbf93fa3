//! What is done with one connection: calls of its handler, and what they lead to.

use super::Driver;
use super::outbox::{Letter, Outbox};
use super::slot::{End, Receiver, Slot};
use crate::driver::output::Sent;
use crate::driver::slots::Slots;
use crate::driver::{Handler, Key, Next, Output};
use crate::socket;
use crate::uring::{Bytes, Filled, Received};

impl<H: Handler> Driver<H> {
    /// Deals with what a receive reports.
    #[inline]
    pub(super) fn received(&mut self, handler: &mut H, key: Key, what: Received, goes_on: bool) {
        if let Some(slot) = self.slots.get(key)
            && !goes_on
        {
            slot.receiver = Receiver::Off;
        }
        match what {
            Received::Bytes(filled) => {
                self.take_bytes(handler, key, &filled);
                self.ring.give_back(filled);
            }
            Received::End => {
                let Some(slot) = self.slots.get(key) else { return };
                slot.end = End::Here;
                if slot.wants_bytes() && slot.stash.is_empty() {
                    return self.tell_end(handler, key);
                }
            }
            // Buffers are back before the next wait.
            Received::Starved | Received::Cancelled => {}
            Received::Failed => return self.close(handler, key),
        }
        if !goes_on {
            self.receive(key);
        }
    }

    fn take_bytes(&mut self, handler: &mut H, key: Key, filled: &Filled) {
        let Some(slot) = self.slots.get(key) else { return };
        let bytes = self.ring.bytes(filled);
        if slot.wants_bytes() && slot.stash.is_empty() {
            let outbox = &mut self.outbox;
            let next = call(&mut self.slots, outbox, key, |connection, _, output| {
                handler.receive(connection, bytes, output)
            });
            return self.settle(handler, key, next);
        }
        slot.stash.extend_from_slice(bytes);
        if slot.receiver == Receiver::On {
            slot.receiver = Receiver::Ending;
            self.ring.cancel_receive(key.token());
        }
    }

    fn tell_end(&mut self, handler: &mut H, key: Key) {
        if let Some(slot) = self.slots.get(key) {
            slot.end = End::Told;
        }
        let next = call(&mut self.slots, &mut self.outbox, key, |connection, _, output| {
            handler.end(connection, output)
        });
        self.settle(handler, key, next);
    }

    pub(super) fn proceed(&mut self, handler: &mut H, key: Key) {
        let next = call(&mut self.slots, &mut self.outbox, key, |connection, unsent, output| {
            handler.proceed(connection, unsent, output)
        });
        self.settle(handler, key, next);
    }

    pub(super) fn call_queued(&mut self, handler: &mut H, key: Key) {
        let Some(slot) = self.slots.get(key) else { return };
        slot.is_queued = false;
        match slot.next {
            // When its output has gone, it will be seen to again.
            _ if slot.unsent.is_some() || slot.letter.is_some() => {}
            Next::Proceed => self.proceed(handler, key),
            Next::Receive | Next::Finish if !slot.stash.is_empty() => {
                let bytes = std::mem::take(&mut slot.stash);
                let outbox = &mut self.outbox;
                let next = call(&mut self.slots, outbox, key, |connection, _, output| {
                    handler.receive(connection, &bytes, output)
                });
                self.settle(handler, key, next);
            }
            Next::Receive | Next::Finish if slot.end == End::Here => self.tell_end(handler, key),
            Next::Receive | Next::Finish | Next::Hold | Next::Close | Next::Abort => {}
        }
    }

    /// Has what a call has put out sent with the next wait, and arranges for what the connection needs.
    #[inline]
    fn settle(&mut self, handler: &mut H, key: Key, next: Option<Next>) {
        let (Some(slot), Some(next)) = (self.slots.get(key), next) else { return };
        slot.next = next;
        let outbox = &mut self.outbox;
        if next == Next::Abort {
            outbox.blank.clear();
            if slot.unsent.is_some() {
                // Otherwise the kernel would keep what it has taken of it, megabytes perhaps, for a peer
                // that does not read.
                let _gone = socket::reset_on_close(&slot.socket);
            }
            return self.close(handler, key);
        }
        if let Some(unsent) = &mut slot.unsent {
            unsent.append_all(&mut outbox.blank);
            return;
        }
        if slot.letter.is_none() && !outbox.blank.is_empty() {
            slot.letter = Some(outbox.post(key));
        }
        let Some(place) = slot.letter else { return self.arrange(handler, key) };
        outbox.is_urgent |= slot.has_sequel();
        outbox.check(place);
        // The answer to these bytes may bring the next ones.
        self.receive(key);
    }

    /// Sends the letters that the ring cannot.
    pub(super) fn send_files(&mut self, handler: &mut H) {
        for place in std::mem::take(&mut self.outbox.files) {
            let letter = &mut self.outbox.letters[place];
            let key = letter.key;
            let Some(slot) = self.slots.get(key) else { continue };
            match letter.output.send(&slot.socket) {
                Ok(Sent::All) => {}
                Ok(Sent::NoRoom | Sent::Enough) => {
                    let unsent = std::mem::take(&mut letter.output);
                    slot.letter = None;
                    self.keep(key, unsent);
                }
                Err(_) => self.close(handler, key),
            }
        }
    }

    /// Deals with a letter that the kernel has seen.
    #[inline]
    pub(super) fn sent(&mut self, handler: &mut H, letter: Letter) {
        let Letter { key, mut output, short, .. } = letter;
        let Some(slot) = self.slots.get(key) else { return self.outbox.recycle(output) };
        slot.letter = None;
        let sent = match short {
            None => match output.offer() {
                Bytes::One(bytes) => bytes.len(),
                Bytes::Many(places) => places.map(<[u8]>::len).sum(),
            },
            Some(Ok(size)) => size,
            Some(Err(_)) => return self.close(handler, key),
        };
        output.note_sent(sent);
        if output.is_empty() {
            self.outbox.recycle(output);
            self.arrange(handler, key);
        } else {
            self.keep(key, output);
        }
    }

    /// Keeps what the peer has no room for now.
    fn keep(&mut self, key: Key, mut output: Output) {
        let Some(slot) = self.slots.get(key) else { return };
        slot.unsent = Some(Box::new(output.take_unsent()));
        self.outbox.recycle(output);
        self.ring.await_room(&slot.socket, key.token());
    }

    /// Sends what was left over; the peer has made room, or is gone.
    pub(super) fn flush(&mut self, handler: &mut H, key: Key) {
        let Some(slot) = self.slots.get(key) else { return };
        let Some(unsent) = &mut slot.unsent else { return };
        match unsent.send(&slot.socket) {
            Ok(Sent::All) => {
                slot.unsent = None;
                self.arrange(handler, key);
            }
            Ok(Sent::NoRoom | Sent::Enough) => self.ring.await_room(&slot.socket, key.token()),
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
            Next::Receive | Next::Finish if slot.end == End::Told => {
                return self.close(handler, key);
            }
            Next::Receive => slot.has_more(),
            Next::Finish => {
                // A peer that has gone already will be noticed by the next receive.
                if !std::mem::replace(&mut slot.has_finished, true) {
                    let _gone = socket::finish(&slot.socket);
                }
                slot.has_more()
            }
        };
        if !is_due {
            self.receive(key);
        } else if !std::mem::replace(&mut slot.is_queued, true) {
            self.queue.push(key);
        }
    }

    /// Has the kernel receive from a connection that wants bytes, unless it does so already.
    pub(super) fn receive(&mut self, key: Key) {
        let Some(slot) = self.slots.get(key) else { return };
        let is_possible = slot.receiver == Receiver::Off && slot.end == End::Ahead;
        if is_possible && slot.wants_bytes() && slot.stash.is_empty() {
            slot.receiver = Receiver::On;
            self.ring.receive_some(&slot.socket, key.token());
        }
    }

    fn close(&mut self, handler: &mut H, key: Key) {
        let Some(slot) = self.slots.remove(key) else { return };
        handler.close(slot.connection);
        if let Some(place) = slot.letter {
            // Its descriptor may soon be somebody else's.
            self.outbox.output(Some(place)).clear();
        }
        if slot.receiver == Receiver::On {
            self.ring.cancel_receive(key.token());
        }
        if slot.unsent.is_some() {
            self.ring.cancel_room(key.token());
        }
        self.ring.close(slot.socket);
        if self.gate.is_paused() {
            self.gate.open_at(self.now_ns);
        }
    }
}

/// Calls the handler of a connection, which may put its output where the rest of this turn's is.
#[inline]
fn call<C>(
    slots: &mut Slots<Slot<C>>,
    outbox: &mut Outbox,
    key: Key,
    call: impl FnOnce(&mut C, usize, &mut Output) -> Next,
) -> Option<Next> {
    let slot = slots.get(key)?;
    let unsent = slot.unsent.as_ref().map_or(0, |unsent| unsent.size());
    Some(call(&mut slot.connection, unsent, outbox.output(slot.letter)))
}
