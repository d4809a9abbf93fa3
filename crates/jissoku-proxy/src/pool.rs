//! Connections to upstream servers: which are unused, and how many are worth keeping.

use std::collections::VecDeque;
use std::sync::Arc;

use jissoku_os::socket::Endpoint;

use crate::Key;
use crate::policy::busy_peak::BusyPeak;
use crate::policy::closing_age::ClosingAge;
use crate::policy::configuration::IDLE_MIN_MAX;

/// Unused connections of a worker to one server that are kept at most.
const IDLE_MAX: usize = IDLE_MIN_MAX as usize;

/// A connection that was idle for longer is not used for a request that must not be repeated, nor
/// one that was idle for longer than its server can be trusted to keep it.
const FRESH_NS: u64 = 1_000_000_000;

/// Connections to the servers of one upstream.
#[derive(Debug)]
pub(crate) struct Pool {
    servers: Vec<ServerPool>,
    /// How many idle connections to each server are worth keeping without need.
    idle_min: usize,
}

/// What a connection is to the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// It is being closed, or is not there yet.
    None,
    Busy,
    Idle,
}

/// A connection that is idle.
#[derive(Clone, Copy, Debug)]
struct Entry {
    key: Key,
    since_ns: u64,
}

#[derive(Debug)]
struct ServerPool {
    endpoint: Arc<Endpoint>,
    /// Idle connections, the most recently used last.
    idle: VecDeque<Entry>,
    /// How many connections were busy at once.
    busy: BusyPeak,
    /// The age at which the server closes idle connections, if it has closed any.
    closing_age: Option<ClosingAge>,
}

impl ServerPool {
    fn remove(&mut self, key: Key) {
        if let Some(place) = self.idle.iter().rposition(|idle| idle.key == key) {
            self.idle.remove(place);
        }
    }
}

impl Pool {
    /// Keeps up to `idle_min` unused connections to each server without need, and at least one.
    pub(crate) fn new(idle_min: u32) -> Self {
        Self { servers: Vec::new(), idle_min: (idle_min as usize).clamp(1, IDLE_MAX) }
    }

    fn server(&self, endpoint: &Arc<Endpoint>) -> Option<&ServerPool> {
        self.servers.iter().find(|server| Arc::ptr_eq(&server.endpoint, endpoint))
    }

    fn server_mut(&mut self, endpoint: &Arc<Endpoint>) -> Option<&mut ServerPool> {
        self.servers.iter_mut().find(|server| Arc::ptr_eq(&server.endpoint, endpoint))
    }

    fn server_or_new(&mut self, endpoint: &Arc<Endpoint>, now_ns: u64) -> &mut ServerPool {
        let is_it = |server: &ServerPool| Arc::ptr_eq(&server.endpoint, endpoint);
        let place = self.servers.iter().position(is_it).unwrap_or_else(|| {
            self.servers.push(ServerPool {
                endpoint: Arc::clone(endpoint),
                idle: VecDeque::new(),
                busy: BusyPeak::new(now_ns),
                closing_age: None,
            });
            self.servers.len() - 1
        });
        &mut self.servers[place]
    }

    /// The use of a connection changes. If it is idle from now on, [`Pool::surplus`] is to be called.
    pub(crate) fn change(
        &mut self,
        key: Key,
        endpoint: &Arc<Endpoint>,
        (before, after): (Use, Use),
        now_ns: u64,
    ) {
        let server = match after {
            // Its server may not be one of this upstream any more.
            Use::None => match self.server_mut(endpoint) {
                Some(server) => server,
                None => return,
            },
            Use::Busy | Use::Idle => self.server_or_new(endpoint, now_ns),
        };
        match before {
            Use::None => {}
            Use::Busy => server.busy.end(now_ns),
            Use::Idle => server.remove(key),
        }
        match after {
            Use::None => {}
            Use::Busy => server.busy.begin(now_ns),
            Use::Idle => server.idle.push_back(Entry { key, since_ns: now_ns }),
        }
    }

    /// The most recently used connection to a server, if it is idle since `since_ns` or later.
    pub(crate) fn newest(&self, endpoint: &Arc<Endpoint>, since_ns: u64) -> Option<Key> {
        let newest = self.server(endpoint)?.idle.back()?;
        (newest.since_ns >= since_ns).then_some(newest.key)
    }

    /// The connection that is idle for longest, if there are more than are worth keeping: at most as
    /// many as were busy at once lately, but `idle_min` for as long as their upstream says.
    pub(crate) fn surplus(&mut self, endpoint: &Arc<Endpoint>, now_ns: u64) -> Option<Key> {
        let idle_min = self.idle_min;
        let server = self.server_mut(endpoint)?;
        let busy = usize::try_from(server.busy.largest(now_ns)).unwrap_or(IDLE_MAX);
        let is_surplus = server.idle.len() > busy.clamp(idle_min, IDLE_MAX);
        is_surplus.then(|| server.idle.front()).flatten().map(|idle| idle.key)
    }

    /// How many connections to a server are idle.
    pub(crate) fn idle_count(&self, endpoint: &Arc<Endpoint>) -> usize {
        self.server(endpoint).map_or(0, |server| server.idle.len())
    }

    /// The connection that is idle for longest, and since when.
    pub(crate) fn oldest(&self) -> Option<(u64, Key)> {
        let oldest = self.servers.iter().filter_map(|server| server.idle.front());
        oldest.map(|idle| (idle.since_ns, idle.key)).min_by_key(|(since_ns, _)| *since_ns)
    }

    /// Takes the connections to servers that are not to be kept.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(&Arc<Endpoint>) -> bool) -> Vec<Key> {
        let gone = self.servers.extract_if(.., |server| !is_kept(&server.endpoint));
        gone.flat_map(|server| server.idle).map(|idle| idle.key).collect()
    }

    /// A server has closed a connection that was idle for `age_ns`.
    pub(crate) fn record_closing(&mut self, endpoint: &Arc<Endpoint>, age_ns: u64, now_ns: u64) {
        let server = self.server_or_new(endpoint, now_ns);
        server.closing_age.get_or_insert(ClosingAge::new(now_ns)).record(age_ns, now_ns);
    }

    /// Oldest idle start accepted for requests that must not be repeated.
    pub(crate) fn fresh_since_ns(&self, endpoint: &Arc<Endpoint>, now_ns: u64) -> u64 {
        let trusted_ns = self.trusted_ns(endpoint, now_ns).unwrap_or(FRESH_NS);
        (now_ns + 1).saturating_sub(trusted_ns.min(FRESH_NS))
    }

    /// For how long an idle connection to a server can be expected to stay, if that server has
    /// closed some lately.
    fn trusted_ns(&self, endpoint: &Arc<Endpoint>, now_ns: u64) -> Option<u64> {
        self.server(endpoint)?.closing_age?.trusted_ns(now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Slab;

    const SECOND_NS: u64 = 1_000_000_000;

    fn endpoint(path: &str) -> Arc<Endpoint> {
        Arc::new(Endpoint::Unix(path.into()))
    }

    /// Connections that were busy at once until `now_ns`, the first one idle first.
    fn idle<const COUNT: usize>(
        pool: &mut Pool,
        slab: &mut Slab<()>,
        server: &Arc<Endpoint>,
        now_ns: u64,
    ) -> [Key; COUNT] {
        let keys = std::array::from_fn(|_| slab.insert(()));
        for uses in [(Use::None, Use::Busy), (Use::Busy, Use::Idle)] {
            for key in keys {
                pool.change(key, server, uses, now_ns);
            }
        }
        keys
    }

    /// Has all connections closed that are not worth keeping.
    fn trim(pool: &mut Pool, server: &Arc<Endpoint>, now_ns: u64) -> Vec<Key> {
        let mut closed = Vec::new();
        while let Some(key) = pool.surplus(server, now_ns) {
            pool.change(key, server, (Use::Idle, Use::None), now_ns);
            closed.push(key);
        }
        closed
    }

    #[test]
    fn the_most_recent_connection_is_taken_and_the_oldest_dropped() {
        let (mut pool, mut slab, one) = (Pool::new(0), Slab::default(), endpoint("one"));
        let [first] = idle(&mut pool, &mut slab, &one, 10);
        let [second] = idle(&mut pool, &mut slab, &one, 20);
        assert_eq!((pool.newest(&one, 21), pool.newest(&one, 20)), (None, Some(second)));
        pool.change(second, &one, (Use::Idle, Use::Busy), 30);
        assert_eq!((pool.newest(&one, 0), pool.oldest()), (Some(first), Some((10, first))));
        for _ in 0..2 {
            pool.change(first, &one, (Use::Idle, Use::None), 30);
        }
        assert_eq!((pool.newest(&one, 0), pool.oldest()), (None, None));
        let keys: [Key; 65] = idle(&mut pool, &mut slab, &one, 40);
        assert_eq!(trim(&mut pool, &one, 40), [keys[0]]);
        assert_eq!(pool.oldest(), Some((40, keys[1])));
        let [other] = idle(&mut pool, &mut slab, &endpoint("two"), 5);
        assert_eq!(pool.oldest(), Some((5, other)));
    }

    #[test]
    fn as_many_are_kept_as_were_busy_lately_and_one() {
        let (mut pool, mut slab) = (Pool::new(0), Slab::default());
        let [one, two] = [endpoint("one"), endpoint("two")];
        let keys: [Key; 4] = idle(&mut pool, &mut slab, &one, 0);
        let [other] = idle(&mut pool, &mut slab, &two, 0);
        assert_eq!(trim(&mut pool, &one, 10 * SECOND_NS), []);
        // Two are used at once, and then never more.
        for key in [keys[3], keys[2]] {
            assert_eq!(pool.newest(&one, 0), Some(key));
            pool.change(key, &one, (Use::Idle, Use::Busy), 5 * SECOND_NS);
        }
        for key in [keys[3], keys[2]] {
            pool.change(key, &one, (Use::Busy, Use::Idle), 5 * SECOND_NS);
            assert_eq!(trim(&mut pool, &one, 5 * SECOND_NS), []);
        }
        assert_eq!(trim(&mut pool, &one, 11 * SECOND_NS), [keys[0], keys[1]]);
        let late_ns = 100 * SECOND_NS;
        assert_eq!(trim(&mut pool, &one, late_ns), [keys[3]]);
        assert_eq!(trim(&mut pool, &two, late_ns), []);
        // What was closed instead of kept was busy, too, and is not any more.
        let closed: [Key; 3] = std::array::from_fn(|_| slab.insert(()));
        for uses in [(Use::None, Use::Busy), (Use::Busy, Use::None)] {
            for key in closed {
                pool.change(key, &two, uses, late_ns);
            }
        }
        let [_, _] = idle(&mut pool, &mut slab, &two, late_ns + SECOND_NS);
        assert_eq!(trim(&mut pool, &two, late_ns + 10 * SECOND_NS), []);
        assert_eq!(pool.surplus(&two, late_ns + 11 * SECOND_NS), Some(other));
    }

    #[test]
    fn the_least_number_is_kept_though_none_is_busy() {
        let (mut pool, mut slab, one) = (Pool::new(2), Slab::default(), endpoint("one"));
        let [oldest, _, _]: [Key; 3] = idle(&mut pool, &mut slab, &one, 0);
        assert_eq!(pool.idle_count(&one), 3);
        assert_eq!(trim(&mut pool, &one, 100 * SECOND_NS), [oldest]);
        assert_eq!(pool.idle_count(&one), 2);
        assert_eq!(pool.idle_count(&endpoint("one")), 0, "it is another server");
    }

    #[test]
    fn a_connection_to_another_server_is_not_taken() {
        let (mut pool, mut slab) = (Pool::new(0), Slab::default());
        let [one, two] = [endpoint("one"), endpoint("two")];
        let [first, last]: [Key; 2] = idle(&mut pool, &mut slab, &one, 0);
        let [key] = idle(&mut pool, &mut slab, &two, 0);
        assert_eq!(pool.newest(&two, 0), Some(key));
        assert_eq!(pool.retain(|server| Arc::ptr_eq(server, &two)), [first, last]);
        assert_eq!(pool.newest(&one, 0), None);
        pool.change(first, &one, (Use::Busy, Use::None), 0);
    }

    #[test]
    fn what_a_server_has_closed_says_how_long_others_stay() {
        let (mut pool, one, two) = (Pool::new(0), endpoint("one"), endpoint("two"));
        assert_eq!(pool.trusted_ns(&one, 120), None);
        pool.record_closing(&one, 50, 150);
        assert_eq!((pool.trusted_ns(&one, 150), pool.trusted_ns(&two, 150)), (Some(25), None));
        pool.record_closing(&one, 30, 160);
        assert_eq!(pool.trusted_ns(&one, 160), Some(15));
        // What must not be repeated gets none that is idle for longer, nor for a second.
        assert_eq!(pool.fresh_since_ns(&one, 160), 146);
        assert_eq!(pool.fresh_since_ns(&two, 3 * SECOND_NS), 2 * SECOND_NS + 1);
        assert_eq!(pool.retain(|server| Arc::ptr_eq(server, &two)), []);
        assert_eq!(pool.trusted_ns(&one, 160), None);
    }
}
