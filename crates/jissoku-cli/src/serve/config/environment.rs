//! Flags in environment variables: `JISSOKU_WORKERS` for `--workers`.

use std::ffi::{OsStr, OsString};

use clap::{Arg, ArgAction, ArgMatches, Command};

use super::{APP_KEY, is_overridden, name_of, refusal_of};
use crate::serve::failure::Failure;

const PREFIX: &str = "JISSOKU_";

/// The arguments that environment variables stand for, without those that `given` overrides.
/// `variable` returns environment variables.
pub(super) fn arguments(
    command: &Command,
    given: &ArgMatches,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Result<Vec<OsString>, Failure> {
    let mut arguments = Vec::new();
    for arg in command.get_arguments() {
        let Some(name) = key_of(arg) else { continue };
        let aliases = arg.get_visible_aliases().unwrap_or_default();
        let names = [name].into_iter().chain(arg.is_positional().then_some(APP_KEY)).chain(aliases);
        for key in names {
            let name = variable_of(key);
            let Some(value) = variable(&name).filter(|value| !value.is_empty()) else { continue };
            if is_overridden(command, arg, given) {
                continue;
            }
            let found = of_value(arg, &name, &value)?;
            if let Some(why) = found.iter().find_map(|argument| refusal_of(command, argument)) {
                return Err(Failure::of_input(&format!("{name}: {why}")));
            }
            arguments.extend(found);
        }
    }
    Ok(arguments)
}

/// As [`name_of`], and the flag that names the configuration file.
fn key_of(arg: &Arg) -> Option<&str> {
    name_of(arg).or_else(|| arg.get_long().filter(|&name| name == "config"))
}

fn variable_of(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('-', "_").to_ascii_uppercase())
}

/// A value as arguments. White space separates the values of a flag that may be repeated.
fn of_value(arg: &Arg, name: &str, value: &OsStr) -> Result<Vec<OsString>, Failure> {
    let key = arg.get_long().unwrap_or_default();
    let argument = |value: &OsStr| {
        let mut argument = OsString::from(format!("--{key}="));
        argument.push(value);
        argument
    };
    let text = value.to_string_lossy();
    match arg.get_action() {
        ArgAction::SetTrue => match &*text.to_ascii_lowercase() {
            "1" | "true" | "yes" | "on" => Ok(vec![format!("--{key}").into()]),
            "0" | "false" | "no" | "off" => Ok(Vec::new()),
            _ => Err(Failure::of_input(&format!("{name} is {text:?}: write 1 or 0"))),
        },
        ArgAction::Append => {
            Ok(text.split_whitespace().map(|value| argument(OsStr::new(value))).collect())
        }
        _ if arg.is_positional() => Ok(vec![value.to_owned()]),
        _ => Ok(vec![argument(value)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::{Serve, config};

    fn merged(arguments: &[&str], variables: &[(&str, &str)]) -> Result<Vec<OsString>, String> {
        let command = Serve::command("serve");
        let arguments: Vec<String> =
            ["serve"].iter().chain(arguments).map(ToString::to_string).collect();
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).into())
        };
        let merged = config::merge(&command, &arguments, &variable, &<_>::default());
        merged.map(|merged| merged.arguments).map_err(|failure| failure.to_string())
    }

    #[test]
    fn variables_are_flags_that_the_command_line_overrides() {
        let variables = [
            ("JISSOKU_APP", "app:app"),
            ("JISSOKU_WORKERS", "3"),
            ("JISSOKU_LISTEN", "127.0.0.1:1 unix:/x"),
            ("JISSOKU_FACTORY", "yes"),
            ("JISSOKU_PIN", "0"),
            ("JISSOKU_SOCKET_MODE", ""),
        ];
        let seen = merged(&[], &variables).expect("all of it is valid");
        for expected in
            ["app:app", "--workers=3", "--listen=127.0.0.1:1", "--listen=unix:/x", "--factory"]
        {
            assert!(seen.contains(&expected.into()), "{expected} in {seen:?}");
        }
        assert_eq!(seen.len(), 6, "{seen:?}");
        let seen = merged(&["--workers", "5", "--fixed", "x"], &variables).expect("it is valid");
        assert!(!seen.contains(&"--workers=3".into()) && !seen.contains(&"app:app".into()));
    }

    #[test]
    fn an_invalid_value_is_reported_with_its_variable() {
        let refusal = merged(&["."], &[("JISSOKU_WORKERS", "x")]).expect_err("it is no number");
        assert!(refusal.starts_with("JISSOKU_WORKERS: invalid value 'x'"), "{refusal}");
        let refusal = merged(&["."], &[("JISSOKU_PIN", "2")]).expect_err("it is no boolean");
        assert_eq!(refusal, "JISSOKU_PIN is \"2\": write 1 or 0");
    }

    #[test]
    fn every_flag_has_a_variable_of_its_own() {
        let command = Serve::command("serve");
        let mut names: Vec<String> =
            command.get_arguments().filter_map(key_of).map(variable_of).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert!(names.len() == count && count > 40, "{names:?}");
    }
}
