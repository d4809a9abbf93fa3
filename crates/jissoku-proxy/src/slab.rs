//! A slab of values with keys that are never reused.

use jissoku_server::TimerOwner;

/// Identifies a value. A stale key is detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    index: u32,
    generation: u32,
}

impl Key {
    /// As a number, for the driver.
    pub(crate) const fn token(self) -> u64 {
        (self.generation as u64) << 32 | self.index as u64
    }

    /// The key of [`Key::token`].
    pub(crate) const fn from_token(token: u64) -> Self {
        Self { index: (token & 0xffff_ffff) as u32, generation: (token >> 32) as u32 }
    }
}

impl TimerOwner for Key {
    fn index(self) -> usize {
        self.index as usize
    }
}

/// Values by key.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub(crate) fn insert(&mut self, value: T) -> Key {
        if let Some(index) = self.free.pop() {
            let slot = &mut self.slots[index as usize];
            slot.1 = Some(value);
            return Key { index, generation: slot.0 };
        }
        let index = u32::try_from(self.slots.len()).expect("there are fewer than 2^32");
        self.slots.push((0, Some(value)));
        Key { index, generation: 0 }
    }

    #[inline]
    pub(crate) fn get(&mut self, key: Key) -> Option<&mut T> {
        let slot = self.slots.get_mut(key.index as usize)?;
        if slot.0 == key.generation { slot.1.as_mut() } else { None }
    }

    pub(crate) fn get_ref(&self, key: Key) -> Option<&T> {
        let slot = self.slots.get(key.index as usize)?;
        if slot.0 == key.generation { slot.1.as_ref() } else { None }
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().filter_map(|(_, value)| value.as_ref())
    }

    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        self.slots.iter().enumerate().filter_map(|(index, (generation, value))| {
            let index = u32::try_from(index).expect("there are fewer than 2^32");
            Some((Key { index, generation: *generation }, value.as_ref()?))
        })
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        let slot = self.slots.get_mut(key.index as usize)?;
        let value = slot.1.take_if(|_| slot.0 == key.generation)?;
        slot.0 = slot.0.wrapping_add(1);
        self.free.push(key.index);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_key_finds_nothing() {
        let mut slab = Slab::default();
        let old = slab.insert('a');
        assert_eq!(Key::from_token(old.token()), old);
        assert_eq!((slab.remove(old), slab.remove(old)), (Some('a'), None));
        let new = slab.insert('b');
        assert_ne!(new, old);
        assert_eq!(slab.get(old), None);
        assert_eq!(slab.get(new), Some(&mut 'b'));
        let other = slab.insert('c');
        slab.remove(new);
        assert_eq!(slab.values().collect::<Vec<_>>(), [&'c']);
        assert_eq!(slab.get(other), Some(&mut 'c'));
    }
}
