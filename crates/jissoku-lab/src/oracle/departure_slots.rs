//! Departure slots: no two responses are due at the same time.
//!
//! Sending takes longer than receiving. Responses that are due at the same moment would be sent
//! late, the more of them the later; the requests that follow them would arrive together again, so
//! such a burst would never dissolve. Therefore each slot of time has room for one response, and a
//! response whose slot is taken gets the next free one. That delay is part of the logged due time.

use std::collections::BTreeMap;

/// The slots that are taken.
#[derive(Debug)]
pub(crate) struct DepartureSlots {
    slot_ns: u64,
    /// Runs of taken slots, by start, with their ends; no two of them touch.
    runs: BTreeMap<u64, u64>,
}

impl DepartureSlots {
    /// Slots of this length; with length zero, any number of responses may be due together.
    pub(crate) fn new(slot_ns: u64) -> Self {
        Self { slot_ns, runs: BTreeMap::new() }
    }

    /// Reserves the first free slot from `due` on and returns its time; slots before `now` are
    /// forgotten.
    pub(crate) fn reserve(&mut self, due: u64, now: u64) -> u64 {
        if self.slot_ns == 0 {
            return due;
        }
        let past = now / self.slot_ns;
        while self.runs.first_key_value().is_some_and(|(_, &end)| end <= past) {
            self.runs.pop_first();
        }
        let wanted = due / self.slot_ns;
        let before = self.runs.range(..=wanted).next_back().map(|(&start, &end)| (start, end));
        let slot = before.map_or(wanted, |(_, end)| wanted.max(end));
        let start = before.filter(|&(_, end)| end == slot).map_or(slot, |(start, _)| start);
        let end = self.runs.remove(&(slot + 1)).unwrap_or(slot + 1);
        self.runs.insert(start, end);
        due.max(slot * self.slot_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_due_together_get_consecutive_slots() {
        let mut departure_slots = DepartureSlots::new(10);
        let together: Vec<u64> = (0..4).map(|_| departure_slots.reserve(105, 0)).collect();
        assert_eq!(together, [105, 110, 120, 130]);
        assert_eq!(
            [
                departure_slots.reserve(155, 0),
                departure_slots.reserve(141, 0),
                departure_slots.reserve(100, 0)
            ],
            [155, 141, 160]
        );
        assert_eq!(departure_slots.runs.len(), 1);
        assert_eq!(departure_slots.reserve(1000, 999), 1000);
        assert_eq!(departure_slots.runs, BTreeMap::from([(100, 101)]));
    }

    #[test]
    fn slots_of_length_zero_defer_nothing() {
        let mut departure_slots = DepartureSlots::new(0);
        assert_eq!([departure_slots.reserve(7, 0), departure_slots.reserve(7, 0)], [7, 7]);
    }
}
