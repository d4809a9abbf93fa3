//! Requests per second, and at once, of each client: in tables of fixed size, without locks.

mod concurrency;
mod gcra;
mod slots;

use std::net::IpAddr;

pub use concurrency::{ConcurrencyTable, Permit, TooMany};
pub use gcra::{RatePolicy, RateTable};

use crate::random::mix;

/// The key of a client's address; of IPv6 the first 64 bits, since a client has all below them.
/// Different for each `seed`, so that clients cannot choose addresses that collide.
pub fn address_key(address: IpAddr, seed: u64) -> u64 {
    let bits = match address.to_canonical() {
        IpAddr::V4(address) => u64::from(address.to_bits()),
        IpAddr::V6(address) => u64::try_from(address.to_bits() >> 64).unwrap_or_default(),
    };
    let version = u64::from(address.to_canonical().is_ipv6());
    mix(mix(bits ^ seed).wrapping_add(version))
}

#[cfg(test)]
mod tests;
