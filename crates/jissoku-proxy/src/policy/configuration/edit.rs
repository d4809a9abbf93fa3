//! What a route changes of its messages: the path that a server gets, and fields.

use super::table::{Table, integer};
use crate::policy::fields::{FieldRules, Side};
use crate::policy::redirect::{self, Redirect};
use crate::policy::routes::{PathPattern, Rewrite};

/// What is changed of the paths of a route, if something is. `path` is its path, unless it was
/// refused.
pub(super) fn rewrite(table: &mut Table<'_, '_>, path: Option<&PathPattern>) -> Option<Rewrite> {
    let strip = table.text("strip-prefix", |prefix| match path {
        Some(path) => placed("strip-prefix", prefix, Rewrite::new().without(prefix, path)),
        None => Ok(Rewrite::new()),
    });
    let cut = strip.clone().unwrap_or_default();
    let added =
        table.text("add-prefix", |prefix| placed("add-prefix", prefix, cut.with_prefix(prefix)));
    added.or(strip)
}

fn placed(key: &str, prefix: &str, rewrite: Result<Rewrite, String>) -> Result<Rewrite, String> {
    rewrite.map_err(|why| format!("{key} = {prefix:?}: {why}"))
}

/// Where requests are redirected to, if they are. `segments` are the variables of the path, unless it
/// was refused.
pub(super) fn redirect(table: &mut Table<'_, '_>, segments: Option<&[&str]>) -> Option<Redirect> {
    let status = table.take("redirect-status", |value| {
        let status = integer("redirect-status", value, 301..=308)?;
        let why = || format!("redirect-status is 301, 302, 303, 307 or 308, not {status}");
        redirect::STATUSES.contains(&status).then_some(status).ok_or_else(why)
    });
    let status = status.unwrap_or(308);
    let Some(segments) = segments else {
        table.string("redirect");
        return None;
    };
    table.text("redirect", |text| {
        let parsed = Redirect::parse(text, segments, status);
        parsed.map_err(|why| format!("redirect = {text:?}: {why}"))
    })
}

/// The rules of a list. `segments` are the variables of the path, unless it was refused; `taken` are
/// fields that other keys of the route set.
pub(super) fn fields(
    table: &mut Table<'_, '_>,
    (key, side): (&'static str, Side),
    segments: Option<&[&str]>,
    taken: &[(&str, &str)],
) -> FieldRules {
    let mut rules = FieldRules::default();
    let Some(segments) = segments else {
        table.value(key);
        return rules;
    };
    table.texts(key, |text| {
        let mut one = FieldRules::default();
        one.add(text, side, segments)?;
        match taken.iter().find(|(name, _)| one.concerns(name)) {
            Some((name, other)) => Err(format!("{text:?}: {other} sets {name}")),
            None => rules.add(text, side, segments),
        }
    });
    rules
}
