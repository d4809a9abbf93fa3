//! Timers of a worker: a hierarchical timing wheel with a resolution of about one microsecond.
//!
//! The cost of a heap grows with the number of pending delays, and each request may have one. In
//! the wheel an entry is inserted into one list, and cascades to a finer one at most as often as
//! its delay has digits in base 64, independent of the number of others: twice for 10 ms. The wheel
//! jumps to the next entry, so idle time costs nothing.

/// A tick is 2^10 ns. Kernel timers are not more precise than that.
const TICK_BITS: u32 = 10;

/// The last representable tick.
const TICK_MAX: u64 = u64::MAX >> TICK_BITS;

/// Slots of a level, as a power of two: what one word can hold a bit for.
const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;

/// Enough for every point in time that a `u64` of nanoseconds can name.
const LEVELS: usize = (u64::BITS - TICK_BITS).div_ceil(SLOT_BITS) as usize;

/// The end of a list.
const NONE: u32 = u32::MAX;

/// Keys that wait for a point in time.
///
/// INVARIANT: an entry in slot `s` of level `l` agrees with `cursor` in all digits above `l`, has
/// the digit `s` at `l`, and is not before `cursor`. So the first slot in use of the lowest level
/// in use holds the earliest entry.
#[derive(Debug)]
pub(crate) struct Timers<K> {
    /// No entry is earlier than this tick.
    cursor: u64,
    /// A bit for each level that is in use.
    levels_used: u16,
    /// A bit for each slot of a level that is in use.
    slots_used: [u64; LEVELS],
    slots: [[Slot; SLOTS]; LEVELS],
    entries: Vec<TimerEntry<K>>,
    /// Head of the free list.
    free: u32,
    /// How often an entry was linked: the cost of the wheel.
    #[cfg(test)]
    links: u64,
}

/// A list of entries, in the order in which they were added.
#[derive(Clone, Copy, Debug)]
struct Slot {
    first: u32,
    last: u32,
    earliest: u64,
}

#[derive(Clone, Copy, Debug)]
struct TimerEntry<K> {
    tick: u64,
    key: K,
    next: u32,
}

const UNUSED: Slot = Slot { first: NONE, last: NONE, earliest: u64::MAX };

impl<K> Default for Timers<K> {
    fn default() -> Self {
        Self {
            cursor: 0,
            levels_used: 0,
            slots_used: [0; LEVELS],
            slots: [[UNUSED; SLOTS]; LEVELS],
            entries: Vec::new(),
            free: NONE,
            #[cfg(test)]
            links: 0,
        }
    }
}

impl<K: Copy> Timers<K> {
    /// Has `key` returned by [`Timers::take_due`] at `due_ns`. It cannot be cancelled: a connection
    /// that is called without need does nothing.
    pub(crate) fn add(&mut self, due_ns: u64, key: K) {
        let tick = due_ns.div_ceil(1 << TICK_BITS).min(TICK_MAX);
        // Overdue entries are due now: the cursor is never ahead of the clock.
        let tick = tick.max(self.cursor);
        let entry = TimerEntry { tick, key, next: NONE };
        let index = self.free;
        if let Some(freed) = self.entries.get_mut(index as usize) {
            self.free = std::mem::replace(freed, entry).next;
            self.link(index);
        } else {
            let index = u32::try_from(self.entries.len()).expect("connections are fewer than 2^31");
            self.entries.push(entry);
            self.link(index);
        }
    }

    /// The earliest due time, never before the requested one.
    #[inline]
    pub(crate) fn earliest_ns(&self) -> Option<u64> {
        let (level, slot) = self.first_slot()?;
        Some(self.slots[level][slot].earliest << TICK_BITS)
    }

    /// Removes an entry that is due.
    #[inline]
    pub(crate) fn take_due(&mut self, now_ns: u64) -> Option<K> {
        loop {
            let (level, slot) = self.first_slot()?;
            if self.slots[level][slot].earliest > now_ns >> TICK_BITS {
                return None;
            }
            if level == 0 {
                return Some(self.take_first(slot));
            }
            self.cascade(level, slot);
        }
    }

    #[inline]
    const fn first_slot(&self) -> Option<(usize, usize)> {
        if self.levels_used == 0 {
            return None;
        }
        let level = self.levels_used.trailing_zeros() as usize;
        Some((level, self.slots_used[level].trailing_zeros() as usize))
    }

    /// Links an entry into its slot relative to the cursor.
    fn link(&mut self, index: u32) {
        let tick = self.entries[index as usize].tick;
        let differing = (tick ^ self.cursor) | (SLOTS as u64 - 1);
        let level = differing.ilog2() / SLOT_BITS;
        let digit = usize::from((tick >> (level * SLOT_BITS)).to_le_bytes()[0]) % SLOTS;
        let level = level as usize;
        #[cfg(test)]
        {
            self.links += 1;
        }
        let slot = &mut self.slots[level][digit];
        if slot.first == NONE {
            *slot = Slot { first: index, last: index, earliest: tick };
            self.slots_used[level] |= 1 << digit;
            self.levels_used |= 1 << level;
            return;
        }
        slot.earliest = slot.earliest.min(tick);
        let last = std::mem::replace(&mut slot.last, index);
        self.entries[last as usize].next = index;
    }

    /// Removes the first entry of a slot of the lowest level, whose entries have the same tick.
    fn take_first(&mut self, digit: usize) -> K {
        let slot = &mut self.slots[0][digit];
        let index = slot.first;
        let entry = &mut self.entries[index as usize];
        slot.first = std::mem::replace(&mut entry.next, self.free);
        self.free = index;
        let key = entry.key;
        if slot.first == NONE {
            self.empty(0, digit);
        }
        key
    }

    /// Advances the cursor to the earliest entry and moves its slot to a lower level.
    fn cascade(&mut self, level: usize, digit: usize) {
        let Slot { first, earliest, .. } = self.slots[level][digit];
        self.empty(level, digit);
        self.cursor = earliest;
        let mut index = first;
        while index != NONE {
            let next = std::mem::replace(&mut self.entries[index as usize].next, NONE);
            self.link(index);
            index = next;
        }
    }

    fn empty(&mut self, level: usize, digit: usize) {
        self.slots[level][digit] = UNUSED;
        self.slots_used[level] &= !(1 << digit);
        if self.slots_used[level] == 0 {
            self.levels_used &= !(1 << level);
        }
    }
}

#[cfg(test)]
mod tests;
