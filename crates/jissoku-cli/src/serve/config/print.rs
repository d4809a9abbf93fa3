//! `--print-config`: the flags of a server, from wherever they come, as a configuration file.
//!
//! What was given is a key, and the default of another flag a comment. Paths are absolute, so that
//! the file may be anywhere. `--config` with it gives the same server.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, ArgAction, ArgMatches, Command};
use toml::de::{DeTable, DeValue};

use super::{APP_KEY, is_given, name_of, with_path};
use crate::serve::app_name::AppName;
use crate::serve::help_groups::GROUPS;
use crate::serve::stores::StoreTables;

/// The keys of routes and upstreams whose values are paths.
const PATH_KEYS: [&str; 2] = ["folder", "tls-ca"];

/// The file with the flags of `matches`, with the tables of `file`, if its routes are served, and with
/// its stores.
pub(in crate::serve) fn text(
    command: &Command,
    matches: &ArgMatches,
    file: Option<(&Path, &str)>,
    (stores, store_text): (&StoreTables, &str),
) -> String {
    let mut text = String::new();
    for group in &GROUPS {
        let args =
            group.ids().filter_map(|id| command.get_arguments().find(|it| it.get_id() == id));
        let lines: String = args.filter_map(|arg| line(arg, matches)).collect();
        if !lines.is_empty() {
            // Infallible: the target is a String.
            let _written = writeln!(text, "# {}\n{lines}", group.heading);
        }
    }
    if !stores.is_empty() && !is_given(matches, "store_folder") {
        let folder = stores.default_folder().to_string_lossy().into_owned();
        // Infallible: the target is a String.
        let _written = writeln!(text, "# Stores\nstore-folder = {}\n", quoted(&folder));
    }
    if let Some((path, tables)) = file {
        text.push_str(&tables_of(path, tables));
    }
    text.push_str(&stores_of(store_text));
    let trimmed = text.trim_end().len();
    text.truncate(trimmed);
    text.push('\n');
    text
}

/// The line of a flag; none if it is not a key, and if it has neither a value nor a default.
fn line(arg: &Arg, matches: &ArgMatches) -> Option<String> {
    let name = name_of(arg).filter(|_| !arg.is_hide_set())?;
    let raw = matches.get_raw(arg.get_id().as_str())?;
    let is_given = is_given(matches, arg.get_id().as_str());
    let resolve = |path: &str| absolute(Path::new(path));
    let values: Vec<String> = raw
        .map(OsStr::to_string_lossy)
        .map(|value| if is_given { with_path(arg, &value, &resolve) } else { value.into_owned() })
        .collect();
    let key = match values.first() {
        Some(value) if arg.is_positional() && AppName::parse(Some(Path::new(value))).is_some() => {
            APP_KEY
        }
        _ => name,
    };
    let value = match (arg.get_action(), &*values) {
        (ArgAction::SetTrue, [value]) => value.clone(),
        (ArgAction::Append, values) => {
            format!("[{}]", values.iter().map(|value| quoted(value)).collect::<Vec<_>>().join(", "))
        }
        (_, [value]) => quoted(value),
        _ => return None,
    };
    let mark = if is_given { "" } else { "# " };
    // A flag that is off is not worth a line.
    (is_given || value != "false").then(|| format!("{mark}{key} = {value}\n"))
}

/// The tables of routes and upstreams of a file.
fn tables_of(path: &Path, text: &str) -> String {
    let parsed = DeTable::parse(text).map(toml::Spanned::into_inner).unwrap_or_default();
    let mut written = String::new();
    let upstreams = parsed.get("upstream").and_then(|value| value.get_ref().as_table());
    for (name, upstream) in upstreams.into_iter().flatten() {
        let heading = format!("[upstream.{}]", quoted(name.get_ref()));
        written.push_str(&table(&heading, upstream.get_ref(), path.parent()));
    }
    let routes = parsed.get("route").and_then(|value| value.get_ref().as_array());
    for route in routes.into_iter().flatten() {
        written.push_str(&table("[[route]]", route.get_ref(), path.parent()));
    }
    written
}

/// The tables of stores of a file.
fn stores_of(text: &str) -> String {
    let parsed = DeTable::parse(text).map(toml::Spanned::into_inner).unwrap_or_default();
    let stores = parsed.get("store").and_then(|value| value.get_ref().as_table());
    let written = stores.into_iter().flatten().map(|(name, store)| {
        table(&format!("[store.{}]", bare_or_quoted(name.get_ref())), store.get_ref(), None)
    });
    written.collect()
}

/// A table with a line for each key. `folder` is what the paths in it are relative to.
fn table(heading: &str, value: &DeValue<'_>, folder: Option<&Path>) -> String {
    let mut text = format!("{heading}\n");
    for (key, value) in value.as_table().into_iter().flatten() {
        let written = match (value.get_ref(), folder) {
            (DeValue::String(path), Some(folder)) if PATH_KEYS.contains(&&**key.get_ref()) => {
                quoted(&absolute(&folder.join(&**path)))
            }
            (value, _) => inline(value),
        };
        let key = key.get_ref();
        // Infallible: the target is a String.
        let _written = writeln!(text, "{} = {written}", bare_or_quoted(key));
    }
    text + "\n"
}

/// A value in one line.
fn inline(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => quoted(text),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(is_on) => is_on.to_string(),
        DeValue::Datetime(time) => time.to_string(),
        DeValue::Array(values) => {
            let values: Vec<String> = values.iter().map(|value| inline(value.get_ref())).collect();
            format!("[{}]", values.join(", "))
        }
        DeValue::Table(table) => {
            let pair = |(key, value): (&toml::Spanned<_>, &toml::Spanned<DeValue<'_>>)| {
                let key: &std::borrow::Cow<'_, str> = key.get_ref();
                format!("{} = {}", bare_or_quoted(key), inline(value.get_ref()))
            };
            let pairs: Vec<String> = table.iter().map(pair).collect();
            format!("{{ {} }}", pairs.join(", "))
        }
    }
}

fn bare_or_quoted(key: &str) -> String {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if !key.is_empty() && key.bytes().all(is_bare) { key.to_owned() } else { quoted(key) }
}

/// A string of TOML. Its escapes are those of JSON, which leaves DEL as it is.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

fn absolute(path: &Path) -> String {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    whole.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests;
