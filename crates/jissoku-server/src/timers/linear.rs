//! The injected fault `linear-timers`: an unordered list that is scanned each time.

/// Pending timers in no order.
#[derive(Debug)]
pub(crate) struct Linear<K> {
    entries: Vec<(u64, K)>,
}

impl<K> Default for Linear<K> {
    fn default() -> Self {
        Self { entries: Vec::new() }
    }
}

impl<K> Linear<K> {
    pub(super) fn add(&mut self, due_ns: u64, key: K) {
        self.entries.push((due_ns, key));
    }

    pub(super) fn earliest_ns(&self) -> Option<u64> {
        self.entries.iter().map(|&(due_ns, _)| due_ns).min()
    }

    pub(super) fn take_due(&mut self, now_ns: u64) -> Option<K> {
        let earliest = (0..self.entries.len()).min_by_key(|&index| self.entries[index].0)?;
        if self.entries[earliest].0 > now_ns {
            return None;
        }
        Some(self.entries.remove(earliest).1)
    }
}
