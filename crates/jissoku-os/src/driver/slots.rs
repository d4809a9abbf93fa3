//! Connections by number. A number is used again, but a [`Key`] is not mistaken for the one before.

/// Generations before a number's first is used again; tokens have three bits to spare for their driver.
const GENERATIONS: u32 = 1 << 29;

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

/// All connections of one driver.
#[derive(Debug)]
pub(super) struct Slots<T> {
    slots: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Slots<T> {
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

    pub(super) fn insert(&mut self, slot: T) {
        match self.free.pop() {
            Some(index) => self.slots[index as usize].1 = Some(slot),
            None => self.slots.push((0, Some(slot))),
        }
    }

    #[inline]
    pub(super) fn get(&mut self, key: Key) -> Option<&mut T> {
        let (generation, slot) = self.slots.get_mut(key.index as usize)?;
        if *generation == key.generation { slot.as_mut() } else { None }
    }

    #[inline]
    pub(super) fn peek(&self, key: Key) -> Option<&T> {
        let (generation, slot) = self.slots.get(key.index as usize)?;
        if *generation == key.generation { slot.as_ref() } else { None }
    }

    pub(super) fn remove(&mut self, key: Key) -> Option<T> {
        let (generation, slot) = self.slots.get_mut(key.index as usize)?;
        let slot = slot.take_if(|_| *generation == key.generation)?;
        *generation = (*generation + 1) % GENERATIONS;
        self.free.push(key.index);
        Some(slot)
    }

    /// Takes all of them out, and forgets their keys.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = T> + use<'_, T> {
        self.free.clear();
        self.slots.drain(..).filter_map(|(_, slot)| slot)
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

    #[test]
    fn an_old_key_does_not_open_a_new_connection() {
        let mut slots = Slots::new();
        let old = slots.next_key();
        slots.insert('a');
        assert_eq!(Key::from_token(old.token()), old);
        assert_eq!(slots.remove(old), Some('a'));
        assert_eq!(slots.count(), 0);

        let new = slots.next_key();
        slots.insert('b');
        assert_eq!(new.index, old.index);
        assert!(slots.get(old).is_none());
        assert!(slots.remove(old).is_none());
        assert_eq!(slots.get(new), Some(&mut 'b'));
        assert_eq!((slots.len(), slots.key_at(0), slots.key_at(1)), (1, Some(new), None));
    }
}
