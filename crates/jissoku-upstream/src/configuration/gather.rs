//! `gather`, `broadcast` and `batch` of a route, and the keys beside them.

use std::ops::Range;

use toml::de::DeValue;

use super::problem::{Refusal, refuse};
use super::table::{Table, integer, is_field_name, string};
use super::upstream::Upstream;
use crate::fan_out::{
    BATCH_PARTS_MAX, BatchPolicy, Form, PARTS_MAX, PartPlan, PartTemplate, Plan, Quorum, Shape,
    is_reserved,
};
use crate::routes::PathPattern;

/// Methods that parts of a batch can have.
const METHODS: [&str; 7] = ["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"];

/// The same request to several servers of an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broadcast {
    /// The index of the upstream.
    pub upstream: usize,
    /// How many servers, those with the fewest requests in flight; `None`: all.
    pub servers: Option<usize>,
    /// Without parts: these are the servers at the time of a request.
    pub plan: Plan,
}

/// Requests that a client sends as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// What it may ask for.
    pub policy: BatchPolicy,
    /// Without parts: these are the client's.
    pub plan: Plan,
}

/// Reads the parts from their table, and the rest from the route's.
pub(super) fn read(
    route: &mut Table<'_, '_>,
    parts: &Table<'_, '_>,
    path: &PathPattern,
    upstreams: &[Upstream],
) -> Result<Plan, Refusal> {
    let mut plan = Plan::new(Vec::new());
    for ((id, _), value) in parts.in_order() {
        let (text, at) = string(&id, value)?;
        let template = PartTemplate::parse(&text, path)
            .map_err(|error| refuse(at.clone(), &format!("{text:?}: {error}")))?;
        if !upstreams.iter().any(|upstream| upstream.name == template.upstream()) {
            return Err(unknown_upstream(template.upstream(), upstreams, &at));
        }
        plan.parts.push(PartPlan { id, template, is_required: false });
    }
    for (id, at) in route.strings("required")?.unwrap_or_default() {
        let part = plan.parts.iter_mut().find(|part| part.id == id);
        part.ok_or_else(|| refuse(at, &format!("gather has no part {id:?}")))?.is_required = true;
    }
    plan.is_single_flight = route.flag("single-flight")?;
    plan.fields = fields(route)?;
    settings(route, &mut plan)?;
    plan.check().map_err(|error| refuse(parts.at.clone(), &error.to_string()))?;
    Ok(plan)
}

/// Reads `broadcast`, if there is one.
pub(super) fn broadcast(
    route: &mut Table<'_, '_>,
    upstreams: &[Upstream],
) -> Result<Option<Broadcast>, Refusal> {
    let Some((name, at)) = route.string("broadcast")? else { return Ok(None) };
    let upstream = upstreams.iter().position(|upstream| upstream.name == name);
    let upstream = upstream.ok_or_else(|| unknown_upstream(&name, upstreams, &at))?;
    let most = i64::try_from(PARTS_MAX).unwrap_or(i64::MAX);
    let servers = route.value("servers");
    let servers = servers.map(|value| integer("servers", value, 1..=most)).transpose()?;
    let mut plan = Plan { parallel: PARTS_MAX, ..Plan::new(Vec::new()) };
    settings(route, &mut plan)?;
    plan.check_times().map_err(|error| refuse(at, &error.to_string()))?;
    Ok(Some(Broadcast { upstream, servers, plan }))
}

/// Reads `batch`, if there is one.
pub(super) fn batch(route: &mut Table<'_, '_>) -> Result<Option<Batch>, Refusal> {
    let Some(mut table) = route.table("batch")? else { return Ok(None) };
    let mut policy = BatchPolicy::default();
    let most = i64::try_from(BATCH_PARTS_MAX).unwrap_or(i64::MAX);
    policy.parts_max = table.integer("parts", 1..=most, policy.parts_max)?;
    if let Some(methods) = table.strings("methods")? {
        for (method, at) in &methods {
            if !METHODS.contains(&method.as_str()) {
                let why = format!("a part has a method of {}, not {method:?}", METHODS.join(", "));
                return Err(refuse(at.clone(), &why));
            }
        }
        policy.methods = methods.into_iter().map(|(method, _)| method).collect();
    }
    let at = table.at.clone();
    table.finish()?;
    let mut plan = Plan::new(Vec::new());
    plan.fields = fields(route)?;
    settings(route, &mut plan)?;
    plan.check_times().map_err(|error| refuse(at, &error.to_string()))?;
    Ok(Some(Batch { policy, plan }))
}

/// Reads the names of the fields that parts receive.
fn fields(route: &mut Table<'_, '_>) -> Result<Option<Vec<String>>, Refusal> {
    let Some(fields) = route.strings("fields")? else { return Ok(None) };
    for (name, at) in &fields {
        if !is_field_name(name) || is_reserved(&name.to_ascii_lowercase()) {
            let why =
                format!("fields are names such as \"X-User\" that parts can have, not {name:?}");
            return Err(refuse(at.clone(), &why));
        }
    }
    Ok(Some(fields.into_iter().map(|(name, _)| name).collect()))
}

/// Reads what all of them have.
fn settings(route: &mut Table<'_, '_>, plan: &mut Plan) -> Result<(), Refusal> {
    plan.part_size_max = route.size("part-size-max")?.unwrap_or(plan.part_size_max);
    plan.answer_size_max = route.size("answer-size-max")?.unwrap_or(plan.answer_size_max);
    plan.deadline_ns = route.duration("deadline")?.unwrap_or(plan.deadline_ns);
    plan.soft_deadline_ns = route.duration("soft-deadline")?;
    plan.parallel = route.integer("parallel", 1..=64, plan.parallel)?;
    let partial = [("accept", false), ("refuse", true)];
    plan.refuses_partial = route.word("partial", &partial)?.unwrap_or(false);
    let forms = [
        ("json", Form::Json),
        ("multipart", Form::Multipart),
        ("ndjson", Form::Lines),
        ("event-stream", Form::Events),
    ];
    plan.form = route.word("form", &forms)?.unwrap_or_default();
    let shapes = [("list", Shape::List), ("object", Shape::Object), ("merge", Shape::Merge)];
    plan.shape = route.word("shape", &shapes)?.unwrap_or_default();
    if let Some(value) = route.value("quorum") {
        plan.quorum = quorum(value)?;
    }
    Ok(())
}

fn quorum(value: &super::table::Value<'_>) -> Result<Quorum, Refusal> {
    let DeValue::String(text) = value.get_ref() else {
        return integer("quorum", value, 0..=64).map(Quorum::Count);
    };
    let percent = text.strip_suffix('%').and_then(|digits| digits.parse::<u8>().ok());
    percent.filter(|percent| *percent <= 100).map(Quorum::Percent).ok_or_else(|| {
        refuse(value.span(), &format!("quorum is a number or a share as \"95%\", not {text:?}"))
    })
}

pub(super) fn unknown_upstream(name: &str, upstreams: &[Upstream], at: &Range<usize>) -> Refusal {
    let names: Vec<&str> = upstreams.iter().map(|upstream| upstream.name.as_str()).collect();
    let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    refuse(at.clone(), &format!("there is no upstream {name:?}; there are: {known}"))
}
