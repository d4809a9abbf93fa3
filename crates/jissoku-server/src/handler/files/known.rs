//! What one worker knows by the paths it was asked for. A hit costs one look into a map: no lock, no system
//! call, nothing that another worker writes.

use std::collections::HashMap;
use std::sync::Arc;

use super::entry::{Entry, Held};
use crate::metrics::Tally;

/// Paths that a worker knows. When there would be more, it forgets all: the store knows what they stand for,
/// so that to learn a path again costs a lock and no system call.
const PATHS_MAX: usize = 4096;

/// A longer path is not worth remembering.
const PATH_SIZE_MAX: usize = 1024;

/// What one worker knows.
#[derive(Debug, Default)]
pub(crate) struct Known {
    held: HashMap<Box<[u8]>, Arc<Held>>,
    /// What all of it costs.
    charge: u64,
    pub(super) tally: Tally,
}

impl Known {
    /// Nothing yet; `tally` hears how often that is enough.
    pub(super) fn counted(tally: Tally) -> Self {
        Self { tally, ..Self::default() }
    }

    /// What `path` stands for, if that is known and may still be believed.
    #[inline]
    pub(super) fn find(&self, path: &[u8], now_ns: u64, revalidate_ns: u64) -> Option<Arc<Held>> {
        let held = self.held.get(path)?;
        if !held.entry().is_fresh(now_ns, revalidate_ns) {
            return None;
        }
        held.entry().want();
        Some(Arc::clone(held))
    }

    /// Remembers what `path` stands for, as long as all that is remembered costs no more than `charge_max`.
    pub(super) fn keep(&mut self, path: &[u8], entry: Arc<Entry>, charge_max: u64) -> Arc<Held> {
        match self.held.get(path) {
            Some(held) if Arc::ptr_eq(held.entry(), &entry) => return Arc::clone(held),
            _ => self.forget(path),
        }
        let charge = charge(path, &entry);
        let held = Arc::new(Held::new(entry));
        if self.held.len() == PATHS_MAX || self.charge + charge > charge_max {
            self.held.clear();
            self.charge = 0;
        }
        if path.len() <= PATH_SIZE_MAX && charge <= charge_max {
            self.charge += charge;
            self.held.insert(path.into(), Arc::clone(&held));
        }
        held
    }

    fn forget(&mut self, path: &[u8]) {
        if let Some(held) = self.held.remove(path) {
            self.charge -= charge(path, held.entry());
        }
    }
}

fn charge(path: &[u8], entry: &Entry) -> u64 {
    path.len() as u64 + entry.charge()
}

#[cfg(test)]
mod tests {
    use super::super::entry::What;
    use super::*;

    fn missing() -> Arc<Entry> {
        Arc::new(Entry::new(What::Missing, Vec::new(), true, 100))
    }

    #[test]
    fn what_is_known_is_believed_for_its_time() {
        let mut known = Known::default();
        let entry = missing();
        known.keep(b"/a", Arc::clone(&entry), u64::MAX);
        assert!(known.find(b"/a", 149, 50).is_some());
        assert!(known.find(b"/a", 150, 50).is_none());
        assert!(known.find(b"/a", 100, 0).is_none());
        assert!(known.find(b"/b", 100, 50).is_none());
        entry.confirm(120);
        assert!(known.find(b"/a", 150, 50).is_some());
    }

    #[test]
    fn what_is_held_costs_no_more_than_it_may() {
        let mut known = Known::default();
        let one = charge(b"/0000", &missing());
        for number in 0..100 {
            known.keep(format!("/{number:04}").as_bytes(), missing(), 10 * one);
            let sum: u64 = known.held.iter().map(|(path, held)| charge(path, held.entry())).sum();
            assert_eq!(known.charge, sum);
            assert!(sum <= 10 * one);
        }
        known.keep(b"/0099", missing(), 10 * one);
        assert!(known.find(b"/0099", 100, 50).is_some());
        known.keep(b"/dear", missing(), one - 1);
        assert!(known.held.is_empty(), "nothing may be held");
        known.keep(&[b'/'; PATH_SIZE_MAX + 1], missing(), u64::MAX);
        assert!(known.held.is_empty(), "a path may be too long");
    }

    #[test]
    fn paths_are_forgotten_when_there_are_too_many() {
        let mut known = Known::default();
        for number in 0..=PATHS_MAX {
            known.keep(number.to_string().as_bytes(), missing(), u64::MAX);
        }
        assert_eq!(known.held.len(), 1);
    }
}
