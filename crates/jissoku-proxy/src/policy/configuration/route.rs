//! `[[route]]`: which requests, and what happens with them.

use std::ops::Range;

use jissoku_http::connection_fields::is_reserved;
use jissoku_os::quantity;
use toml::de::DeValue;

use super::edit;
use super::gather;
use super::limits::{self, Concurrency, Rate};
use super::table::{Placed, Refusal, Table, is_field_name, refuse, word, wrong};
use super::upstream::Upstream;
use crate::policy::fan_out::Plan;
use crate::policy::fields::{FieldRules, Side};
use crate::policy::redirect::Redirect;
use crate::policy::retry::{BudgetPolicy, HedgeAfter, RetryPolicy};
use crate::policy::routes::{Encoded, HostPattern, PathPattern, PatternError, Rewrite, Rule};

/// The largest limit of bodies that can be written.
const BODY_SIZE_MAX: u64 = 1 << 40;

/// Bodies up to this size are collected, unless the file says otherwise.
pub const COLLECT_SIZE: u64 = 64 * 1024;

/// The largest size of collected bodies: each is in memory as a whole.
const COLLECT_SIZE_MAX: u64 = 64 * 1024 * 1024;

/// What the file says about one route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Its place in the file, in bytes.
    pub at: Range<usize>,
    /// Its line, counted from 1.
    pub line: usize,
    /// The path as it was written.
    pub path: String,
    /// What answers.
    pub action: RouteAction,
    /// The time for the head of a response; `None`: that of the server.
    pub head_ns: Option<u64>,
    /// The time for each try; retries after it.
    pub try_ns: Option<u64>,
    /// When a request is repeated.
    pub retry: RetryPolicy,
    /// Whether a second copy of a request is sent if its response is late.
    pub hedge: Option<Hedge>,
    /// The limit of the bodies of requests; `None`: that of the server.
    pub body_size_max: Option<u64>,
    /// Up to this size, the body of a request is collected before a server is chosen.
    pub collect_size: u64,
    /// What becomes of a request whose client has left.
    pub on_client_end: ClientEnd,
    /// The field in which servers get the time that is left.
    pub deadline_field: Option<String>,
    /// What is changed of the fields of requests.
    pub request_fields: FieldRules,
    /// What is changed of the fields of responses.
    pub response_fields: FieldRules,
    /// How often a client may ask.
    pub rate: Option<Rate>,
    /// How much a client may ask at once.
    pub concurrency: Option<Concurrency>,
}

/// What answers a route's requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteAction {
    /// The upstream of this index.
    Forward(usize),
    /// Files below this folder.
    Folder(String),
    /// This text.
    Fixed(String),
    /// Elsewhere.
    Redirect(Box<Redirect>),
    /// The Python application, as `MODULE:APP`.
    App(String),
    /// Several upstreams.
    Gather(Box<Plan>),
}

/// What becomes of a request whose client shuts down its side, or is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClientEnd {
    /// A client that shuts down its side gets its response, unless that has no known end and pauses.
    /// The request of one that is gone ends.
    #[default]
    Deliver,
    /// A client that shuts down its side gets its response. That to one that is gone is received all
    /// the same, so that its server is not interrupted.
    Finish,
    /// The request ends in both cases.
    Abort,
}

/// Second copies of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hedge {
    /// When one is sent.
    pub after: HedgeAfter,
    /// How many, as a share of the requests.
    pub budget: BudgetPolicy,
}

pub(super) fn read(
    mut table: Table<'_, '_>,
    upstreams: &[Upstream],
) -> Result<(Route, Rule), Refusal> {
    let at = table.at.clone();
    let path = match table.string("path")? {
        Some(path) => path,
        // The rest of the table is read.
        None if table.has_refused("path") => ("/**".to_owned(), at.clone()),
        None => return Err(refuse(at, "a route has a path, such as path = \"/api/**\"")),
    };
    let pattern = parsed(&path, PathPattern::parse)?;
    let mut rule = Rule::new(pattern.clone());
    if let Some(host) = table.string("host")? {
        rule = rule.with_host(parsed(&host, HostPattern::parse)?);
    }
    if let Some(methods) = table.strings("methods")? {
        let place = methods.first().map_or_else(|| at.clone(), |(_, place)| place.clone());
        let names = methods.into_iter().map(|(name, _)| name).collect();
        rule = rule.with_methods(names).map_err(|error| refuse(place, &error.to_string()))?;
    }
    rule = rule.with_encoded(table.word("encoded", &ENCODED)?.unwrap_or_default());
    let try_ns = table.duration("try-time")?;
    let action = action(&mut table, &pattern, upstreams)?;
    rule = rule.with_scheme(table.word("scheme", &SCHEMES)?);
    let forwards = matches!(action, RouteAction::Forward(_));
    let kind = (forwards, matches!(action, RouteAction::Folder(_)));
    rule = rule.with_rewrite(edit::rewrite(&mut table, &pattern, kind)?);
    let deadline_field = deadline_field(&mut table)?;
    let taken = taken_fields(deadline_field.as_deref(), &rule);
    let fields = |table: &mut Table<'_, '_>, key, side, taken| {
        edit::fields(table, (key, side), &pattern, taken)
    };
    let own_fields: &[_] = match action {
        RouteAction::Redirect(_) => &Redirect::OWN_FIELDS.map(|name| (name, "redirect")),
        _ => &[],
    };
    let request_fields = fields(&mut table, "request-field", Side::Request, &taken)?;
    let response_fields = fields(&mut table, "response-field", Side::Response, own_fields)?;
    let to = match action {
        RouteAction::Forward(index) => upstreams.get(index),
        _ => None,
    };
    let retry = retry(table.table("retry")?, try_ns, to)?;
    let route = Route {
        at,
        line: 0,
        path: path.0,
        action,
        head_ns: table.duration("head-time")?,
        try_ns,
        retry,
        hedge: table.table("hedge")?.map(hedge).transpose()?,
        body_size_max: table.size_within("body-size-max", 0..=BODY_SIZE_MAX)?,
        collect_size: table.size_within("collect", 0..=COLLECT_SIZE_MAX)?.unwrap_or(COLLECT_SIZE),
        on_client_end: table.word("on-client-end", &CLIENT_ENDS)?.unwrap_or_default(),
        deadline_field,
        request_fields,
        response_fields,
        rate: table.table("rate")?.map(limits::rate).transpose()?,
        concurrency: table.table("concurrency")?.map(limits::concurrency).transpose()?,
    };
    for key in ["collect", "on-client-end", "request-field"] {
        only(&mut table, key, forwards, "routes with to")?;
    }
    let has_own_fields = matches!(route.action, RouteAction::Folder(_) | RouteAction::App(_));
    only(
        &mut table,
        "response-field",
        !has_own_fields,
        "routes with to, redirect, fixed or gather",
    )?;
    let redirects = matches!(route.action, RouteAction::Redirect(_));
    only(&mut table, "redirect-status", redirects, "routes with redirect")?;
    let asks = forwards || matches!(route.action, RouteAction::Gather(_));
    for key in ["deadline-field", "head-time", "try-time", "hedge", "retry"] {
        only(&mut table, key, asks, "routes with to or gather")?;
    }
    table.finish()?;
    Ok((route, rule))
}

/// Fields that have a meaning besides those that are reserved.
const TAKEN_FIELDS: [&str; 4] = ["authorization", "content-type", "cookie", "max-forwards"];

/// Fields of requests that other keys of the route set, and these keys.
fn taken_fields<'a>(deadline_field: Option<&'a str>, rule: &Rule) -> Vec<(&'a str, &'static str)> {
    let cuts = rule.rewrite().is_some_and(Rewrite::cuts);
    let prefix = cuts.then_some(("X-Forwarded-Prefix", "strip-prefix"));
    deadline_field.map(|name| (name, "deadline-field")).into_iter().chain(prefix).collect()
}

fn deadline_field(table: &mut Table<'_, '_>) -> Result<Option<String>, Refusal> {
    let Some((name, at)) = table.string("deadline-field")? else { return Ok(None) };
    let is_taken = TAKEN_FIELDS.iter().any(|taken| name.eq_ignore_ascii_case(taken));
    if is_taken || is_reserved(&name) || !is_field_name(&name) {
        let why = format!("deadline-field is a field of its own, as X-Deadline-Ms, not {name:?}");
        return Err(refuse(at, &why));
    }
    Ok(Some(name))
}

const ENCODED: [(&str, Encoded); 4] = [
    ("safe", Encoded::Safe),
    ("pass", Encoded::Pass),
    ("refuse", Encoded::Refuse),
    ("decode", Encoded::Decode),
];

const SCHEMES: [(&str, bool); 2] = [("http", false), ("https", true)];

const CLIENT_ENDS: [(&str, ClientEnd); 2] =
    [("finish", ClientEnd::Finish), ("abort", ClientEnd::Abort)];

/// Refuses a key that means nothing for the route.
fn only(
    table: &mut Table<'_, '_>,
    key: &'static str,
    has_meaning: bool,
    routes: &str,
) -> Result<(), Refusal> {
    match table.value(key) {
        Some(value) if !has_meaning => Err(refuse(value.span(), &format!("{key} is for {routes}"))),
        _ => Ok(()),
    }
}

fn parsed<T>(
    (text, at): &Placed<String>,
    parse: impl Fn(&str) -> Result<T, PatternError>,
) -> Result<T, Refusal> {
    parse(text).map_err(|error| refuse(at.clone(), &format!("{text:?}: {error}")))
}

fn action(
    table: &mut Table<'_, '_>,
    path: &PathPattern,
    upstreams: &[Upstream],
) -> Result<RouteAction, Refusal> {
    let mut found = Vec::new();
    if let Some((name, at)) = table.string("to")? {
        let index = upstreams.iter().position(|upstream| upstream.name == name);
        let index = index.ok_or_else(|| gather::unknown_upstream(&name, upstreams, &at))?;
        found.push(RouteAction::Forward(index));
    }
    found.extend(table.string("folder")?.map(|(folder, _)| RouteAction::Folder(folder)));
    found.extend(table.string("fixed")?.map(|(text, _)| RouteAction::Fixed(text)));
    if let Some(redirect) = edit::redirect(table, path)? {
        found.push(RouteAction::Redirect(Box::new(redirect)));
    }
    if let Some((name, at)) = table.string("app")? {
        if !name.contains(':') {
            return Err(refuse(at, &format!("app is MODULE:APP, not {name:?}")));
        }
        found.push(RouteAction::App(name));
    }
    if let Some(parts) = table.table("gather")? {
        let plan = gather::read(table, &parts, path, upstreams)?;
        found.push(RouteAction::Gather(Box::new(plan)));
    }
    match (found.pop(), found.is_empty()) {
        (Some(action), true) => Ok(action),
        // The rest of the table is read.
        (None, _) if table.has_refused("to") => Ok(RouteAction::Forward(0)),
        _ => Err(refuse(
            table.at.clone(),
            "a route has one of to, folder, fixed, redirect, app and gather",
        )),
    }
}

/// `to` is the upstream, if there is one alone.
fn retry(
    table: Option<Table<'_, '_>>,
    try_ns: Option<u64>,
    to: Option<&Upstream>,
) -> Result<RetryPolicy, Refusal> {
    let defaults = RetryPolicy { on_timeout: try_ns.is_some(), ..RetryPolicy::default() };
    let Some(mut table) = table else { return Ok(defaults) };
    let mut policy =
        RetryPolicy { tries_max: table.integer("tries", 1..=10, defaults.tries_max)?, ..defaults };
    if let Some(causes) = table.strings("on")? {
        (policy.on_connect, policy.on_reset) = (false, false);
        (policy.on_timeout, policy.on_status) = (false, false);
        for (cause, at) in causes {
            let names = [("connect", 0), ("reset", 1), ("timeout", 2), ("status", 3)];
            match word("on", &cause, &names).map_err(|why| refuse(at.clone(), &why))? {
                0 => policy.on_connect = true,
                1 => policy.on_reset = true,
                3 => {
                    if let Some(upstream) = to.filter(|to| to.retry_statuses.is_empty()) {
                        let name = &upstream.name;
                        let why = format!("to retry on \"status\", {name:?} needs retry-statuses");
                        return Err(refuse(at, &why));
                    }
                    policy.on_status = true;
                }
                _ if try_ns.is_none() => {
                    return Err(refuse(at, "to retry on \"timeout\", the route needs a try-time"));
                }
                _ => policy.on_timeout = true,
            }
        }
    }
    table.finish()?;
    Ok(policy)
}

fn hedge(mut table: Table<'_, '_>) -> Result<Hedge, Refusal> {
    let after = table.string("after")?.map(|text| hedge_after(&text)).transpose()?;
    let mut percent = 5;
    if let Some(value) = table.value("budget") {
        let share = match value.get_ref() {
            DeValue::Float(digits) => digits.as_str().parse::<f64>().ok(),
            other => return Err(wrong("budget", "a share, such as 0.05", other, value)),
        };
        // Whole percents, compared as such: there are a hundred.
        let found = (1..=100_u32).find(|percent| {
            share.is_some_and(|share| (share * 100.0 - f64::from(*percent)).abs() < 0.5)
        });
        percent = found.ok_or_else(|| refuse(value.span(), "budget is a share of 0.01 to 1.0"))?;
    }
    table.finish()?;
    let after = after.unwrap_or(HedgeAfter::Percentile(95));
    Ok(Hedge { after, budget: BudgetPolicy { percent, per_second_min: 0 } })
}

fn hedge_after((text, at): &Placed<String>) -> Result<HedgeAfter, Refusal> {
    let percentile = text.strip_prefix('p').and_then(|digits| digits.parse::<u8>().ok());
    let percentile = percentile.filter(|percentile| (50..=99).contains(percentile));
    let time = || quantity::duration_ns(text).filter(|ns| *ns > 0).map(HedgeAfter::Time);
    percentile.map(HedgeAfter::Percentile).or_else(time).ok_or_else(|| {
        let why = format!("after is a percentile, p50 to p99, or a time, not {text:?}");
        refuse(at.clone(), &why)
    })
}
