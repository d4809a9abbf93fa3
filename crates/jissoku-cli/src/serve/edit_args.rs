//! Flags for changes of forwarded messages.

use clap::Args;
use jissoku_proxy::RouteEdit;
use jissoku_proxy::policy::routes::{PathPattern, Rewrite, Rule};

use super::failure::Failure;

/// Flags for changes of forwarded messages.
#[derive(Debug, Args)]
pub(super) struct EditArgs {
    /// With --to: remove PREFIX from the start of paths; other paths are 404
    #[arg(long, value_name = "PREFIX", hide_short_help = true)]
    strip_prefix: Option<String>,
    /// With --to: put PREFIX before paths, as a path in the URL does
    #[arg(long, value_name = "PREFIX", hide_short_help = true)]
    add_prefix: Option<String>,
}

impl EditArgs {
    /// Refuses flags that have no effect, without `--to`.
    pub(super) fn check_unused(&self) -> Result<(), Failure> {
        let flags = [
            ("--strip-prefix", self.strip_prefix.is_some()),
            ("--add-prefix", self.add_prefix.is_some()),
        ];
        match flags.into_iter().find(|(_, is_given)| *is_given) {
            Some((flag, _)) => {
                Err(Failure::of_input(&format!("{flag} needs --to, or is for a route")))
            }
            None => Ok(()),
        }
    }

    /// What is changed, and of which requests, if something is. `prefix`: the path of the URL.
    pub(super) fn read(&self, prefix: &str) -> Result<Option<(Rule, RouteEdit)>, Failure> {
        let add = match (&self.add_prefix, prefix) {
            (Some(_), path) if !path.is_empty() => {
                return Err(Failure::of_input(
                    "--add-prefix and the path in --to exclude each other",
                ));
            }
            (Some(add), _) => add,
            (None, path) => path,
        };
        if add.is_empty() && self.strip_prefix.is_none() {
            return Ok(None);
        }
        let strip = self.strip_prefix.as_deref().unwrap_or_default();
        let refuse = |flag: &str, text: &str, error: &dyn std::fmt::Display| {
            Failure::of_input(&format!("{flag} {text}: {error}"))
        };
        let pattern = PathPattern::parse(&format!("{strip}/**"))
            .map_err(|error| refuse("--strip-prefix", strip, &error))?;
        let mut rewrite = Rewrite::new();
        if self.strip_prefix.is_some() {
            rewrite = rewrite
                .without(strip, &pattern)
                .map_err(|error| refuse("--strip-prefix", strip, &error))?;
        }
        if !add.is_empty() {
            rewrite =
                rewrite.with_prefix(add).map_err(|error| refuse("--add-prefix", add, &error))?;
        }
        let rule = Rule::new(pattern).with_rewrite(Some(rewrite.clone()));
        Ok(Some((rule, RouteEdit { rewrite })))
    }
}
