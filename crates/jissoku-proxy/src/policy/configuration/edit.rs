//! What a route changes of its messages: the path that a server gets, and fields.

use super::table::{Placed, Refusal, Table, refuse};
use crate::policy::fields::{FieldRules, Side};
use crate::policy::redirect::{self, Redirect};
use crate::policy::routes::{PathPattern, Rewrite, RewriteError};

/// What is changed of the paths of a route, if something is. `forwards`: they are for a server;
/// `has_folder`: for files.
pub(super) fn rewrite(
    table: &mut Table<'_, '_>,
    path: &PathPattern,
    (forwards, has_folder): (bool, bool),
) -> Result<Option<Rewrite>, Refusal> {
    let strip = table.string("strip-prefix")?;
    let add = table.string("add-prefix")?;
    for (key, given, routes, has_meaning) in [
        ("strip-prefix", &strip, "to or folder", forwards || has_folder),
        ("add-prefix", &add, "to", forwards),
    ] {
        if let Some((_, at)) = given.as_ref().filter(|_| !has_meaning) {
            return Err(refuse(at.clone(), &format!("{key} is for routes with {routes}")));
        }
    }
    if strip.is_none() && add.is_none() {
        return Ok(None);
    }
    let mut rewrite = Rewrite::new();
    if let Some(given) = &strip {
        rewrite = placed("strip-prefix", given, |prefix| rewrite.without(prefix, path))?;
    }
    if let Some(given) = &add {
        rewrite = placed("add-prefix", given, |prefix| rewrite.with_prefix(prefix))?;
    }
    Ok(Some(rewrite))
}

/// Where requests are redirected to, if they are.
pub(super) fn redirect(
    table: &mut Table<'_, '_>,
    path: &PathPattern,
) -> Result<Option<Redirect>, Refusal> {
    let Some((text, at)) = table.string("redirect")? else { return Ok(None) };
    let status = table.integer("redirect-status", 301..=308, 308)?;
    if !redirect::STATUSES.contains(&status) {
        let place = table.value("redirect-status").map_or(at, toml::Spanned::span);
        let why = format!("redirect-status is 301, 302, 303, 307 or 308, not {status}");
        return Err(refuse(place, &why));
    }
    let segments: Vec<&str> = path.variables().collect();
    Redirect::parse(&text, &segments, status)
        .map(Some)
        .map_err(|why| refuse(at, &format!("redirect = {text:?}: {why}")))
}

/// The rules of a list. `taken` are fields that other keys of the route set.
pub(super) fn fields(
    table: &mut Table<'_, '_>,
    (key, side): (&'static str, Side),
    path: &PathPattern,
    taken: &[(&str, &str)],
) -> Result<FieldRules, Refusal> {
    let segments: Vec<&str> = path.variables().collect();
    let mut rules = FieldRules::default();
    for (text, at) in table.strings(key)?.unwrap_or_default() {
        rules.add(&text, side, &segments).map_err(|why| refuse(at.clone(), &why))?;
        if let Some((name, other)) = taken.iter().find(|(name, _)| rules.concerns(name)) {
            return Err(refuse(at, &format!("{text:?}: {other} sets {name}")));
        }
    }
    Ok(rules)
}

fn placed(
    key: &str,
    (text, at): &Placed<String>,
    read: impl FnOnce(&str) -> Result<Rewrite, RewriteError>,
) -> Result<Rewrite, Refusal> {
    read(text).map_err(|error| refuse(at.clone(), &format!("{key} = {text:?}: {error}")))
}
