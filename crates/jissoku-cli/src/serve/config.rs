//! `--config FILE.toml`: flags by name, in a file that is read again at every reload; and flags in
//! environment variables.
//!
//! The values are converted to arguments, put before those of the command line, and parsed with
//! them, so that clap alone defines what a flag means. A flag on the command line overrides the
//! environment, which overrides the file.

mod environment;
pub(super) mod print;

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::path::{Path, PathBuf};

use clap::builder::ValueHint;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Args, Command, Id};
use jissoku_proxy::policy::configuration::{KEYS, Problem, ProblemKind, instead_of};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::CONTENT_GROUP;
use super::app_name::AppName;
use super::content_args::only_in_lab;
use super::failure::Failure;
use super::inputs::Inputs;
use super::listen::refusal_of_keys;
use super::route_table::RouteTable;
use super::stores::StoreTables;
use super::worker_args::refusal_of_times;

/// An alternative key for the positional argument, if that is an application.
const APP_KEY: &str = "app";

/// The flag that names the file.
#[derive(Debug, Args)]
pub(super) struct Config {
    /// Read flags from a TOML file, by their long names; flags on the command line override it
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Print what the flags, the environment and that file say together, as such a file, and exit
    #[arg(long)]
    pub(super) print_config: bool,
}

/// All that says what is to be served.
pub(super) struct Merged {
    /// The flags, those of the environment and of the file first.
    pub(super) arguments: Vec<OsString>,
    /// The routes of the file, unless flags override them.
    pub(super) routes: Option<RouteTable>,
    /// Its stores.
    pub(super) stores: StoreTables,
    /// The configuration file, and its text.
    pub(super) file: Option<(PathBuf, String)>,
}

/// The arguments, with those of the environment inserted, and those of the configuration file if
/// one is named, and its routes. `variable` returns environment variables.
pub(super) fn merge(
    command: &Command,
    arguments: &[String],
    variable: &dyn Fn(&str) -> Option<OsString>,
    inputs: &Inputs,
) -> Result<Merged, Failure> {
    let given = command.clone().try_get_matches_from(arguments).map_err(Failure::Usage)?;
    let mut merged: Vec<OsString> = arguments.iter().map(OsString::from).collect();
    merged.splice(1..1, environment::arguments(command, &given, variable)?);
    let given = command.clone().try_get_matches_from(&merged).map_err(Failure::Usage)?;
    let Some(path) = given.get_one::<PathBuf>("config") else {
        let stores = StoreTables::default();
        return Ok(Merged { arguments: merged, routes: None, stores, file: None });
    };
    let text = inputs
        .read_text(path)
        .map_err(|error| Failure::of_input(&format!("cannot read {}: {error}", path.display())))?;
    let refuse = |problem: Problem| Failure::of_input(&format!("{}, {problem}", path.display()));
    let parsed = DeTable::parse(&text)
        .map_err(|error| refuse(Problem::of_syntax(&text, &error)))?
        .into_inner();
    let file = File { path, text: &text, table: &parsed, command };
    let (arguments, mut problems) = file.arguments(&given);
    let routes = RouteTable::read(path, &text, &parsed).unwrap_or_else(|found| {
        problems.extend(found);
        None
    });
    let stores = StoreTables::read(path, &text, &parsed).unwrap_or_else(|found| {
        problems.extend(found);
        StoreTables::default()
    });
    if !problems.is_empty() {
        problems.sort_by_key(|problem| problem.line);
        return Err(Failure::of_all(problems.into_iter().map(refuse).collect()));
    }
    merged.splice(1..1, arguments);
    file.check_values(&merged).map_err(refuse)?;
    file.check_together(&merged)?;
    let has_content = content_ids(file.command).any(|id| is_given(&given, id));
    let routes = routes.filter(|_| !has_content);
    Ok(Merged { arguments: merged, routes, stores, file: Some((path.clone(), text)) })
}

/// A configuration file and the command whose flags it may set.
struct File<'a> {
    path: &'a Path,
    text: &'a str,
    table: &'a DeTable<'a>,
    command: &'a Command,
}

impl File<'_> {
    /// The file's values as arguments, without those that `given` overrides, and all that is wrong.
    fn arguments(&self, given: &ArgMatches) -> (Vec<OsString>, Vec<Problem>) {
        let keys = self.table.iter().filter(|(key, _)| !KEYS.contains(&&**key.get_ref()));
        let mut keys: Vec<_> = keys.collect();
        keys.sort_unstable_by_key(|(key, _)| key.span().start);
        let (mut arguments, mut problems) = (Vec::new(), Vec::new());
        for (key, value) in keys {
            match self.of_key(key, value, given) {
                Ok(found) => arguments.extend(found),
                Err(problem) => problems.push(problem),
            }
        }
        (arguments, problems)
    }

    fn of_key(
        &self,
        key: &Spanned<Cow<'_, str>>,
        value: &Spanned<DeValue<'_>>,
        given: &ArgMatches,
    ) -> Result<Vec<OsString>, Problem> {
        let (name, at): (&str, _) = (key.get_ref(), key.span());
        let Some(arg) = find(self.command, name) else {
            let about = (ProblemKind::Unknown, name);
            return Err(Problem::new(self.text, about, &at, self.unknown(name)));
        };
        if arg.is_hide_set() {
            return Err(self.refuse(name, &at, only_in_lab(name).to_string()));
        }
        let has_routes = self.table.contains_key("route");
        if has_routes && content_ids(self.command).any(|id| id == arg.get_id().as_str()) {
            let why = format!(
                "{name} and [[route]] both say what is served: write it as the last route, \
                 with path = \"/**\""
            );
            return Err(self.refuse(name, &at, why));
        }
        let refuse = |why| self.refuse(name, &value.span(), why);
        let found = self.values(arg, value).map_err(refuse)?;
        match found.iter().find_map(|argument| refusal_of(self.command, argument)) {
            Some(why) => Err(refuse(why)),
            None if is_overridden(self.command, arg, given) => Ok(Vec::new()),
            None => Ok(found),
        }
    }

    fn unknown(&self, name: &str) -> String {
        if name == "handler" {
            return format!(
                "there is no key {name:?} here; write {APP_KEY} = \"NAME.c\", or the handler of a [[route]]"
            );
        }
        let shown = self.command.get_arguments().filter(|arg| !arg.is_hide_set());
        let names = shown.filter_map(name_of).chain([APP_KEY]).chain(KEYS);
        let instead = instead_of(name, &names.collect::<Vec<_>>());
        format!("there is no key {name:?}; {instead}")
    }

    /// A key's value as arguments: none for `false`, several for a list.
    fn values(&self, arg: &Arg, value: &Spanned<DeValue<'_>>) -> Result<Vec<OsString>, String> {
        let name = name_of(arg).unwrap_or_default();
        match (arg.get_action(), value.get_ref()) {
            (ArgAction::SetTrue, DeValue::Boolean(true)) => Ok(vec![format!("--{name}").into()]),
            (ArgAction::SetTrue, DeValue::Boolean(false)) => Ok(Vec::new()),
            // A flag whose value may be left out.
            (_, DeValue::Boolean(is_on)) if has_optional_value(arg) => {
                let flag = format!("--{name}").into();
                Ok(is_on.then_some(flag).into_iter().collect())
            }
            (ArgAction::SetTrue, _) => Err(wrong_type(name, "true or false", value)),
            (ArgAction::Append, DeValue::Array(values)) => {
                values.iter().map(|value| self.argument(arg, value)).collect()
            }
            _ => Ok(vec![self.argument(arg, value)?]),
        }
    }

    fn argument(&self, arg: &Arg, value: &Spanned<DeValue<'_>>) -> Result<OsString, String> {
        let name = name_of(arg).unwrap_or_default();
        let text = match value.get_ref() {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) => number.to_string(),
            DeValue::Float(number) => number.to_string(),
            _ => {
                let wanted = match arg.get_action() {
                    ArgAction::Append => "a string, or a list of strings",
                    _ => "a string or a number",
                };
                return Err(wrong_type(name, wanted, value));
            }
        };
        let text = OsString::from(with_path(arg, &text, &|path| self.beside(path)));
        if arg.is_positional() {
            return Ok(text);
        }
        let mut argument = OsString::from(format!("--{name}="));
        argument.push(text);
        Ok(argument)
    }

    /// Resolves a path relative to the configuration file.
    fn beside(&self, path: &str) -> String {
        let folder = self.path.parent().unwrap_or_else(|| Path::new(""));
        let whole = folder.join(path);
        std::path::absolute(&whole).unwrap_or(whole).to_string_lossy().into_owned()
    }

    /// Names the file if its keys exclude each other, or a flag.
    fn check_together(&self, merged: &[OsString]) -> Result<(), Failure> {
        let Err(refusal) = self.command.clone().try_get_matches_from(merged) else { return Ok(()) };
        let why = Failure::Usage(refusal);
        Err(Failure::of_input(&format!("{}: {why}", self.path.display())))
    }

    /// Reports the line of a value that does not fit that of another key.
    fn check_values(&self, merged: &[OsString]) -> Result<(), Problem> {
        // Other errors are reported where all arguments are parsed.
        let Ok(matches) = self.command.clone().try_get_matches_from(merged) else { return Ok(()) };
        let (why, keys) = if let Some(why) = refusal_of_times(&matches) {
            (why, ["drain-streams", "drain-timeout"])
        } else if let Some(why) = refusal_of_keys(&matches) {
            (why, ["tls-key", "tls-cert"])
        } else {
            return Ok(());
        };
        match keys.into_iter().find_map(|key| Some((key, self.table.get(key)?))) {
            Some((key, value)) => Err(self.refuse(key, &value.span(), why)),
            None => Ok(()),
        }
    }

    fn refuse(&self, key: &str, at: &Range<usize>, why: String) -> Problem {
        Problem::new(self.text, (ProblemKind::Value, key), at, why)
    }
}

fn wrong_type(name: &str, wanted: &str, value: &Spanned<DeValue<'_>>) -> String {
    format!("{name} must be {wanted}, not a value of type {}", value.get_ref().type_str())
}

/// Why a single argument is refused, if it is: with all of them, nothing would say which.
fn refusal_of(command: &Command, argument: &OsStr) -> Option<String> {
    let alone = [OsStr::new("serve"), argument];
    let refusal = command.clone().try_get_matches_from(alone).err()?;
    let is_alone = refusal.kind() == ErrorKind::MissingRequiredArgument;
    (!is_alone).then(|| Failure::Usage(refusal).to_string())
}

/// `text` as a value of `arg`, with the path in it resolved, if there is one.
fn with_path(arg: &Arg, text: &str, resolve: &dyn Fn(&str) -> String) -> String {
    let name = name_of(arg).unwrap_or_default();
    let hints = [ValueHint::AnyPath, ValueHint::FilePath, ValueHint::DirPath];
    match (text.strip_prefix("unix:"), text.split_once('=')) {
        (Some(path), _) if ["listen", "metrics"].contains(&name) => {
            format!("unix:{}", resolve(path))
        }
        // MODULE:APP is not a path.
        _ if arg.is_positional() && AppName::parse(Some(Path::new(text))).is_some() => {
            text.to_owned()
        }
        (_, Some((prefix, folder))) if name == "static" => format!("{prefix}={}", resolve(folder)),
        // `-` is standard output.
        _ if hints.contains(&arg.get_value_hint()) && text != "-" => resolve(text),
        _ => text.to_owned(),
    }
}

/// The flag of a key.
fn find<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    let name = if name == APP_KEY { "folder" } else { name };
    let is_alias = |arg: &&Arg| arg.get_visible_aliases().is_some_and(|it| it.contains(&name));
    let mut all = command.get_arguments();
    all.find(|arg| name_of(arg) == Some(name)).or_else(|| command.get_arguments().find(is_alias))
}

/// A flag of the content group that is given overrides all keys of that group.
fn is_overridden(command: &Command, arg: &Arg, given: &ArgMatches) -> bool {
    let id = arg.get_id().as_str();
    let decides = content_ids(command).any(|other| other == id);
    is_given(given, id) || (decides && content_ids(command).any(|other| is_given(given, other)))
}

fn is_given(given: &ArgMatches, id: &str) -> bool {
    given.value_source(id) == Some(ValueSource::CommandLine)
}

/// The flags of the content group.
fn content_ids(command: &Command) -> impl Iterator<Item = &str> {
    let what = command.get_groups().find(|group| group.get_id() == CONTENT_GROUP);
    what.into_iter().flat_map(ArgGroup::get_args).map(Id::as_str)
}

/// Whether a flag may be given without its value.
fn has_optional_value(arg: &Arg) -> bool {
    arg.get_num_args().is_some_and(|count| count.min_values() == 0 && count.takes_values())
}

/// The key of a flag: its long name, or `folder` for the positional argument.
fn name_of(arg: &Arg) -> Option<&str> {
    let name = arg.get_long().unwrap_or_else(|| arg.get_id().as_str());
    Some(name)
        .filter(|name| !["config", "help", "help-all", "print-config", "version"].contains(name))
}

#[cfg(test)]
mod tests;
