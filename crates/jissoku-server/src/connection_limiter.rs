//! Connection limits, in total and per address, shared by all workers.
//!
//! Opening or closing a connection costs one atomic addition; a request costs nothing. Addresses
//! are counted only if they are limited, in a count-min sketch of two tables: the smaller of an
//! address's two counters is never less than its connections, and more only if other addresses
//! collide with it in both tables. It needs no lock and a fixed amount of memory. The hash is
//! seeded, so that collisions cannot be chosen.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use jissoku_os::driver::NewConnection;

use crate::limits::Limits;

/// Counters per table. Of 10,000 simultaneous addresses, 7 % collide in both tables, with one or
/// two others.
const COUNTERS: usize = 1 << 15;

/// Counts the open connections of a server.
#[derive(Debug)]
pub(crate) struct ConnectionLimiter {
    connections: AtomicUsize,
    connections_max: usize,
    addresses: Option<AddressCounters>,
}

/// The accounting of one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Permit {
    /// Its counters in the two tables.
    counters: Option<[u16; 2]>,
    pub(crate) is_over_limit: bool,
}

impl ConnectionLimiter {
    pub(crate) fn new(limits: &Limits) -> Self {
        let per_address_max = limits.connections_per_address_max;
        Self {
            connections: AtomicUsize::new(0),
            connections_max: limits.connections_max,
            addresses: (per_address_max > 0).then(|| AddressCounters::new(per_address_max)),
        }
    }

    /// Whether it enforces `limits`.
    pub(crate) fn is_for(&self, limits: &Limits) -> bool {
        let per_address_max = self.addresses.as_ref().map_or(0, |addresses| addresses.max);
        self.connections_max == limits.connections_max
            && per_address_max == limits.connections_per_address_max
    }

    /// Counts a connection, if it is within the limits. A rejected one is not counted while it
    /// lingers: otherwise clients that reconnect all the time would keep occupying the slots that
    /// became free.
    pub(crate) fn acquire(&self, arrival: &NewConnection<'_>) -> Permit {
        let before = self.connections.fetch_add(1, Ordering::Relaxed);
        let mut permit = Permit { counters: None, is_over_limit: before >= self.connections_max };
        if let Some(addresses) = &self.addresses
            && let Some(address) = arrival.peer()
        {
            let counters = addresses.counters(address.ip());
            permit.is_over_limit |= addresses.add(counters) >= addresses.max;
            permit.counters = Some(counters);
        }
        if permit.is_over_limit {
            self.decrement(permit);
        }
        permit
    }

    /// Releases a permit, if it was counted.
    pub(crate) fn release(&self, permit: Permit) {
        if !permit.is_over_limit {
            self.decrement(permit);
        }
    }

    fn decrement(&self, permit: Permit) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
        if let (Some(addresses), Some(counters)) = (&self.addresses, permit.counters) {
            addresses.remove(counters);
        }
    }
}

#[derive(Debug)]
struct AddressCounters {
    max: u32,
    hash: RandomState,
    tables: [Box<[AtomicU32]>; 2],
}

impl AddressCounters {
    fn new(max: u32) -> Self {
        let table = || (0..COUNTERS).map(|_| AtomicU32::new(0)).collect();
        Self { max, hash: RandomState::new(), tables: [table(), table()] }
    }

    /// IPv6 addresses are counted per /64 network (RFC 4291 section 2.5.4).
    fn counters(&self, address: IpAddr) -> [u16; 2] {
        let hash = match address.to_canonical() {
            IpAddr::V4(address) => self.hash.hash_one(address.octets()),
            IpAddr::V6(address) => self.hash.hash_one(&address.octets()[..8]),
        };
        let [a, b, c, d, ..] = hash.to_le_bytes();
        [u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d])].map(|word| word >> 1)
    }

    /// Returns the count before.
    fn add(&self, counters: [u16; 2]) -> u32 {
        let [first, second] = self.each(counters).map(|c| c.fetch_add(1, Ordering::Relaxed));
        first.min(second)
    }

    fn remove(&self, counters: [u16; 2]) {
        for counter in self.each(counters) {
            counter.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn each(&self, [first, second]: [u16; 2]) -> [&AtomicU32; 2] {
        [&self.tables[0][usize::from(first)], &self.tables[1][usize::from(second)]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_its_own_count() {
        let addresses = AddressCounters::new(1);
        let counters = |text: &str| addresses.counters(text.parse().expect("an address"));
        assert_eq!(addresses.add(counters("10.0.0.1")), 0);
        assert_eq!(addresses.add(counters("10.0.0.1")), 1);
        assert_eq!(addresses.add(counters("::ffff:10.0.0.1")), 2);
        addresses.remove(counters("10.0.0.1"));
        assert_eq!(addresses.add(counters("10.0.0.1")), 2);
        assert_eq!(counters("2001:db8::1"), counters("2001:db8::2:3:4"));
        assert_ne!(counters("2001:db8::1"), counters("2001:db8:0:1::1"));
    }

    #[test]
    fn different_addresses_rarely_share_a_counter() {
        let addresses = AddressCounters::new(1);
        let all = || (0..10_000_u32).map(|number| addresses.counters(IpAddr::V4(number.into())));
        let met = all().filter(|&counters| addresses.add(counters) > 0).count();
        assert!(met < 700, "{met} of 10,000 addresses share a counter");
        all().for_each(|counters| addresses.remove(counters));
        assert!(addresses.tables.iter().flatten().all(|c| c.load(Ordering::Relaxed) == 0));
    }
}
