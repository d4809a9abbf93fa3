//! Options of gunicorn, granian and uvicorn, and what they are here, by the tables of
//! `jissoku migrate`.

use clap::{Arg, Command};
use toml::{Table, Value};

const TABLES: [&str; 3] = [
    include_str!("../../../../python/jissoku/migrate/gunicorn.toml"),
    include_str!("../../../../python/jissoku/migrate/granian.toml"),
    include_str!("../../../../python/jissoku/migrate/uvicorn.toml"),
];

/// What an option of another server is here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Elsewhere {
    /// Another option.
    Here(String),
    /// There is none, for this reason.
    Absent(String),
}

/// What the option `name` of another server is here, if it is known.
pub(super) fn find(name: &str) -> Option<Elsewhere> {
    let tables = TABLES.iter().filter_map(|text| text.parse::<Table>().ok());
    let options = tables.filter_map(|mut table| match table.remove("option") {
        Some(Value::Array(options)) => Some(options),
        _ => None,
    });
    let is_it = |option: &Value| names(option).any(|other| other == name);
    options.flatten().find(is_it).as_ref().and_then(what)
}

fn names(option: &Value) -> impl Iterator<Item = &str> {
    let names = option.get("names").and_then(Value::as_array);
    names.into_iter().flatten().filter_map(Value::as_str)
}

/// What an option is here, if that can be said without its value.
fn what(option: &Value) -> Option<Elsewhere> {
    let text = |key| option.get(key).and_then(Value::as_str);
    match (text("shown"), text("kind")) {
        (Some(shown), _) => Some(Elsewhere::Here(shown.to_owned())),
        (None, Some("absent")) => text("note").map(|why| Elsewhere::Absent(why.to_owned())),
        _ => text("here").map(|flag| Elsewhere::Here(with_value(flag))),
    }
}

/// A flag with the name of its value, if it has one.
fn with_value(flag: &str) -> String {
    let command = crate::command();
    let arguments = command.find_subcommand("serve").into_iter().flat_map(Command::get_arguments);
    let mut with_values = arguments.filter(|it| it.get_action().takes_values());
    let argument = with_values.find(|it| it.get_long() == flag.strip_prefix("--"));
    match argument.and_then(Arg::get_value_names) {
        Some([value]) => format!("{flag} {value}"),
        _ => flag.to_owned(),
    }
}
