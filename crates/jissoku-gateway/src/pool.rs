//! Connections to upstream servers: which are unused, and how many are worth keeping.

use std::collections::VecDeque;
use std::sync::Arc;

use jissoku_os::socket::Endpoint;
use jissoku_upstream::busy_peak::BusyPeak;
use jissoku_upstream::closing_age::ClosingAge;
use jissoku_upstream::configuration::IDLE_MIN_MAX;

use crate::slab::Key;

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

/// A connection that was idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) key: Key,
    /// When it became idle.
    pub(crate) since_ns: u64,
}

/// Connections to one server.
#[derive(Debug)]
struct ServerPool {
    endpoint: Arc<Endpoint>,
    /// Those that are idle, the most recently used last.
    idle: VecDeque<Taken>,
    /// Of those that are not.
    busy: BusyPeak,
    /// Of those that the server has closed, if it has.
    closing_age: Option<ClosingAge>,
}

impl ServerPool {
    /// Takes the connection that is idle for longest, if there are more than are worth keeping: at
    /// most as many as were busy at once lately, but `idle_min` for as long as their upstream says.
    fn take_surplus(&mut self, idle_min: usize, now_ns: u64) -> Option<Key> {
        let busy = usize::try_from(self.busy.largest(now_ns)).unwrap_or(IDLE_MAX);
        let is_surplus = self.idle.len() > busy.clamp(idle_min, IDLE_MAX);
        is_surplus.then(|| self.idle.pop_front()).flatten().map(|idle| idle.key)
    }
}

impl Pool {
    /// Keeps up to `idle_min` unused connections to each server without need, and at least one.
    pub(crate) fn new(idle_min: u32) -> Self {
        Self { servers: Vec::new(), idle_min: (idle_min as usize).clamp(1, IDLE_MAX) }
    }

    fn server(&mut self, endpoint: &Arc<Endpoint>) -> Option<&mut ServerPool> {
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

    /// A connection is being opened, and busy.
    pub(crate) fn begin(&mut self, endpoint: &Arc<Endpoint>, now_ns: u64) {
        self.server_or_new(endpoint, now_ns).busy.begin(now_ns);
    }

    /// A connection that was busy is of no use any more.
    pub(crate) fn end(&mut self, endpoint: &Arc<Endpoint>, now_ns: u64) {
        if let Some(server) = self.server(endpoint) {
            server.busy.end(now_ns);
        }
    }

    /// A connection that was busy is idle from now on. [`Pool::take_surplus`] is to be called.
    pub(crate) fn add(&mut self, key: Key, endpoint: &Arc<Endpoint>, now_ns: u64) {
        let server = self.server_or_new(endpoint, now_ns);
        server.busy.end(now_ns);
        server.idle.push_back(Taken { key, since_ns: now_ns });
    }

    /// Takes the most recently used connection to a server, if it is idle since `since_ns` or later.
    /// It is busy from now on.
    pub(crate) fn take(
        &mut self,
        endpoint: &Arc<Endpoint>,
        since_ns: u64,
        now_ns: u64,
    ) -> Option<Taken> {
        let server = self.server(endpoint)?;
        if server.idle.back()?.since_ns < since_ns {
            return None;
        }
        server.busy.begin(now_ns);
        server.idle.pop_back()
    }

    /// Takes an idle connection that is not worth keeping.
    pub(crate) fn take_surplus(&mut self, endpoint: &Arc<Endpoint>, now_ns: u64) -> Option<Key> {
        let idle_min = self.idle_min;
        self.server(endpoint)?.take_surplus(idle_min, now_ns)
    }

    /// How many connections to a server are idle.
    pub(crate) fn idle_count(&self, endpoint: &Arc<Endpoint>) -> usize {
        let mut servers = self.servers.iter();
        let server = servers.find(|server| Arc::ptr_eq(&server.endpoint, endpoint));
        server.map_or(0, |server| server.idle.len())
    }

    /// Since when the connection is idle that is so for longest.
    pub(crate) fn oldest_since_ns(&self) -> Option<u64> {
        let oldest = self.servers.iter().filter_map(|server| server.idle.front());
        oldest.map(|idle| idle.since_ns).min()
    }

    /// Takes the connection that is idle for longest.
    pub(crate) fn take_oldest(&mut self) -> Option<Key> {
        let with_idle = self.servers.iter_mut().filter(|server| !server.idle.is_empty());
        let oldest = with_idle.min_by_key(|server| server.idle.front().map(|idle| idle.since_ns));
        oldest?.idle.pop_front().map(|idle| idle.key)
    }

    /// Takes the connections to servers that are not to be kept.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(&Arc<Endpoint>) -> bool) -> Vec<Key> {
        let gone = self.servers.extract_if(.., |server| !is_kept(&server.endpoint));
        gone.flat_map(|server| server.idle).map(|idle| idle.key).collect()
    }

    /// Removes an idle connection that is to be closed.
    pub(crate) fn remove(&mut self, key: Key, endpoint: &Arc<Endpoint>) -> Option<Taken> {
        let idle = &mut self.server(endpoint)?.idle;
        let place = idle.iter().position(|idle| idle.key == key)?;
        idle.remove(place)
    }

    /// Removes an idle connection that its server has closed.
    pub(crate) fn remove_closed(&mut self, key: Key, endpoint: &Arc<Endpoint>, now_ns: u64) {
        if let Some(Taken { since_ns, .. }) = self.remove(key, endpoint) {
            self.record_closing(endpoint, now_ns.saturating_sub(since_ns), now_ns);
        }
    }

    /// A server has closed a connection that was idle for `age_ns`.
    pub(crate) fn record_closing(&mut self, endpoint: &Arc<Endpoint>, age_ns: u64, now_ns: u64) {
        let server = self.server_or_new(endpoint, now_ns);
        server.closing_age.get_or_insert(ClosingAge::new(now_ns)).record(age_ns, now_ns);
    }

    /// Since when at the earliest a connection is idle that a request gets which must not be
    /// repeated.
    pub(crate) fn fresh_since_ns(&self, endpoint: &Arc<Endpoint>, now_ns: u64) -> u64 {
        let trusted_ns = self.trusted_ns(endpoint, now_ns).unwrap_or(FRESH_NS);
        (now_ns + 1).saturating_sub(trusted_ns.min(FRESH_NS))
    }

    /// For how long an idle connection to a server can be expected to stay, if that server has
    /// closed some lately.
    fn trusted_ns(&self, endpoint: &Arc<Endpoint>, now_ns: u64) -> Option<u64> {
        let mut servers = self.servers.iter();
        let server = servers.find(|server| Arc::ptr_eq(&server.endpoint, endpoint))?;
        server.closing_age?.trusted_ns(now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slab::Slab;

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
        (0..COUNT).for_each(|_| pool.begin(server, now_ns));
        std::array::from_fn(|_| {
            let key = slab.insert(());
            pool.add(key, server, now_ns);
            key
        })
    }

    #[test]
    fn the_most_recent_connection_is_taken_and_the_oldest_dropped() {
        let (mut pool, mut slab, one) = (Pool::new(0), Slab::default(), endpoint("one"));
        let [first] = idle(&mut pool, &mut slab, &one, 10);
        let [second] = idle(&mut pool, &mut slab, &one, 20);
        assert_eq!(pool.take(&one, 21, 30), None);
        let taken = Taken { key: second, since_ns: 20 };
        assert_eq!(pool.take(&one, 20, 30), Some(taken));
        assert_eq!(pool.remove(first, &one), Some(Taken { key: first, since_ns: 10 }));
        assert_eq!((pool.remove(first, &one), pool.take(&one, 0, 30)), (None, None));
        let keys: [Key; 65] = idle(&mut pool, &mut slab, &one, 40);
        let surplus = [pool.take_surplus(&one, 40), pool.take_surplus(&one, 40)];
        assert_eq!(surplus, [Some(keys[0]), None]);
        assert_eq!((pool.oldest_since_ns(), pool.take_oldest()), (Some(40), Some(keys[1])));
        let [_] = idle(&mut pool, &mut slab, &endpoint("two"), 5);
        assert_eq!(pool.oldest_since_ns(), Some(5));
    }

    #[test]
    fn as_many_are_kept_as_were_busy_lately_and_one() {
        let (mut pool, mut slab) = (Pool::new(0), Slab::default());
        let [one, two] = [endpoint("one"), endpoint("two")];
        let keys: [Key; 4] = idle(&mut pool, &mut slab, &one, 0);
        let [other] = idle(&mut pool, &mut slab, &two, 0);
        assert_eq!(pool.take_surplus(&one, 10 * SECOND_NS), None);
        // Two are used at once, and then never more.
        (0..2).for_each(|_| assert!(pool.take(&one, 0, 5 * SECOND_NS).is_some()));
        for key in [keys[3], keys[2]] {
            pool.add(key, &one, 5 * SECOND_NS);
            assert_eq!(pool.take_surplus(&one, 5 * SECOND_NS), None);
        }
        let later_ns = 11 * SECOND_NS;
        let surplus = [pool.take_surplus(&one, later_ns), pool.take_surplus(&one, later_ns)];
        assert_eq!(surplus, [Some(keys[0]), Some(keys[1])]);
        assert_eq!(pool.take_surplus(&one, later_ns), None);
        let late_ns = 100 * SECOND_NS;
        assert_eq!(pool.take_surplus(&one, late_ns), Some(keys[3]));
        assert_eq!(
            (pool.take_surplus(&one, late_ns), pool.take_surplus(&two, late_ns)),
            (None, None)
        );
        // What was closed instead of kept was busy, too, and is not any more.
        (0..3).for_each(|_| pool.begin(&two, late_ns));
        (0..3).for_each(|_| pool.end(&two, late_ns));
        let [_, _] = idle(&mut pool, &mut slab, &two, late_ns + SECOND_NS);
        assert_eq!(pool.take_surplus(&two, late_ns + 10 * SECOND_NS), None);
        assert_eq!(pool.take_surplus(&two, late_ns + 11 * SECOND_NS), Some(other));
    }

    #[test]
    fn the_least_number_is_kept_though_none_is_busy() {
        let (mut pool, mut slab, one) = (Pool::new(2), Slab::default(), endpoint("one"));
        let [oldest, _, _]: [Key; 3] = idle(&mut pool, &mut slab, &one, 0);
        assert_eq!(pool.idle_count(&one), 3);
        let late_ns = 100 * SECOND_NS;
        assert_eq!(pool.take_surplus(&one, late_ns), Some(oldest));
        assert_eq!((pool.take_surplus(&one, late_ns), pool.idle_count(&one)), (None, 2));
        assert_eq!(pool.idle_count(&endpoint("one")), 0, "it is another server");
    }

    #[test]
    fn a_connection_to_another_server_is_not_taken() {
        let (mut pool, mut slab) = (Pool::new(0), Slab::default());
        let [one, two] = [endpoint("one"), endpoint("two")];
        let [first, last]: [Key; 2] = idle(&mut pool, &mut slab, &one, 0);
        let [key] = idle(&mut pool, &mut slab, &two, 0);
        let taken = Taken { key, since_ns: 0 };
        assert_eq!((pool.take(&two, 0, 0), pool.take(&two, 0, 0)), (Some(taken), None));
        assert_eq!(pool.retain(|server| Arc::ptr_eq(server, &two)), [first, last]);
        assert_eq!(pool.take(&one, 0, 0), None);
        pool.end(&one, 0);
    }

    #[test]
    fn what_a_server_has_closed_says_how_long_others_stay() {
        let (mut pool, mut slab) = (Pool::new(0), Slab::default());
        let [one, two] = [endpoint("one"), endpoint("two")];
        let [closed] = idle(&mut pool, &mut slab, &one, 100);
        let [ended] = idle(&mut pool, &mut slab, &one, 110);
        pool.remove(ended, &one);
        assert_eq!(pool.trusted_ns(&one, 120), None);
        pool.remove_closed(closed, &one, 150);
        pool.remove_closed(closed, &one, 100);
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
