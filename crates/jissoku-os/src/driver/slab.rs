//! A slab of connections. Indices are reused; generations make a [`ConnectionId`] unique.

/// Number of generations; a token has three more bits for the driver.
const GENERATIONS: u32 = 1 << 29;

/// Identifies a connection of one driver. A stale id is detected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId {
    index: u32,
    generation: u32,
}

impl ConnectionId {
    /// The id of a number that [`ConnectionId::token`] has returned.
    #[must_use]
    pub const fn from_token(token: u64) -> Self {
        let index = (token & 0xffff_ffff) as u32;
        let generation = (token >> 32) as u32;
        Self { index, generation }
    }

    /// As a number, which no other connection of the driver has.
    #[must_use]
    pub const fn token(self) -> u64 {
        (self.generation as u64) << 32 | self.index as u64
    }
}

/// The connections of one driver.
#[derive(Debug)]
pub(super) struct Slab<T> {
    slots: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(super) const fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }

    pub(super) fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The id that the next [`Slab::insert`] will use.
    pub(super) fn next_id(&self) -> ConnectionId {
        let fresh = u32::try_from(self.slots.len()).expect("descriptors are fewer than 2^31");
        let index = self.free.last().copied().unwrap_or(fresh);
        let generation = self.slots.get(index as usize).map_or(0, |slot| slot.0);
        ConnectionId { index, generation }
    }

    pub(super) fn insert(&mut self, slot: T) {
        match self.free.pop() {
            Some(index) => self.slots[index as usize].1 = Some(slot),
            None => self.slots.push((0, Some(slot))),
        }
    }

    #[inline]
    pub(super) fn get(&mut self, id: ConnectionId) -> Option<&mut T> {
        let (generation, slot) = self.slots.get_mut(id.index as usize)?;
        if *generation == id.generation { slot.as_mut() } else { None }
    }

    #[inline]
    pub(super) fn get_ref(&self, id: ConnectionId) -> Option<&T> {
        let (generation, slot) = self.slots.get(id.index as usize)?;
        if *generation == id.generation { slot.as_ref() } else { None }
    }

    pub(super) fn remove(&mut self, id: ConnectionId) -> Option<T> {
        let (generation, slot) = self.slots.get_mut(id.index as usize)?;
        let slot = slot.take_if(|_| *generation == id.generation)?;
        *generation = (*generation + 1) % GENERATIONS;
        self.free.push(id.index);
        Some(slot)
    }

    /// Removes all connections.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = T> + use<'_, T> {
        self.free.clear();
        self.slots.drain(..).filter_map(|(_, slot)| slot)
    }

    /// The number of slots, used or not.
    pub(super) const fn len(&self) -> usize {
        self.slots.len()
    }

    /// The id of the connection in this slot.
    pub(super) fn id_at(&self, number: usize) -> Option<ConnectionId> {
        let (generation, slot) = self.slots.get(number)?;
        let index = u32::try_from(number).ok()?;
        slot.as_ref().map(|_| ConnectionId { index, generation: *generation })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_key_does_not_open_a_new_connection() {
        let mut slots = Slab::new();
        let old = slots.next_id();
        slots.insert('a');
        assert_eq!(ConnectionId::from_token(old.token()), old);
        assert_eq!(slots.remove(old), Some('a'));
        assert_eq!(slots.count(), 0);

        let new = slots.next_id();
        slots.insert('b');
        assert_eq!(new.index, old.index);
        assert!(slots.get(old).is_none());
        assert!(slots.remove(old).is_none());
        assert_eq!(slots.get(new), Some(&mut 'b'));
        assert_eq!((slots.len(), slots.id_at(0), slots.id_at(1)), (1, Some(new), None));
    }
}
