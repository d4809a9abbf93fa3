//! Idle connections to upstream servers, the most recently used last.

use std::sync::Arc;

use jissoku_os::socket::Endpoint;
use jissoku_upstream::closing_age::ClosingAge;

use crate::slab::Key;

/// Idle connections to the servers of one upstream.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    idle: Vec<IdleConnection>,
    /// Of the servers that have closed some.
    closing_ages: Vec<(Arc<Endpoint>, ClosingAge)>,
}

/// A connection that was idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) key: Key,
    /// When it became idle.
    pub(crate) since_ns: u64,
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
    pub(crate) fn take(&mut self, endpoint: &Arc<Endpoint>, since_ns: u64) -> Option<Taken> {
        let is_there = |idle: &IdleConnection| Arc::ptr_eq(&idle.endpoint, endpoint);
        let place = self.idle.iter().rposition(is_there)?;
        if self.idle[place].since_ns < since_ns {
            return None;
        }
        let IdleConnection { key, since_ns, .. } = self.idle.remove(place);
        Some(Taken { key, since_ns })
    }

    /// Takes the connection that is idle for longest.
    pub(crate) fn take_oldest(&mut self) -> Option<Key> {
        (!self.idle.is_empty()).then(|| self.idle.remove(0).key)
    }

    /// Takes the connections to servers that are not to be kept.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(&Arc<Endpoint>) -> bool) -> Vec<Key> {
        self.closing_ages.retain(|(endpoint, _)| is_kept(endpoint));
        self.idle.extract_if(.., |idle| !is_kept(&idle.endpoint)).map(|idle| idle.key).collect()
    }

    /// Removes a connection that is to be closed.
    pub(crate) fn remove(&mut self, key: Key) {
        self.idle.retain(|idle| idle.key != key);
    }

    /// Removes a connection that its server has closed.
    pub(crate) fn remove_closed(&mut self, key: Key, now_ns: u64) {
        let Some(place) = self.idle.iter().position(|idle| idle.key == key) else { return };
        let IdleConnection { endpoint, since_ns, .. } = self.idle.remove(place);
        self.record_closing(&endpoint, now_ns.saturating_sub(since_ns), now_ns);
    }

    /// A server has closed a connection that was idle for `age_ns`.
    pub(crate) fn record_closing(&mut self, endpoint: &Arc<Endpoint>, age_ns: u64, now_ns: u64) {
        let is_it = |(other, _): &(Arc<Endpoint>, _)| Arc::ptr_eq(other, endpoint);
        let place = self.closing_ages.iter().position(is_it).unwrap_or_else(|| {
            self.closing_ages.push((Arc::clone(endpoint), ClosingAge::new(now_ns)));
            self.closing_ages.len() - 1
        });
        self.closing_ages[place].1.record(age_ns, now_ns);
    }

    /// For how long an idle connection to a server can be expected to stay, if that server has
    /// closed some lately.
    pub(crate) fn trusted_ns(&self, endpoint: &Arc<Endpoint>, now_ns: u64) -> Option<u64> {
        let mut known = self.closing_ages.iter();
        known.find(|(other, _)| Arc::ptr_eq(other, endpoint))?.1.trusted_ns(now_ns)
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
        let taken = Taken { key: second, since_ns: 20 };
        assert_eq!((pool.take(&one, 21), pool.take(&one, 20)), (None, Some(taken)));
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
        let taken = Taken { key: keys[1], since_ns: 0 };
        assert_eq!((pool.take(&two, 0), pool.take(&two, 0)), (Some(taken), None));
        assert_eq!(pool.retain(|server| Arc::ptr_eq(server, &two)), [keys[0], keys[2]]);
        assert_eq!(pool.take(&one, 0), None);
    }

    #[test]
    fn what_a_server_has_closed_says_how_long_others_stay() {
        let (mut pool, mut slab) = (Pool::default(), Slab::default());
        let [one, two] = [endpoint("one"), endpoint("two")];
        let mut add = |pool: &mut Pool, now_ns| {
            let key = slab.insert(());
            pool.add(key, Arc::clone(&one), now_ns, 64);
            key
        };
        let (closed, ended) = (add(&mut pool, 100), add(&mut pool, 110));
        pool.remove(ended);
        assert_eq!(pool.trusted_ns(&one, 120), None);
        pool.remove_closed(closed, 150);
        pool.remove_closed(closed, 100);
        assert_eq!((pool.trusted_ns(&one, 150), pool.trusted_ns(&two, 150)), (Some(25), None));
        pool.record_closing(&one, 30, 160);
        assert_eq!(pool.trusted_ns(&one, 160), Some(15));
        assert_eq!(pool.retain(|server| Arc::ptr_eq(server, &two)), []);
        assert_eq!(pool.trusted_ns(&one, 160), None);
    }
}
