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
    /// route only.
    pub(super) fn admit(
        &self,
        address: Option<IpAddr>,
        now_ns: u64,
    ) -> Result<Option<Permit>, TooMuch> {
        let key = |per| match per {
            RateKey::Route => Some(ROUTE_KEY),
            RateKey::Address => address.map(|address| address_key(address, self.seed)),
        };
        // First, because what it counts is given back.
        let permit = match &self.concurrency {
            Some((most, table)) => key(most.per)
                .map(|key| table.acquire(key, most.requests_max))
                .transpose()
                .map_err(|_| {
                    let status = if most.per == RateKey::Route { 503 } else { 429 };
                    TooMuch { status, after_ns: 0 }
                })?,
            None => None,
        };
        if let Some((rate, table)) = &self.rate
            && let Some(key) = key(rate.per)
        {
            table
                .check(key, rate.policy, now_ns)
                .map_err(|after_ns| TooMuch { status: 429, after_ns })?;
        }
        Ok(permit)
    }
}

/// A request is too much.
#[derive(Clone, Copy, Debug)]
pub(super) struct TooMuch {
    pub(super) status: u16,
    after_ns: u64,
}

impl TooMuch {
    pub(super) const fn text(self) -> &'static str {
        if self.status == 429 { "Too Many Requests\n" } else { "Service Unavailable\n" }
    }

    /// The response, which says when to ask again (RFC 6585 section 4).
    pub(super) fn response(self) -> DynamicResponse {
        let fields = format!("Retry-After: {}\r\n", self.after_ns.div_ceil(SECOND_NS).max(1));
        DynamicResponse::text(self.status, &fields, self.text().as_bytes())
    }
}
