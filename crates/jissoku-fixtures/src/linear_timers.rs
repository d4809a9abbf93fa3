//! The injected fault `linear-timers`: an unordered list that is scanned each time.

/// Pending timers in no order.
#[derive(Debug)]
pub(crate) struct LinearTimers<K> {
    entries: Vec<(u64, K)>,
}

impl<K> Default for LinearTimers<K> {
    fn default() -> Self {
        Self { entries: Vec::new() }
    }
}

impl<K> LinearTimers<K> {
    pub(crate) fn add(&mut self, due_ns: u64, key: K) {
        self.entries.push((due_ns, key));
    }

    pub(crate) fn earliest_ns(&self) -> Option<u64> {
        self.entries.iter().map(|&(due_ns, _)| due_ns).min()
    }

    pub(crate) fn take_due(&mut self, now_ns: u64) -> Option<K> {
        let earliest = (0..self.entries.len()).min_by_key(|&index| self.entries[index].0)?;
        if self.entries[earliest].0 > now_ns {
            return None;
        }
        Some(self.entries.remove(earliest).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_entry_comes_first() {
        let mut timers = LinearTimers::default();
        timers.add(20, 'b');
        timers.add(10, 'a');
        assert_eq!(timers.earliest_ns(), Some(10));
        assert_eq!((timers.take_due(9), timers.take_due(30)), (None, Some('a')));
        assert_eq!((timers.take_due(19), timers.take_due(20)), (None, Some('b')));
        assert_eq!(timers.earliest_ns(), None);
    }
}
