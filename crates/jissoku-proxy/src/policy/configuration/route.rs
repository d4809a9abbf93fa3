//! `[[route]]`: which requests, and what happens with them.

use jissoku_http::connection_fields::is_reserved;
use jissoku_http::name_rule::FieldRule;
use jissoku_os::quantity;
use toml::de::DeValue;

use super::edit;
use super::gather;
use super::limits::{self, Concurrency, Rate};
use super::table::{Table, Value, is_field_name, word, wrong};
use super::upstream::{self, Upstream};
use crate::policy::fan_out::Plan;
use crate::policy::fields::{FieldRules, Side};
use crate::policy::redirect::Redirect;
use crate::policy::retry::{BudgetPolicy, Cause, HedgeAfter, RetryPolicy};
use crate::policy::routes::{Encoded, HostPattern, PathPattern, Rewrite, Rule};

/// The largest limit of bodies that can be written.
const BODY_SIZE_MAX: u64 = 1 << 40;

/// Bodies up to this size are collected, unless the file says otherwise.
pub const COLLECT_SIZE: u64 = 64 * 1024;

/// The largest size of collected bodies: each is in memory as a whole.
const COLLECT_SIZE_MAX: u64 = 64 * 1024 * 1024;

/// What the file says about one route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
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
    /// What is changed of the fields of responses; those of files are in [`RouteAction::Folder`].
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
    /// Files of a folder.
    Folder(Folder),
    /// This text.
    Fixed(String),
    /// Elsewhere.
    Redirect(Box<Redirect>),
    /// The Python application, as `MODULE:APP`.
    App(String),
    /// The handler in C of this file.
    Handler(String),
    /// Several upstreams.
    Gather(Box<Plan>),
}

/// A folder, as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    /// Absolute, or relative to the file.
    pub path: String,
    /// Fields of its responses.
    pub fields: Vec<FieldRule>,
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

/// The keys that say what answers a route's requests.
const ACTIONS: [&str; 7] = ["to", "folder", "fixed", "redirect", "app", "handler", "gather"];

const ONE_ACTION: &str = "a route has one of to, folder, fixed, redirect, app, handler and gather";

/// Keys that have an effect for some actions only, and these.
const EFFECTS: [(&str, &[&str]); 12] = [
    ("strip-prefix", &["to", "folder"]),
    ("add-prefix", &["to"]),
    ("collect", &["to"]),
    ("on-client-end", &["to"]),
    ("request-field", &["to"]),
    ("response-field", &["to", "folder", "redirect", "fixed", "gather"]),
    ("redirect-status", &["redirect"]),
    ("deadline-field", &["to", "gather"]),
    ("head-time", &["to", "gather"]),
    ("try-time", &["to", "gather"]),
    ("hedge", &["to", "gather"]),
    ("retry", &["to", "gather"]),
];

/// What it returns is of no use if something is refused.
pub(super) fn read(mut table: Table<'_, '_>, upstreams: &[Upstream]) -> (Route, Rule) {
    table.require("path", "a route has a path, such as path = \"/api/**\"");
    let path = table.text("path", |text| Ok((text.to_owned(), parsed(text, PathPattern::parse)?)));
    let (path, pattern) = path.unzip();
    let rule = rule(&mut table, pattern.as_ref());
    let segments: Option<Vec<&str>> = pattern.as_ref().map(|path| path.variables().collect());
    let segments = segments.as_deref();
    let given: Vec<&str> = ACTIONS.into_iter().filter(|&key| table.value(key).is_some()).collect();
    match given[..] {
        [_] => {}
        [] => table.require("to", ONE_ACTION),
        _ => table.refuse_whole(ONE_ACTION),
    }
    let action = action(&mut table, (pattern.as_ref(), segments), upstreams);
    let deadline_field = table.text("deadline-field", deadline_field);
    let taken = taken_fields(deadline_field.as_deref(), &rule);
    let own_fields: &[_] = match action {
        Some(RouteAction::Redirect(_)) => &Redirect::OWN_FIELDS.map(|name| (name, "redirect")),
        _ => &[],
    };
    let to = match action {
        Some(RouteAction::Forward(index)) => upstreams.get(index),
        _ => None,
    };
    let response_fields = match action {
        // Its rules are of another kind.
        Some(RouteAction::Folder(_)) => FieldRules::default(),
        _ => edit::fields(&mut table, ("response-field", Side::Response), segments, own_fields),
    };
    let try_ns = table.duration("try-time");
    let route = Route {
        line: table.line(),
        path: path.unwrap_or_default(),
        action: action.unwrap_or(RouteAction::Forward(0)),
        head_ns: table.duration("head-time"),
        try_ns,
        retry: retry(&mut table, try_ns, to),
        hedge: table.table("hedge").map(hedge),
        body_size_max: table.size_within("body-size-max", 0..=BODY_SIZE_MAX),
        collect_size: table.size_within("collect", 0..=COLLECT_SIZE_MAX).unwrap_or(COLLECT_SIZE),
        on_client_end: table.word("on-client-end", &CLIENT_ENDS).unwrap_or_default(),
        request_fields: edit::fields(
            &mut table,
            ("request-field", Side::Request),
            segments,
            &taken,
        ),
        response_fields,
        deadline_field,
        rate: table.table("rate").map(limits::rate),
        concurrency: table.table("concurrency").map(limits::concurrency),
    };
    if let [action] = given[..] {
        for (key, actions) in EFFECTS {
            let why = format!("{key} is for routes with {}", listed(actions));
            table.only(key, actions.contains(&action), &why);
        }
    }
    table.finish();
    (route, rule)
}

/// Which requests the route takes. `path` is its path, unless it was refused.
fn rule(table: &mut Table<'_, '_>, path: Option<&PathPattern>) -> Rule {
    let mut rule = Rule::new(path.cloned().unwrap_or_else(PathPattern::all));
    rule.host = table.text("host", |text| parsed(text, HostPattern::parse));
    if let Some(methods) = table.texts("methods", |name| Ok(name.to_owned()))
        && let Err(why) = rule.set_methods(methods)
    {
        table.only("methods", false, &why);
    }
    rule.encoded = table.word("encoded", &ENCODED).unwrap_or_default();
    rule.is_secure = table.word("scheme", &SCHEMES);
    rule.rewrite = edit::rewrite(table, path);
    rule
}

/// Fields that have a meaning besides those that are reserved.
const TAKEN_FIELDS: [&str; 4] = ["authorization", "content-type", "cookie", "max-forwards"];

/// Fields of requests that other keys of the route set, and these keys.
fn taken_fields<'a>(deadline_field: Option<&'a str>, rule: &Rule) -> Vec<(&'a str, &'static str)> {
    let cuts = rule.rewrite.as_ref().is_some_and(Rewrite::cuts);
    let prefix = cuts.then_some(("X-Forwarded-Prefix", "strip-prefix"));
    deadline_field.map(|name| (name, "deadline-field")).into_iter().chain(prefix).collect()
}

fn deadline_field(name: &str) -> Result<String, String> {
    let is_taken = TAKEN_FIELDS.iter().any(|taken| name.eq_ignore_ascii_case(taken));
    if is_taken || is_reserved(name) || !is_field_name(name) {
        return Err(format!(
            "deadline-field is a field of its own, as X-Deadline-Ms, not {name:?}"
        ));
    }
    Ok(name.to_owned())
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

fn parsed<T>(text: &str, parse: impl Fn(&str) -> Result<T, String>) -> Result<T, String> {
    parse(text).map_err(|why| format!("{text:?}: {why}"))
}

/// What answers, unless it is refused.
fn action(
    table: &mut Table<'_, '_>,
    (path, segments): (Option<&PathPattern>, Option<&[&str]>),
    upstreams: &[Upstream],
) -> Option<RouteAction> {
    let to = table.text("to", |name| gather::index_of(name, upstreams));
    let folder = table.string("folder");
    let folder = folder.filter(|_| to.is_none()).map(|path| {
        let fields = table.texts("response-field", |text| parsed(text, FieldRule::parse));
        Folder { path, fields: fields.unwrap_or_default() }
    });
    let fixed = table.string("fixed");
    let redirect = edit::redirect(table, segments);
    let app = table.text("app", |name| {
        let why = || format!("app is MODULE:APP, not {name:?}");
        name.contains(':').then(|| name.to_owned()).ok_or_else(why)
    });
    let handler = table.string("handler");
    let parts = table.table("gather");
    let plan = parts.map(|parts| gather::read(table, &parts, path, upstreams));
    to.map(RouteAction::Forward)
        .or(folder.map(RouteAction::Folder))
        .or(fixed.map(RouteAction::Fixed))
        .or(redirect.map(|redirect| RouteAction::Redirect(Box::new(redirect))))
        .or(app.map(RouteAction::App))
        .or(handler.map(RouteAction::Handler))
        .or(plan.map(|plan| RouteAction::Gather(Box::new(plan))))
}

/// As `to, folder or gather`.
fn listed(words: &[&str]) -> String {
    match words {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        _ => words.concat(),
    }
}

const CAUSES: [(&str, Cause); 4] = [
    ("connect", Cause::Connect),
    ("reset", Cause::Reset),
    ("timeout", Cause::Timeout),
    ("status", Cause::Status),
];

/// `to` is the upstream, if there is one alone.
fn retry(route: &mut Table<'_, '_>, try_ns: Option<u64>, to: Option<&Upstream>) -> RetryPolicy {
    let defaults = RetryPolicy { on_timeout: try_ns.is_some(), ..RetryPolicy::default() };
    let Some(mut table) = route.table("retry") else { return defaults };
    let has_try_time = try_ns.is_some() || route.has_refused("try-time");
    let without_statuses = to.filter(|to| {
        to.policy.retry_statuses.is_empty() && !table.file.has_refused(&upstream::path_of(&to.name))
    });
    let tries_max = table.integer("tries", 1..=10, defaults.tries_max);
    let causes = table.texts("on", |cause| match (word("on", cause, &CAUSES)?, without_statuses) {
        (Cause::Timeout, _) if !has_try_time => {
            Err("to retry on \"timeout\", the route needs a try-time".to_owned())
        }
        (Cause::Status, Some(Upstream { name, .. })) => {
            Err(format!("to retry on \"status\", {name:?} needs retry-statuses"))
        }
        (cause, _) => Ok(cause),
    });
    table.finish();
    let Some(causes) = causes else { return RetryPolicy { tries_max, ..defaults } };
    RetryPolicy {
        tries_max,
        on_connect: causes.contains(&Cause::Connect),
        on_reset: causes.contains(&Cause::Reset),
        on_timeout: causes.contains(&Cause::Timeout),
        on_status: causes.contains(&Cause::Status),
    }
}

fn hedge(mut table: Table<'_, '_>) -> Hedge {
    let after = table.text("after", hedge_after).unwrap_or(HedgeAfter::Percentile(95));
    let percent = table.take("budget", hedge_budget).unwrap_or(5);
    table.finish();
    Hedge { after, budget: BudgetPolicy { percent, per_second_min: 0 } }
}

fn hedge_budget(value: &Value<'_>) -> Result<u32, String> {
    let share = match value.get_ref() {
        DeValue::Float(digits) => digits.as_str().parse::<f64>().ok(),
        other => return Err(wrong("budget", "a share, such as 0.05", other)),
    };
    // Whole percents, compared as such: there are a hundred.
    let found = (1..=100_u32).find(|percent| {
        share.is_some_and(|share| (share * 100.0 - f64::from(*percent)).abs() < 0.5)
    });
    found.ok_or_else(|| "budget is a share of 0.01 to 1.0".to_owned())
}

fn hedge_after(text: &str) -> Result<HedgeAfter, String> {
    let percentile = text.strip_prefix('p').and_then(|digits| digits.parse::<u8>().ok());
    let percentile = percentile.filter(|percentile| (50..=99).contains(percentile));
    let time = || quantity::duration_ns(text).filter(|ns| *ns > 0).map(HedgeAfter::Time);
    percentile
        .map(HedgeAfter::Percentile)
        .or_else(time)
        .ok_or_else(|| format!("after is a percentile, p50 to p99, or a time, not {text:?}"))
}
