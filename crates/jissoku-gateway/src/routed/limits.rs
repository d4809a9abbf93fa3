//! Limits on the requests of a route.

use std::net::IpAddr;
use std::sync::Arc;

use jissoku_server::DynamicResponse;
use jissoku_upstream::configuration::{Concurrency, Rate, RateKey};
use jissoku_upstream::rate::{ConcurrencyTable, Permit, RateTable, address_key};

const SECOND_NS: u64 = 1_000_000_000;

/// The key of all requests of a route that is not counted by address.
const ROUTE_KEY: u64 = u64::MAX;

/// How often clients may ask, and how much at once. Shared by all workers.
#[derive(Debug)]
pub struct RouteLimits {
    rate: Option<(Rate, RateTable)>,
    concurrency: Option<(Concurrency, Arc<ConcurrencyTable>)>,
    seed: u64,
}

impl RouteLimits {
    /// The limits of one route, if it has some. `seed` is secret, so that clients cannot choose
    /// addresses that are counted together.
    #[must_use]
    pub fn new(rate: Option<Rate>, concurrency: Option<Concurrency>, seed: u64) -> Option<Self> {
        let slots = |per| if per == RateKey::Route { 1 } else { RateTable::SLOTS };
        (rate.is_some() || concurrency.is_some()).then(|| Self {
            rate: rate.map(|rate| (rate, RateTable::new(slots(rate.per)))),
            concurrency: concurrency.map(|most| (most, ConcurrencyTable::new(slots(most.per)))),
            seed,
        })
    }

    /// Counts a request of a client, which has no address over a Unix socket and is then limited by
    /// route only. Returns the response if it is too much.
    pub(super) fn admit(
        &self,
        address: Option<IpAddr>,
        now_ns: u64,
    ) -> Result<Option<Permit>, DynamicResponse> {
        let key = |per| match per {
            RateKey::Route => Some(ROUTE_KEY),
            RateKey::Address => address.map(|address| address_key(address, self.seed)),
        };
        // First, because what it counts is given back.
        let permit = match &self.concurrency {
            Some((most, table)) => key(most.per)
                .map(|key| table.acquire(key, most.requests_max))
                .transpose()
                .map_err(|_| too_much(if most.per == RateKey::Route { 503 } else { 429 }, 0))?,
            None => None,
        };
        if let Some((rate, table)) = &self.rate
            && let Some(key) = key(rate.per)
        {
            table.check(key, rate.policy, now_ns).map_err(|after_ns| too_much(429, after_ns))?;
        }
        Ok(permit)
    }
}

/// The response to a request that is too much, which says when to ask again (RFC 6585 section 4).
fn too_much(status: u16, after_ns: u64) -> DynamicResponse {
    let fields = format!("Retry-After: {}\r\n", after_ns.div_ceil(SECOND_NS).max(1));
    let text: &[u8] = if status == 429 { b"Too Many Requests\n" } else { b"Service Unavailable\n" };
    DynamicResponse::text(status, &fields, text)
}
