//! Reads `gather` of a route, and the keys of the same route that only `gather` has.

use std::ops::Range;

use jissoku_http::connection_fields::is_reserved;
use toml::de::DeValue;

use super::table::{Refusal, Table, integer, is_field_name, refuse, string};
use super::upstream::Upstream;
use crate::policy::fan_out::{Form, PartPlan, PartTemplate, Plan, Quorum, Shape};
use crate::policy::routes::PathPattern;

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
    plan.fields = fields(route)?;
    settings(route, &mut plan)?;
    plan.check().map_err(|error| refuse(parts.at.clone(), &error.to_string()))?;
    Ok(plan)
}

/// Reads the names of the fields that parts receive.
fn fields(route: &mut Table<'_, '_>) -> Result<Option<Vec<String>>, Refusal> {
    let Some(fields) = route.strings("fields")? else { return Ok(None) };
    for (name, at) in &fields {
        if !is_field_name(name) || is_unfit(&name.to_ascii_lowercase()) {
            let why =
                format!("fields are names such as \"X-User\" that parts can have, not {name:?}");
            return Err(refuse(at.clone(), &why));
        }
    }
    Ok(Some(fields.into_iter().map(|(name, _)| name).collect()))
}

/// Reserved fields, and those for which a part would not be a whole response (RFC 9110 sections 13.1
/// and 14.2).
fn is_unfit(name: &str) -> bool {
    let is_group = ["if-", "proxy", "x-forwarded-"].iter().any(|prefix| name.starts_with(prefix));
    is_group || name == "range" || is_reserved(name)
}

/// Reads the keys that do not depend on the parts.
fn settings(route: &mut Table<'_, '_>, plan: &mut Plan) -> Result<(), Refusal> {
    plan.part_size_max = route.size("part-size-max")?.unwrap_or(plan.part_size_max);
    plan.answer_size_max = route.size("answer-size-max")?.unwrap_or(plan.answer_size_max);
    plan.deadline_ns = route.duration("deadline")?.unwrap_or(plan.deadline_ns);
    plan.soft_deadline_ns = route.duration("soft-deadline")?;
    plan.parallel = route.integer("parallel", 1..=64, plan.parallel)?;
    let partial = [("accept", false), ("refuse", true)];
    plan.refuses_partial = route.word("partial", &partial)?.unwrap_or(false);
    let forms = [("json", Form::Json), ("ndjson", Form::Lines)];
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
