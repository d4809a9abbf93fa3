//! Points in time, at most one for each owner: a connection of a server, a gateway or a load
//! generator, or an exchange of a gateway.
//!
//! A timer is set when its owner enters a state, and cancelled or set anew when it leaves that. A
//! request need not touch it: an owner may leave a timer at the deadline of an earlier request, and
//! set that of the current one when it is due.
//!
//! A binary heap that knows the place of each owner, so that its timer can be set anew or cancelled:
//! it never has more entries than there are owners with a timer, and nothing fires that was replaced.
//! A later time is only stored, and applied when the entry comes to the top: a connection that sets
//! its time-out anew with every part of a response does not move in the heap.
//!
//! A hierarchical timing wheel in place of a heap did not pay: with 10,000 pending delays, adding and
//! taking one cost 33 ns in a heap and 26 ns in the wheel (52 and 45 ns if delays vary), of about
//! 24 us of CPU time per request with 10,000 connections, 25,000 requests/s and a delay of 250 ms.

/// The earliest of these times.
///
/// Asked for at each wake-up of a worker: without branches, in place of a chain of iterators, which
/// took 200 instructions in a gateway.
#[inline]
#[must_use]
pub fn earliest<const COUNT: usize>(times_ns: [Option<u64>; COUNT]) -> Option<u64> {
    let earliest_ns = times_ns
        .iter()
        .fold(u64::MAX, |earliest_ns, time_ns| earliest_ns.min(time_ns.unwrap_or(u64::MAX)));
    (earliest_ns != u64::MAX).then_some(earliest_ns)
}

/// What has a timer: a place in a slab, and which one of its successive values.
pub trait TimerOwner: Copy + PartialEq {
    /// Its place, less than the largest number of values at once.
    fn index(self) -> usize;
}

/// Owners that wait for a point in time.
#[derive(Debug)]
pub struct Timers<K> {
    /// The root is the earliest.
    heap: Vec<Entry>,
    /// By the index of the owner.
    slots: Vec<Option<Slot<K>>>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// At most the time that the owner's slot has now: setting a later one leaves the entry.
    due_ns: u64,
    index: usize,
}

#[derive(Clone, Copy, Debug)]
struct Slot<K> {
    owner: K,
    due_ns: u64,
    /// Its place in the heap.
    at: usize,
}

impl<K> Default for Timers<K> {
    fn default() -> Self {
        Self { heap: Vec::new(), slots: Vec::new() }
    }
}

impl<K: TimerOwner> Timers<K> {
    /// Has `owner` returned by [`Timers::take_due`] at `due_ns`, instead of when it was to be before.
    pub fn set(&mut self, due_ns: u64, owner: K) {
        let index = owner.index();
        if index >= self.slots.len() {
            self.slots.resize_with(index + 1, || None);
        }
        if let Some(slot) = &mut self.slots[index] {
            // One of a former owner of the place is over.
            slot.owner = owner;
            slot.due_ns = due_ns;
            let at = slot.at;
            if due_ns < self.heap[at].due_ns {
                self.heap[at].due_ns = due_ns;
                self.rise(at);
            }
            return;
        }
        let at = self.heap.len();
        self.slots[index] = Some(Slot { owner, due_ns, at });
        self.heap.push(Entry { due_ns, index });
        self.rise(at);
    }

    /// The owner has no timer any more.
    pub fn cancel(&mut self, owner: K) {
        let slot = self.slots.get_mut(owner.index());
        if let Some(slot) = slot.and_then(|slot| slot.take_if(|slot| slot.owner == owner)) {
            self.remove(slot.at);
        }
    }

    /// When the owner is due, if it has a timer.
    pub fn due_ns(&self, owner: K) -> Option<u64> {
        let slot = self.slots.get(owner.index())?.as_ref()?;
        (slot.owner == owner).then_some(slot.due_ns)
    }

    /// A time before which nothing is due.
    #[inline]
    pub fn earliest_ns(&self) -> Option<u64> {
        self.heap.first().map(|entry| entry.due_ns)
    }

    /// How many owners have a timer.
    pub const fn count(&self) -> usize {
        self.heap.len()
    }

    /// Ends the timer of an owner that is due, and returns the owner.
    #[inline]
    pub fn take_due(&mut self, now_ns: u64) -> Option<K> {
        self.take_due_with_time(now_ns).map(|(_, owner)| owner)
    }

    /// As [`Timers::take_due`], with the time at which it was due.
    #[inline]
    pub fn take_due_with_time(&mut self, now_ns: u64) -> Option<(u64, K)> {
        if self.earliest_ns()? > now_ns { None } else { self.take_first_due(now_ns) }
    }

    fn take_first_due(&mut self, now_ns: u64) -> Option<(u64, K)> {
        while self.earliest_ns()? <= now_ns {
            let Entry { index, .. } = self.heap[0];
            let slot = self.slots[index]?;
            if slot.due_ns <= now_ns {
                self.slots[index] = None;
                self.remove(0);
                return Some((slot.due_ns, slot.owner));
            }
            self.heap[0].due_ns = slot.due_ns;
            self.sink(0);
        }
        None
    }

    fn remove(&mut self, at: usize) {
        self.heap.swap_remove(at);
        if at < self.heap.len() {
            self.place(at);
            self.sink(at);
            self.rise(at);
        }
    }

    /// Notes that the entry at `at` is there.
    fn place(&mut self, at: usize) {
        if let Some(slot) = &mut self.slots[self.heap[at].index] {
            slot.at = at;
        }
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.heap.swap(one, other);
        self.place(one);
        self.place(other);
    }

    fn rise(&mut self, mut at: usize) {
        while at > 0 && self.heap[at].due_ns < self.heap[(at - 1) / 2].due_ns {
            self.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }

    fn sink(&mut self, mut at: usize) {
        let due_ns = |heap: &[Entry], at: usize| heap.get(at).map_or(u64::MAX, |it| it.due_ns);
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            let below =
                if due_ns(&self.heap, right) < due_ns(&self.heap, left) { right } else { left };
            if due_ns(&self.heap, below) >= self.heap[at].due_ns {
                return;
            }
            self.swap(at, below);
            at = below;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// The owner of a place, and which one of its successive owners.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct Owner(usize, u32);

    impl TimerOwner for Owner {
        fn index(self) -> usize {
            self.0
        }
    }

    #[test]
    fn owners_are_due_in_the_order_of_their_times() {
        let mut timers = Timers::default();
        for (due_ns, index) in [(30, 2), (20, 1), (10, 0), (21, 4), (u64::MAX, 3)] {
            timers.set(due_ns, Owner(index, 0));
        }
        assert_eq!((timers.earliest_ns(), timers.take_due(9)), (Some(10), None));
        let mut due = |now_ns| {
            std::iter::from_fn(|| timers.take_due(now_ns)).map(|it| it.0).collect::<Vec<_>>()
        };
        let expected = [vec![0, 1, 4], vec![], vec![2], vec![3]];
        assert_eq!([due(29), due(29), due(30), due(u64::MAX)], expected);
        assert_eq!((timers.earliest_ns(), timers.count()), (None, 0));
    }

    #[test]
    fn a_connection_that_is_used_again_and_again_has_one_timer() {
        let (mut timers, connection) = (Timers::default(), Owner(0, 0));
        // An hour of requests: each sets the time for its response, and then the shorter one for
        // which an unused connection is kept.
        for second in 0..3600 {
            assert_eq!(timers.take_due(second), None, "{second}");
            timers.set(second + 60, connection);
            timers.set(second + 4, connection);
            assert_eq!(timers.count(), 1);
        }
        assert_eq!((timers.take_due(3602), timers.take_due(3603)), (None, Some(connection)));
    }

    proptest! {
        /// Compared with a map: what is set last counts, for the owner that it was set for.
        #[test]
        fn nothing_fires_but_the_last_time_of_each_owner(
            steps in prop::collection::vec((0..4_u8, 0..6_usize, 0..40_u64), 1..300),
        ) {
            let mut timers = Timers::default();
            let mut expected: BTreeMap<Owner, u64> = BTreeMap::new();
            let mut generations = [0; 6];
            let mut now_ns = 0;
            for (step, index, time) in steps {
                let owner = Owner(index, generations[index]);
                match step {
                    0 | 1 => {
                        timers.set(now_ns + time, owner);
                        expected.insert(owner, now_ns + time);
                    }
                    2 => {
                        // Its successor has no timer, and a late cancellation does not end one.
                        timers.cancel(owner);
                        expected.remove(&owner);
                        generations[index] += 1;
                        timers.cancel(owner);
                    }
                    _ => {
                        now_ns += time / 4;
                        while let Some((due_ns, owner)) = timers.take_due_with_time(now_ns) {
                            prop_assert_eq!(expected.remove(&owner), Some(due_ns));
                            prop_assert!(due_ns <= now_ns);
                        }
                        prop_assert!(expected.values().all(|due_ns| *due_ns > now_ns));
                    }
                }
                prop_assert_eq!(timers.count(), expected.len());
                prop_assert_eq!(timers.due_ns(owner), expected.get(&owner).copied());
                let earliest = expected.values().min();
                prop_assert!(timers.earliest_ns() <= earliest.copied());
                prop_assert_eq!(timers.earliest_ns().is_some(), earliest.is_some());
            }
        }
    }
}
