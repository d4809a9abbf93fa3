//! Idle connections to upstream servers, the most recently used last.

use std::sync::Arc;

use jissoku_os::socket::Endpoint;

use crate::slab::Key;

/// Idle connections to the servers of one upstream.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    idle: Vec<IdleConnection>,
}

#[derive(Debug)]
struct IdleConnection {
    key: Key,
    endpoint: Arc<Endpoint>,
    since_ns: u64,
}

impl Pool {
    /// Adds a connection that is idle from `now_ns` on. Returns one that has to be closed, if there
    /// are more than `count_max`.
    pub(crate) fn add(
        &mut self,
        key: Key,
        endpoint: Arc<Endpoint>,
        now_ns: u64,
        count_max: usize,
    ) -> Option<Key> {
        self.idle.push(IdleConnection { key, endpoint, since_ns: now_ns });
        (self.idle.len() > count_max).then(|| self.idle.remove(0).key)
    }

    /// Takes the most recently used connection to a server, if it is idle since `since_ns` or later.
    pub(crate) fn take(&mut self, endpoint: &Arc<Endpoint>, since_ns: u64) -> Option<Key> {
        let is_there = |idle: &IdleConnection| Arc::ptr_eq(&idle.endpoint, endpoint);
        let place = self.idle.iter().rposition(is_there)?;
        let is_recent = self.idle[place].since_ns >= since_ns;
        is_recent.then(|| self.idle.remove(place).key)
    }

    /// Takes the connection that is idle for longest.
    pub(crate) fn take_oldest(&mut self) -> Option<Key> {
        (!self.idle.is_empty()).then(|| self.idle.remove(0).key)
    }

    /// Takes the connections to servers that are not to be kept.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(&Arc<Endpoint>) -> bool) -> Vec<Key> {
        self.idle.extract_if(.., |idle| !is_kept(&idle.endpoint)).map(|idle| idle.key).collect()
    }

    /// Removes a connection that has ended.
    pub(crate) fn remove(&mut self, key: Key) {
        self.idle.retain(|idle| idle.key != key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slab::Slab;

    fn endpoint(path: &str) -> Arc<Endpoint> {
        Arc::new(Endpoint::Unix(path.into()))
    }

    #[test]
    fn the_most_recent_connection_is_taken_and_the_oldest_dropped() {
        let (mut pool, mut slab, one) = (Pool::default(), Slab::default(), endpoint("one"));
        let mut add = |pool: &mut Pool, now_ns| {
            let key = slab.insert(());
            (key, pool.add(key, Arc::clone(&one), now_ns, 64))
        };
        let [first, second] = [10, 20].map(|now_ns| add(&mut pool, now_ns).0);
        assert_eq!((pool.take(&one, 21), pool.take(&one, 20)), (None, Some(second)));
        pool.remove(first);
        assert_eq!(pool.take(&one, 0), None);
        let keys: Vec<_> = (0..64).map(|now_ns| add(&mut pool, now_ns)).collect();
        assert!(keys.iter().all(|(_, dropped)| dropped.is_none()));
        assert_eq!(add(&mut pool, 64).1, Some(keys[0].0));
        assert_eq!(pool.take_oldest(), Some(keys[1].0));
    }

    #[test]
    fn a_connection_to_another_server_is_not_taken() {
        let (mut pool, mut slab) = (Pool::default(), Slab::default());
        let [one, two] = [endpoint("one"), endpoint("two")];
        let keys = [&one, &two, &one].map(|server| {
            let key = slab.insert(());
            assert_eq!(pool.add(key, Arc::clone(server), 0, 64), None);
            key
        });
        assert_eq!((pool.take(&two, 0), pool.take(&two, 0)), (Some(keys[1]), None));
        assert_eq!(pool.retain(|server| Arc::ptr_eq(server, &two)), [keys[0], keys[2]]);
        assert_eq!(pool.take(&one, 0), None);
    }
}
