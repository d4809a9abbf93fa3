//! Idle connections to an upstream server, the most recently used last.

use crate::slab::Key;

/// Maximum number of idle connections of a worker.
const IDLE_MAX: usize = 64;

/// Idle connections.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    idle: Vec<(Key, u64)>,
}

impl Pool {
    /// Adds a connection that is idle from `now_ns` on. Returns one that has to be closed, if there
    /// are too many.
    pub(crate) fn add(&mut self, key: Key, now_ns: u64) -> Option<Key> {
        self.idle.push((key, now_ns));
        (self.idle.len() > IDLE_MAX).then(|| self.idle.remove(0).0)
    }

    /// Takes the most recently used connection, if it is idle since `since_ns` or later.
    pub(crate) fn take(&mut self, since_ns: u64) -> Option<Key> {
        self.idle.pop_if(|(_, idle_ns)| *idle_ns >= since_ns).map(|(key, _)| key)
    }

    /// Takes the connection that is idle for longest.
    pub(crate) fn take_oldest(&mut self) -> Option<Key> {
        (!self.idle.is_empty()).then(|| self.idle.remove(0).0)
    }

    /// Removes a connection that has ended.
    pub(crate) fn remove(&mut self, key: Key) {
        self.idle.retain(|(idle, _)| *idle != key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slab::Slab;

    #[test]
    fn the_most_recent_connection_is_taken_and_the_oldest_dropped() {
        let (mut pool, mut slab) = (Pool::default(), Slab::default());
        let mut add = |pool: &mut Pool, now_ns| {
            let key = slab.insert(());
            (key, pool.add(key, now_ns))
        };
        let [first, second] = [10, 20].map(|now_ns| add(&mut pool, now_ns).0);
        assert_eq!((pool.take(21), pool.take(20)), (None, Some(second)));
        pool.remove(first);
        assert_eq!(pool.take(0), None);
        let keys: Vec<_> = (0..64).map(|now_ns| add(&mut pool, now_ns)).collect();
        assert!(keys.iter().all(|(_, dropped)| dropped.is_none()));
        assert_eq!(add(&mut pool, 64).1, Some(keys[0].0));
        assert_eq!(pool.take_oldest(), Some(keys[1].0));
    }
}
