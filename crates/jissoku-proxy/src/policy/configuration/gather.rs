//! Reads `gather` of a route, and the keys of the same route that only `gather` has.

use jissoku_http::connection_fields::is_reserved;
use toml::de::DeValue;

use super::table::{Table, Value, integer, is_field_name, text_of};
use super::upstream::Upstream;
use crate::policy::fan_out::{Form, PARTS_MAX, PartPlan, PartTemplate, Plan, Quorum, Shape};
use crate::policy::routes::PathPattern;

/// Reads the parts from their table, and the rest from the route's. `path` is its path, unless it was
/// refused.
pub(super) fn read(
    route: &mut Table<'_, '_>,
    table: &Table<'_, '_>,
    path: Option<&PathPattern>,
    upstreams: &[Upstream],
) -> Plan {
    let parts = table.in_order();
    let mut plan = Plan::new(Vec::new());
    for (id, value) in &parts {
        let template = table.checked(id, value, |value| {
            let text = text_of(id, "a string", value)?;
            path.map(|path| template(text, path, upstreams)).transpose()
        });
        let part = |template| PartPlan { id: (*id).to_owned(), template, is_required: false };
        plan.parts.extend(template.flatten().map(part));
    }
    let required = route.texts("required", |id| {
        let is_part = parts.iter().any(|(known, _)| *known == id);
        is_part.then(|| id.to_owned()).ok_or_else(|| format!("gather has no part {id:?}"))
    });
    for part in &mut plan.parts {
        part.is_required = required.as_ref().is_some_and(|ids| ids.contains(&part.id));
    }
    plan.fields = route.texts("fields", field);
    settings(route, &mut plan);
    let count = parts.len();
    if !(1..=PARTS_MAX).contains(&count) {
        route.refuse("gather", format!("{count} parts; a route gathers 1 to {PARTS_MAX}"));
    } else if matches!(plan.quorum, Quorum::Count(quorum) if quorum > count && !plan.refuses_partial)
    {
        route.refuse("quorum", "the quorum is larger than the number of parts");
    }
    let is_late = plan.soft_deadline_ns.is_some_and(|soft| soft >= plan.deadline_ns);
    if is_late && !route.has_refused("deadline") {
        route.refuse("soft-deadline", "the soft deadline must be before the deadline");
    }
    plan
}

fn template(
    text: &str,
    path: &PathPattern,
    upstreams: &[Upstream],
) -> Result<PartTemplate, String> {
    let template = PartTemplate::parse(text, path).map_err(|error| format!("{text:?}: {error}"))?;
    index_of(template.upstream(), upstreams)?;
    Ok(template)
}

/// Reads the name of a field that parts receive.
fn field(name: &str) -> Result<String, String> {
    if is_field_name(name) && !is_unfit(&name.to_ascii_lowercase()) {
        Ok(name.to_owned())
    } else {
        Err(format!("fields are names such as \"X-User\" that parts can have, not {name:?}"))
    }
}

/// Reserved fields, and those for which a part would not be a whole response (RFC 9110 sections 13.1
/// and 14.2).
fn is_unfit(name: &str) -> bool {
    let is_group = ["if-", "proxy", "x-forwarded-"].iter().any(|prefix| name.starts_with(prefix));
    is_group || name == "range" || is_reserved(name)
}

/// Reads the keys that do not depend on the parts.
fn settings(route: &mut Table<'_, '_>, plan: &mut Plan) {
    plan.part_size_max = route.size("part-size-max").unwrap_or(plan.part_size_max);
    plan.answer_size_max = route.size("answer-size-max").unwrap_or(plan.answer_size_max);
    plan.deadline_ns = route.duration("deadline").unwrap_or(plan.deadline_ns);
    plan.soft_deadline_ns = route.duration("soft-deadline");
    plan.parallel = route.integer("parallel", 1..=64, plan.parallel);
    let partial = [("accept", false), ("refuse", true)];
    plan.refuses_partial = route.word("partial", &partial).unwrap_or_default();
    let forms = [("json", Form::Json), ("ndjson", Form::Lines)];
    plan.form = route.word("form", &forms).unwrap_or_default();
    let shapes = [("list", Shape::List), ("object", Shape::Object), ("merge", Shape::Merge)];
    plan.shape = route.word("shape", &shapes).unwrap_or_default();
    plan.quorum = route.take("quorum", quorum).unwrap_or(plan.quorum);
}

fn quorum(value: &Value<'_>) -> Result<Quorum, String> {
    let DeValue::String(text) = value.get_ref() else {
        return integer("quorum", value, 0..=64).map(Quorum::Count);
    };
    let percent = text.strip_suffix('%').and_then(|digits| digits.parse::<u8>().ok());
    percent
        .filter(|percent| *percent <= 100)
        .map(Quorum::Percent)
        .ok_or_else(|| format!("quorum is a number or a share as \"95%\", not {text:?}"))
}

pub(super) fn index_of(name: &str, upstreams: &[Upstream]) -> Result<usize, String> {
    upstreams.iter().position(|upstream| upstream.name == name).ok_or_else(|| {
        let names: Vec<&str> = upstreams.iter().map(|upstream| upstream.name.as_str()).collect();
        let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        format!("there is no upstream {name:?}; there are: {known}")
    })
}
