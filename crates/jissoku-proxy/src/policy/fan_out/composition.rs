//! Answers as JSON: a list, an object by id, merged objects, or a line per part.
//!
//! A part's JSON is embedded only after it parsed, and with it ends: otherwise one server could
//! write the results of others.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::value::RawValue;

use super::collection::Collection;
use super::part::{PartResponse, PartResult};
use super::plan::{Plan, Shape};

/// The answer as one JSON text.
pub fn compose_json(plan: &Plan, collection: &Collection, shape: Shape, elapsed_ns: u64) -> String {
    let (open, close) = match shape {
        Shape::List => ('[', ']'),
        Shape::Object => ('{', '}'),
        Shape::Merge => return merge(plan, collection),
    };
    let mut text = format!(
        "{{\"complete\":{},\"elapsed_ms\":{},\"parts\":{open}",
        collection.is_complete(),
        milliseconds(elapsed_ns)
    );
    for (index, part) in plan.parts.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        if shape == Shape::Object {
            text.push_str(&quoted(&part.id));
            text.push(':');
        }
        text.push_str(&part_text(&part.id, collection, index));
    }
    text.push(close);
    text.push_str("}\n");
    text
}

/// One part as a line, for `application/x-ndjson`.
pub fn ndjson_line(plan: &Plan, collection: &Collection, part: usize) -> String {
    let id = plan.parts.get(part).map(|part| part.id.as_str()).unwrap_or_default();
    // Strings have no line ends in JSON: these are between tokens.
    let mut line = part_text(id, collection, part).replace(['\n', '\r'], " ");
    line.push('\n');
    line
}

/// The last line.
pub fn ndjson_end(collection: &Collection, elapsed_ns: u64) -> String {
    let complete = collection.is_complete();
    format!("{{\"complete\":{complete},\"elapsed_ms\":{}}}\n", milliseconds(elapsed_ns))
}

fn part_text(id: &str, collection: &Collection, part: usize) -> String {
    let mut text = format!("{{\"id\":{}", quoted(id));
    let (result, elapsed_ns) = match collection.result(part) {
        Some((result, elapsed_ns)) => (Some(result), elapsed_ns),
        None => (None, 0),
    };
    // Infallible: the target is a String.
    let _written = match result {
        Some(PartResult::Response(response)) => write!(
            text,
            ",\"status\":{},\"elapsed_ms\":{},\"headers\":{},{}",
            response.status,
            milliseconds(elapsed_ns),
            fields_text(response),
            body_text(response)
        ),
        Some(PartResult::Error(error)) => write!(
            text,
            ",\"error\":{},\"elapsed_ms\":{}",
            quoted(error.name()),
            milliseconds(elapsed_ns)
        ),
        None => write!(text, ",\"error\":null"),
    };
    text.push('}');
    text
}

fn fields_text(response: &PartResponse) -> String {
    let mut joined: BTreeMap<&str, String> = BTreeMap::new();
    for (name, value) in &response.fields {
        let values = joined.entry(name).or_default();
        if !values.is_empty() {
            values.push_str(", ");
        }
        values.push_str(value);
    }
    let members = joined.iter().map(|(name, value)| format!("{}:{}", quoted(name), quoted(value)));
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

fn body_text(response: &PartResponse) -> String {
    let text = std::str::from_utf8(&response.body).ok();
    let kind = media_type(response);
    if let Some(value) = text.filter(|_| is_json(&kind)).and_then(embeddable) {
        return format!("\"body\":{value}");
    }
    match text.filter(|_| kind.starts_with("text/") || is_json(&kind)) {
        Some(text) => format!("\"body\":{}", quoted(text)),
        None => format!("\"body_base64\":\"{}\"", STANDARD.encode(&response.body)),
    }
}

/// The text, if it is one whole JSON value.
fn embeddable(text: &str) -> Option<&str> {
    serde_json::from_str::<&RawValue>(text).ok().map(RawValue::get)
}

fn media_type(response: &PartResponse) -> String {
    let field = response.fields.iter().find(|(name, _)| *name == "content-type");
    let value = field.map(|(_, value)| value.as_str()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

fn is_json(media_type: &str) -> bool {
    media_type == "application/json" || media_type.ends_with("+json")
}

fn merge(plan: &Plan, collection: &Collection) -> String {
    let mut names: BTreeSet<String> = BTreeSet::new();
    let mut merged = String::from("{");
    for index in 0..plan.parts.len() {
        let Some((result @ PartResult::Response(response), _)) = collection.result(index) else {
            continue;
        };
        let text = std::str::from_utf8(&response.body).unwrap_or_default();
        let is_object = result.is_success() && is_json(&media_type(response));
        let parsed = serde_json::from_str::<BTreeMap<String, &RawValue>>(text);
        for (name, value) in parsed.ok().filter(|_| is_object).into_iter().flatten() {
            if names.contains(&name) {
                continue;
            }
            if !names.is_empty() {
                merged.push(',');
            }
            merged.push_str(&quoted(&name));
            merged.push(':');
            merged.push_str(value.get());
            names.insert(name);
        }
    }
    merged.push_str("}\n");
    merged
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// With one decimal place.
fn milliseconds(ns: u64) -> String {
    let tenths = ns / 100_000;
    format!("{}.{}", tenths / 10, tenths % 10)
}
