//! How many connections there are, and from whom: the ceilings that all workers keep together.
//!
//! A connection that comes or goes costs one addition to a shared number, a request costs nothing. Addresses
//! are counted only if there is a limit for them, in two tables of counters that several addresses share:
//! the smaller of an address's two counters is never less than its connections, and more only where
//! strangers meet it in both tables. So no lock is needed and no list grows. The hash is seeded, so nobody
//! can choose whom to meet.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use jissoku_os::socket;

use crate::limits::Limits;

/// Counters per table. Of ten thousand addresses at once, seven in a hundred share both counters with
/// somebody, and only then with one or two.
const COUNTERS: usize = 1 << 15;

/// The connections of a server.
#[derive(Debug)]
pub(crate) struct Census {
    connections: AtomicUsize,
    connections_max: usize,
    addresses: Option<Addresses>,
}

/// What a connection is counted under.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seat {
    /// Its counters in the two tables.
    counters: Option<[u16; 2]>,
    /// Whether there was no room for it.
    pub(crate) is_over: bool,
}

impl Census {
    pub(crate) fn new(limits: &Limits) -> Self {
        let per_address_max = limits.connections_per_address_max;
        Self {
            connections: AtomicUsize::new(0),
            connections_max: limits.connections_max,
            addresses: (per_address_max > 0).then(|| Addresses::new(per_address_max)),
        }
    }

    /// Whether these are the ceilings of `limits`.
    pub(crate) fn is_for(&self, limits: &Limits) -> bool {
        let per_address_max = self.addresses.as_ref().map_or(0, |addresses| addresses.max);
        self.connections_max == limits.connections_max
            && per_address_max == limits.connections_per_address_max
    }

    /// Counts a connection in, if there is room. Who is turned away is not counted while it lingers:
    /// otherwise a crowd that comes again and again would keep the room that others have left.
    pub(crate) fn enter(&self, socket: BorrowedFd<'_>) -> Seat {
        let before = self.connections.fetch_add(1, Ordering::Relaxed);
        let mut seat = Seat { counters: None, is_over: before >= self.connections_max };
        if let Some(addresses) = &self.addresses
            && let Some(address) = socket::peer_address(socket)
        {
            let counters = addresses.counters(address);
            seat.is_over |= addresses.add(counters) >= addresses.max;
            seat.counters = Some(counters);
        }
        if seat.is_over {
            self.count_out(seat);
        }
        seat
    }

    /// Counts a connection out, if it was counted in.
    pub(crate) fn leave(&self, seat: Seat) {
        if !seat.is_over {
            self.count_out(seat);
        }
    }

    fn count_out(&self, seat: Seat) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
        if let (Some(addresses), Some(counters)) = (&self.addresses, seat.counters) {
            addresses.remove(counters);
        }
    }
}

#[derive(Debug)]
struct Addresses {
    max: u32,
    hash: RandomState,
    tables: [Box<[AtomicU32]>; 2],
}

impl Addresses {
    fn new(max: u32) -> Self {
        let table = || (0..COUNTERS).map(|_| AtomicU32::new(0)).collect();
        Self { max, hash: RandomState::new(), tables: [table(), table()] }
    }

    /// Who has one IPv6 address has a network of 2^64 of them (RFC 4291 section 2.5.4).
    fn counters(&self, address: IpAddr) -> [u16; 2] {
        let hash = match address.to_canonical() {
            IpAddr::V4(address) => self.hash.hash_one(address.octets()),
            IpAddr::V6(address) => self.hash.hash_one(&address.octets()[..8]),
        };
        let [a, b, c, d, ..] = hash.to_le_bytes();
        [u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d])].map(|word| word >> 1)
    }

    /// How many there were already.
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
    fn an_address_is_counted_by_itself() {
        let addresses = Addresses::new(1);
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
    fn strangers_hardly_ever_meet() {
        let addresses = Addresses::new(1);
        let all = || (0..10_000_u32).map(|number| addresses.counters(IpAddr::V4(number.into())));
        let met = all().filter(|&counters| addresses.add(counters) > 0).count();
        assert!(met < 700, "{met} of 10,000 addresses were counted as somebody else");
        all().for_each(|counters| addresses.remove(counters));
        assert!(addresses.tables.iter().flatten().all(|c| c.load(Ordering::Relaxed) == 0));
    }
}
