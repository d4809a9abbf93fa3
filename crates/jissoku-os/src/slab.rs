//! A slab of values. Indices are reused; generations make a [`Key`] unique.

use std::marker::PhantomData;

use crate::timers::TimerOwner;

/// Number of generations; a token has three more bits for the driver.
const GENERATIONS: u32 = 1 << 29;

/// Identifies a value of a slab whose keys are of this kind. A stale key is detected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key<K> {
    index: u32,
    generation: u32,
    kind: PhantomData<K>,
}

impl<K> Key<K> {
    const fn new(index: u32, generation: u32) -> Self {
        Self { index, generation, kind: PhantomData }
    }

    /// The key of a number that [`Key::token`] has returned.
    pub const fn from_token(token: u64) -> Self {
        Self::new((token & 0xffff_ffff) as u32, (token >> 32) as u32)
    }

    /// As a number, which no other value of the slab has.
    pub const fn token(self) -> u64 {
        (self.generation as u64) << 32 | self.index as u64
    }
}

impl<K: Copy + PartialEq> TimerOwner for Key<K> {
    fn index(self) -> usize {
        self.index as usize
    }
}

/// Values by key.
#[derive(Debug)]
pub struct Slab<T, K> {
    slots: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
    kind: PhantomData<K>,
}

impl<T, K> Default for Slab<T, K> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), kind: PhantomData }
    }
}

impl<T, K: Copy> Slab<T, K> {
    /// The number of values.
    pub fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The key that the next [`Slab::insert`] will use.
    ///
    /// # Panics
    /// There are 2^32 values.
    pub fn next_key(&self) -> Key<K> {
        let fresh = u32::try_from(self.slots.len()).expect("there are fewer than 2^32 values");
        let index = self.free.last().copied().unwrap_or(fresh);
        Key::new(index, self.slots.get(index as usize).map_or(0, |slot| slot.0))
    }

    /// Adds a value.
    ///
    /// # Panics
    /// As [`Slab::next_key`].
    pub fn insert(&mut self, value: T) -> Key<K> {
        let key = self.next_key();
        match self.free.pop() {
            Some(index) => self.slots[index as usize].1 = Some(value),
            None => self.slots.push((0, Some(value))),
        }
        key
    }

    /// The value of this key, if it has not been removed.
    #[inline]
    pub fn get(&mut self, key: Key<K>) -> Option<&mut T> {
        let (generation, value) = self.slots.get_mut(key.index as usize)?;
        if *generation == key.generation { value.as_mut() } else { None }
    }

    /// As [`Slab::get`], to read.
    #[inline]
    pub fn get_ref(&self, key: Key<K>) -> Option<&T> {
        let (generation, value) = self.slots.get(key.index as usize)?;
        if *generation == key.generation { value.as_ref() } else { None }
    }

    /// All values with their keys.
    pub fn iter(&self) -> impl Iterator<Item = (Key<K>, &T)> {
        (0..).zip(&self.slots).filter_map(|(index, (generation, value))| {
            Some((Key::new(index, *generation), value.as_ref()?))
        })
    }

    /// All values.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().filter_map(|(_, value)| value.as_ref())
    }

    /// Removes a value.
    pub fn remove(&mut self, key: Key<K>) -> Option<T> {
        let (generation, value) = self.slots.get_mut(key.index as usize)?;
        let value = value.take_if(|_| *generation == key.generation)?;
        *generation = (*generation + 1) % GENERATIONS;
        self.free.push(key.index);
        Some(value)
    }

    /// Removes all values.
    pub fn drain(&mut self) -> impl Iterator<Item = T> + use<'_, T, K> {
        self.free.clear();
        self.slots.drain(..).filter_map(|(_, value)| value)
    }

    /// The number of slots, used or not.
    pub const fn slot_count(&self) -> usize {
        self.slots.len()
    }

    /// The key of the value in this slot.
    pub fn key_at(&self, slot: usize) -> Option<Key<K>> {
        let (generation, value) = self.slots.get(slot)?;
        let index = u32::try_from(slot).ok()?;
        value.as_ref().map(|_| Key::new(index, *generation))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_key_finds_nothing() {
        let mut slab: Slab<char, ()> = Slab::default();
        let old = slab.next_key();
        assert_eq!((slab.insert('a'), Key::from_token(old.token())), (old, old));
        assert_eq!((slab.remove(old), slab.remove(old), slab.count()), (Some('a'), None, 0));
        let new = slab.insert('b');
        assert_eq!((new.index, new == old), (old.index, false));
        assert_eq!(slab.get(old), None);
        assert_eq!((slab.remove(old), slab.get_ref(old)), (None, None));
        assert_eq!(slab.get(new), Some(&mut 'b'));
        assert_eq!(slab.get_ref(new), Some(&'b'));
        let other = slab.insert('c');
        assert_eq!((slab.slot_count(), slab.key_at(0), slab.key_at(2)), (2, Some(new), None));
        slab.remove(new);
        assert_eq!((slab.key_at(0), slab.get(other)), (None, Some(&mut 'c')));
        assert_eq!(slab.values().collect::<Vec<_>>(), [&'c']);
        assert_eq!(slab.iter().collect::<Vec<_>>(), [(other, &'c')]);
        assert_eq!((slab.drain().collect::<Vec<_>>(), slab.count()), (vec!['c'], 0));
    }
}
