//! Limits on the requests of a route.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use jissoku_server::{DynamicResponse, Metrics, RouteCounter, RouteCounters};

use crate::policy::configuration::{Concurrency, Rate, RateKey};
use crate::policy::rate::{ConcurrencyTable, Permit, RateTable, address_key};

const SECOND_NS: u64 = 1_000_000_000;

/// The key of all requests of a route that is not counted by address.
const ROUTE_KEY: u64 = u64::MAX;

/// How often clients may ask, and how much at once. Shared by all workers.
#[derive(Debug)]
pub struct RouteLimits {
    /// The path of the route, as it was written.
    path: Box<str>,
    rate: Option<(Rate, Arc<RateTable>)>,
    concurrency: Option<(Concurrency, Arc<ConcurrencyTable>)>,
    keys: Keys,
    /// Set if there are metrics.
    counters: OnceLock<Arc<RouteCounters>>,
}

/// How requests that are counted together are found. Secret, so that clients cannot choose addresses
/// or values that are counted together.
#[derive(Clone, Debug)]
struct Keys {
    /// Seed of the hash of addresses.
    seed: u64,
    /// Hash of the values of fields.
    hasher: RandomState,
}

/// A request that is within its limits.
#[derive(Debug, Default)]
pub(super) struct Admitted {
    /// Counts it.
    pub(super) permit: Option<Permit>,
    /// Whether it is beyond a rate that is a dry run.
    pub(super) is_over_rate: bool,
}

impl RouteLimits {
    /// The limits of the route of this path, if it has some. `previous` are those of the same route
    /// before a reload: what they have counted counts, unless requests are now counted by another key.
    pub fn new(
        path: &str,
        rate: Option<Rate>,
        concurrency: Option<Concurrency>,
        previous: Option<&Self>,
    ) -> Option<Self> {
        if rate.is_none() && concurrency.is_none() {
            return None;
        }
        let slots = |per: &RateKey| if *per == RateKey::Route { 1 } else { RateTable::SLOTS };
        let rate = rate.map(|rate| {
            let known = previous.and_then(|old| old.rate.as_ref());
            let known = known.filter(|(old, _)| old.per == rate.per).map(|(_, table)| table);
            let new = || Arc::new(RateTable::new(slots(&rate.per)));
            let table = known.map_or_else(new, Arc::clone);
            (rate, table)
        });
        let concurrency = concurrency.map(|most| {
            let known = previous.and_then(|old| old.concurrency.as_ref());
            let known = known.filter(|(old, _)| old.per == most.per).map(|(_, table)| table);
            let table = known.map_or_else(|| ConcurrencyTable::new(slots(&most.per)), Arc::clone);
            (most, table)
        });
        let hasher = RandomState::new();
        let keys = previous
            .map_or_else(|| Keys { seed: hasher.hash_one(()), hasher }, |old| old.keys.clone());
        Some(Self { path: path.into(), rate, concurrency, keys, counters: OnceLock::new() })
    }

    /// Counts in `metrics` from now on.
    pub(super) fn report_to(&self, metrics: &Metrics) {
        let _known = self.counters.get_or_init(|| metrics.route(&self.path));
    }

    fn count(&self, counter: RouteCounter) {
        if let Some(counters) = self.counters.get() {
            counters.count(counter);
        }
    }

    /// Counts a request of a client, which has no address over a Unix socket and is then limited by
    /// the route or a field only. `field` is the value of a field of the request.
    pub(super) fn admit<'a>(
        &self,
        address: Option<IpAddr>,
        field: impl Fn(&str) -> Option<&'a [u8]>,
        now_ns: u64,
    ) -> Result<Admitted, TooMuch> {
        let key = |per: &RateKey| {
            let of_field = match per {
                RateKey::Route => return Some(ROUTE_KEY),
                RateKey::Address => None,
                RateKey::Field(name) => field(name).map(|value| self.keys.hasher.hash_one(value)),
            };
            of_field.or_else(|| address.map(|address| address_key(address, self.keys.seed)))
        };
        // First, because what it counts is given back.
        let permit = match &self.concurrency {
            Some((most, table)) => key(&most.per)
                .map(|key| table.acquire(key, most.requests_max))
                .transpose()
                .map_err(|_| {
                    self.count(RouteCounter::ConcurrencyRefused);
                    let status = if most.per == RateKey::Route { 503 } else { 429 };
                    TooMuch { status, after_ns: 0 }
                })?,
            None => None,
        };
        let mut is_over_rate = false;
        if let Some((rate, table)) = &self.rate
            && let Some(key) = key(&rate.per)
            && let Err(after_ns) = table.check(key, rate.policy, now_ns)
        {
            if !rate.is_dry_run {
                self.count(RouteCounter::RateRefused);
                return Err(TooMuch { status: 429, after_ns });
            }
            self.count(RouteCounter::RateDryRun);
            is_over_rate = true;
        }
        Ok(Admitted { permit, is_over_rate })
    }
}

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

#[cfg(test)]
mod tests {
    use crate::policy::rate::RatePolicy;

    use super::*;

    /// With one request an hour, and one at once.
    fn limits(per: RateKey, is_dry_run: bool) -> RouteLimits {
        let policy = RatePolicy { requests: 1, every_ns: 3600 * SECOND_NS, burst: 1 };
        let rate = Rate { per: per.clone(), policy, is_dry_run };
        let concurrency = Concurrency { per, requests_max: 1 };
        RouteLimits::new("/", Some(rate), Some(concurrency), None).expect("there are limits")
    }

    fn of_field() -> RateKey {
        RateKey::Field("X-Key".to_owned())
    }

    #[test]
    fn requests_are_counted_by_the_value_of_a_field_or_else_by_address() {
        let limits = limits(of_field(), false);
        let admit = |address: Option<&str>, value: Option<&'static str>| {
            let address = address.map(|text| text.parse().expect("an address"));
            let field = |name: &str| value.filter(|_| name == "X-Key").map(str::as_bytes);
            limits.admit(address, field, 0).map(|_| ()).map_err(|much| much.status)
        };
        let (one, other) = (Some("192.0.2.1"), Some("192.0.2.2"));
        assert_eq!((admit(one, Some("a")), admit(other, Some("a"))), (Ok(()), Err(429)));
        assert_eq!((admit(one, Some("b")), admit(one, Some(""))), (Ok(()), Ok(())));
        assert_eq!(
            (admit(one, None), admit(one, None), admit(other, None)),
            (Ok(()), Err(429), Ok(()))
        );
        // Clients of a Unix socket have no address.
        assert_eq!((admit(None, None), admit(None, None)), (Ok(()), Ok(())));
        assert_eq!((admit(None, Some("c")), admit(None, Some("c"))), (Ok(()), Err(429)));
    }

    #[test]
    fn what_was_counted_before_a_reload_counts() {
        let before = limits(RateKey::Address, false);
        let admit = |limits: &RouteLimits, address: &str| {
            let address = Some(address.parse().expect("an address"));
            limits.admit(address, |_| None, 0).map_err(|much| much.status)
        };
        let held = admit(&before, "192.0.2.1").expect("it is the first");
        let after = |per: RateKey| {
            let policy = RatePolicy { requests: 2, every_ns: 3600 * SECOND_NS, burst: 1 };
            let rate = Rate { per: per.clone(), policy, is_dry_run: false };
            let most = Concurrency { per, requests_max: 1 };
            RouteLimits::new("/", Some(rate), Some(most), Some(&before)).expect("there are limits")
        };
        let same = after(RateKey::Address);
        // At once, and then within the hour.
        assert_eq!(admit(&same, "192.0.2.1").map(|_| ()), Err(429));
        drop(held);
        assert_eq!(admit(&same, "192.0.2.1").map(|_| ()), Err(429));
        assert_eq!(admit(&same, "192.0.2.2").map(|_| ()), Ok(()));
        assert_eq!(admit(&after(of_field()), "192.0.2.1").map(|_| ()), Ok(()), "another key");
    }

    #[test]
    fn a_dry_run_refuses_nothing() {
        let limits = limits(RateKey::Route, true);
        let metrics = Metrics::new(None);
        limits.report_to(&metrics);
        let admit = || limits.admit(None, |_| None, 0);
        let first = admit().expect("it is the first");
        assert!(first.permit.is_some() && !first.is_over_rate);
        assert_eq!(admit().map(|_| ()).map_err(|much| much.status), Err(503), "at once");
        drop(first);
        for _ in 0..3 {
            assert!(admit().expect("it is a dry run").is_over_rate);
        }
        let text = metrics.text();
        for (labels, count) in [
            ("limit=\"rate\",action=\"refused\"", 0),
            ("limit=\"rate\",action=\"dry-run\"", 3),
            ("limit=\"concurrency\",action=\"refused\"", 1),
        ] {
            let line = format!("jissoku_route_over_limit_total{{route=\"/\",{labels}}} {count}\n");
            assert!(text.contains(&line), "{line} in {text}");
        }
    }
}
