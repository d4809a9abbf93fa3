//! The door through which all answers leave, one after the other.
//!
//! Sending takes longer than receiving. Answers that were all due at one moment would leave late, and the
//! later the more of them there were; the requests that they set off would be read late and all at once,
//! and the crowd would never dissolve. So no two answers are due in the same slot of time: whoever finds
//! his slot taken is due in the next free one, which is part of the truth, and dissolves the crowd.

use std::collections::BTreeMap;

/// Which slots are taken.
#[derive(Debug)]
pub(crate) struct Door {
    slot_ns: u64,
    /// Runs of slots that are taken, from the first to behind the last; no two of them touch.
    runs: BTreeMap<u64, u64>,
}

impl Door {
    /// A door that lets one answer through in each slot; with slots of no length, any number.
    pub(crate) fn new(slot_ns: u64) -> Self {
        Self { slot_ns, runs: BTreeMap::new() }
    }

    /// Takes the first free slot from `due` on; slots that were over at `now` are forgotten.
    pub(crate) fn pass(&mut self, due: u64, now: u64) -> u64 {
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
    fn a_crowd_leaves_one_by_one() {
        let mut door = Door::new(10);
        let crowd: Vec<u64> = (0..4).map(|_| door.pass(105, 0)).collect();
        assert_eq!(crowd, [105, 110, 120, 130]);
        assert_eq!([door.pass(155, 0), door.pass(141, 0), door.pass(100, 0)], [155, 141, 160]);
        assert_eq!(door.runs.len(), 1);
        assert_eq!(door.pass(1000, 999), 1000);
        assert_eq!(door.runs, BTreeMap::from([(100, 101)]));
    }

    #[test]
    fn an_open_door_holds_nobody() {
        let mut door = Door::new(0);
        assert_eq!([door.pass(7, 0), door.pass(7, 0)], [7, 7]);
    }
}
