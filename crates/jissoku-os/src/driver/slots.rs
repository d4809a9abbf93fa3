//! Connections by number. A number is used again, but a [`Key`] is not mistaken for the one before.

use std::os::fd::OwnedFd;

use super::{Next, Output};

/// Names a connection of one driver. A key outlives its connection harmlessly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    index: u32,
    generation: u32,
}

impl Key {
    pub(super) const fn from_token(token: u64) -> Self {
        let index = (token & 0xffff_ffff) as u32;
        let generation = (token >> 32) as u32;
        Self { index, generation }
    }

    pub(super) const fn token(self) -> u64 {
        (self.generation as u64) << 32 | self.index as u64
    }
}

/// What the kernel may hold for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inbound {
    /// Nothing that it would not report.
    Drained,
    /// Bytes, or the end, perhaps.
    Ready,
    /// Nothing any more: the peer has ended.
    Ended,
}

/// A connection and what its driver remembers of it.
#[derive(Debug)]
pub(super) struct Slot<C> {
    pub(super) socket: OwnedFd,
    pub(super) connection: C,
    /// What the peer has not taken yet.
    pub(super) unsent: Option<Box<Output>>,
    pub(super) next: Next,
    pub(super) inbound: Inbound,
    /// The peer was told that we send no more.
    pub(super) has_finished: bool,
    /// Waits in the driver's queue.
    pub(super) is_queued: bool,
    /// The kernel reports on the socket.
    pub(super) is_watched: bool,
}

/// All connections of one driver.
#[derive(Debug)]
pub(super) struct Slots<C> {
    slots: Vec<(u32, Option<Slot<C>>)>,
    free: Vec<u32>,
}

impl<C> Slots<C> {
    pub(super) const fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }

    pub(super) fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The key that the next [`Slots::insert`] will use.
    pub(super) fn next_key(&self) -> Key {
        let fresh = u32::try_from(self.slots.len()).expect("descriptors are fewer than 2^31");
        let index = self.free.last().copied().unwrap_or(fresh);
        let generation = self.slots.get(index as usize).map_or(0, |slot| slot.0);
        Key { index, generation }
    }

    pub(super) fn insert(&mut self, slot: Slot<C>) {
        match self.free.pop() {
            Some(index) => self.slots[index as usize].1 = Some(slot),
            None => self.slots.push((0, Some(slot))),
        }
    }

    #[inline]
    pub(super) fn get(&mut self, key: Key) -> Option<&mut Slot<C>> {
        let (generation, slot) = self.slots.get_mut(key.index as usize)?;
        if *generation == key.generation { slot.as_mut() } else { None }
    }

    pub(super) fn remove(&mut self, key: Key) -> Option<Slot<C>> {
        let (generation, slot) = self.slots.get_mut(key.index as usize)?;
        let slot = slot.take_if(|_| *generation == key.generation)?;
        *generation = generation.wrapping_add(1);
        self.free.push(key.index);
        Some(slot)
    }

    /// How many numbers there are, used or not.
    pub(super) const fn len(&self) -> usize {
        self.slots.len()
    }

    /// The key of the connection with this number.
    pub(super) fn key_at(&self, number: usize) -> Option<Key> {
        let (generation, slot) = self.slots.get(number)?;
        let index = u32::try_from(number).ok()?;
        slot.as_ref().map(|_| Key { index, generation: *generation })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(connection: u8) -> Slot<u8> {
        Slot {
            socket: rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC)
                .expect("a descriptor can be had"),
            connection,
            unsent: None,
            next: Next::Receive,
            inbound: Inbound::Drained,
            has_finished: false,
            is_queued: false,
            is_watched: false,
        }
    }

    #[test]
    fn an_old_key_does_not_open_a_new_connection() {
        let mut slots = Slots::new();
        let old = slots.next_key();
        slots.insert(slot(1));
        assert_eq!(Key::from_token(old.token()), old);
        assert_eq!(slots.remove(old).map(|slot| slot.connection), Some(1));
        assert_eq!(slots.count(), 0);

        let new = slots.next_key();
        slots.insert(slot(2));
        assert_eq!(new.index, old.index);
        assert!(slots.get(old).is_none());
        assert!(slots.remove(old).is_none());
        assert_eq!(slots.get(new).map(|slot| slot.connection), Some(2));
        assert_eq!((slots.len(), slots.key_at(0), slots.key_at(1)), (1, Some(new), None));
    }
}
