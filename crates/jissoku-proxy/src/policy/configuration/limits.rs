//! `rate` and `concurrency` of a route.

use super::table::{Refusal, Table, is_field_name, refuse};
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

pub(super) fn rate(mut table: Table<'_, '_>) -> Result<Rate, Refusal> {
    let at = table.at.clone();
    let per = key(&mut table)?;
    let requests = table.integer("requests", 1..=1_000_000, 0)?;
    let policy = RatePolicy {
        requests,
        every_ns: table.duration("every")?.unwrap_or(SECOND_NS),
        burst: table.integer("burst", 1..=1_000_000, requests)?,
    };
    let is_dry_run = table.flag("dry-run")?;
    table.finish()?;
    if requests == 0 {
        return Err(refuse(
            at,
            "rate wants a number of requests: { requests = 100, every = \"1s\" }",
        ));
    }
    Ok(Rate { per, policy, is_dry_run })
}

pub(super) fn concurrency(mut table: Table<'_, '_>) -> Result<Concurrency, Refusal> {
    let at = table.at.clone();
    let per = key(&mut table)?;
    let requests_max = table.integer("requests", 1..=i64::from(u16::MAX), 0)?;
    table.finish()?;
    if requests_max == 0 {
        return Err(refuse(at, "concurrency wants a number of requests: { requests = 10 }"));
    }
    Ok(Concurrency { per, requests_max })
}

fn key(table: &mut Table<'_, '_>) -> Result<RateKey, Refusal> {
    let Some((text, at)) = table.string("per")? else { return Ok(RateKey::Address) };
    match (text.as_str(), text.strip_prefix("field:")) {
        ("address", _) => Ok(RateKey::Address),
        ("route", _) => Ok(RateKey::Route),
        (_, Some(name)) if is_field_name(name) => Ok(RateKey::Field(name.to_owned())),
        _ => {
            let why = format!("per is \"address\", \"route\" or \"field:NAME\", not {text:?}");
            Err(refuse(at, &why))
        }
    }
}
