//! `rate` and `concurrency` of a route.

use super::table::{Table, field_of};
use crate::policy::rate::RatePolicy;

const SECOND_NS: u64 = 1_000_000_000;

/// A limit on requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rate {
    /// Which requests are counted together.
    pub per: RateKey,
    /// How many.
    pub policy: RatePolicy,
    /// Count and report only.
    pub is_dry_run: bool,
}

/// A limit on requests at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Concurrency {
    /// Which requests are counted together.
    pub per: RateKey,
    /// How many.
    pub requests_max: u16,
}

/// Which requests are counted together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RateKey {
    /// Requests from the same address.
    Address,
    /// All requests of the route.
    Route,
    /// Requests with the same value of this field; without the field, from the same address.
    Field(String),
}

pub(super) fn rate(mut table: Table<'_, '_>) -> Rate {
    let why = "rate wants a number of requests: { requests = 100, every = \"1s\" }";
    table.require("requests", why);
    let requests = table.integer("requests", 1..=1_000_000, 0);
    let rate = Rate {
        per: key(&mut table),
        policy: RatePolicy {
            requests,
            every_ns: table.duration("every").unwrap_or(SECOND_NS),
            burst: table.integer("burst", 1..=1_000_000, requests),
        },
        is_dry_run: table.switch("dry-run").unwrap_or_default(),
    };
    table.finish();
    rate
}

pub(super) fn concurrency(mut table: Table<'_, '_>) -> Concurrency {
    table.require("requests", "concurrency wants a number of requests: { requests = 10 }");
    let per = key(&mut table);
    let requests_max = table.integer("requests", 1..=i64::from(u16::MAX), 0);
    table.finish();
    Concurrency { per, requests_max }
}

fn key(table: &mut Table<'_, '_>) -> RateKey {
    let key = table.text("per", |text| match text {
        "address" => Ok(RateKey::Address),
        "route" => Ok(RateKey::Route),
        _ => field_of(text).map(RateKey::Field).ok_or_else(|| {
            format!("per is \"address\", \"route\" or \"field:NAME\", not {text:?}")
        }),
    });
    key.unwrap_or(RateKey::Address)
}
