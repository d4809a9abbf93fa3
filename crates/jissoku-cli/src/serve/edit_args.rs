//! Flags for changes of forwarded messages.

use clap::Args;
use jissoku_proxy::RouteEdit;
use jissoku_proxy::policy::fields::{FieldRules, Side};
use jissoku_proxy::policy::redirect::{Redirect, STATUSES};
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
    /// With --to: set a field of requests ('NAME: VALUE', in which {client}, {host}, {method}, {path},
    /// {query}, {request_id}, {scheme} and {target} are variables), add one ('+NAME: VALUE') or
    /// remove it (-NAME); may be repeated
    #[arg(long, value_name = "RULE", allow_hyphen_values = true, value_parser = request_field,
        hide_short_help = true)]
    #[expect(clippy::doc_markdown, reason = "--help shows it as it is")]
    request_field: Vec<String>,
}

/// A rule for a field of requests, as it was given.
fn request_field(text: &str) -> Result<String, String> {
    FieldRules::default().add(text, Side::Request, &[]).map(|()| text.to_owned())
}

/// Reads `URL` or `STATUS=URL`.
pub(super) fn redirect(text: &str) -> Result<Redirect, String> {
    let split = text.split_once('=').and_then(|(status, url)| Some((status.parse().ok()?, url)));
    let (status, url) = split.unwrap_or((308, text));
    if !STATUSES.contains(&status) {
        return Err(format!("the status is 301, 302, 303, 307 or 308, not {status}"));
    }
    Redirect::parse(url, &[], status)
}

impl EditArgs {
    /// Refuses flags that have no effect, without `--to`.
    pub(super) fn check_unused(&self) -> Result<(), Failure> {
        let flags = [
            ("--strip-prefix", self.strip_prefix.is_some()),
            ("--add-prefix", self.add_prefix.is_some()),
            ("--request-field", !self.request_field.is_empty()),
        ];
        Failure::of_first(&flags, |flag| format!("{flag} needs --to; a route has a key for it"))
    }

    /// What is changed, and of which requests, if something is. `prefix`: the path of the URL.
    pub(super) fn read(
        &self,
        prefix: &str,
        response_rules: &[String],
    ) -> Result<Option<(Rule, RouteEdit)>, Failure> {
        let (rule, edit) = self.rule(prefix, response_rules)?;
        Ok((!edit.is_empty()).then_some((rule, edit)))
    }

    /// As [`EditArgs::read`], also if nothing is changed.
    pub(super) fn rule(
        &self,
        prefix: &str,
        response_rules: &[String],
    ) -> Result<(Rule, RouteEdit), Failure> {
        let strip = self.strip_prefix.as_deref().unwrap_or_default();
        let pattern = PathPattern::parse(&format!("{strip}/**"))
            .map_err(|error| refuse("--strip-prefix", strip, &error))?;
        let segments: Vec<&str> = pattern.variables().collect();
        let rules = |flag: &str, side: Side, texts: &[String]| {
            let mut rules = FieldRules::default();
            for text in texts {
                rules.add(text, side, &segments).map_err(|why| refuse(flag, text, &why))?;
            }
            Ok(rules)
        };
        let edit = RouteEdit {
            rewrite: self.rewrite(prefix, &pattern)?,
            request: rules("--request-field", Side::Request, &self.request_field)?,
            response: rules("--response-field", Side::Response, response_rules)?,
        };
        if edit.rewrite.cuts() && edit.request.concerns("X-Forwarded-Prefix") {
            return Err(Failure::of_input("--strip-prefix sets X-Forwarded-Prefix"));
        }
        let mut rule = Rule::new(pattern);
        rule.rewrite = Some(edit.rewrite.clone());
        Ok((rule, edit))
    }

    fn rewrite(&self, prefix: &str, pattern: &PathPattern) -> Result<Rewrite, Failure> {
        let add = match (&self.add_prefix, prefix) {
            (Some(_), path) if !path.is_empty() => {
                return Err(Failure::of_input(
                    "--add-prefix and the path in --to exclude each other",
                ));
            }
            (Some(add), _) => add,
            (None, path) => path,
        };
        let mut rewrite = Rewrite::new();
        if let Some(strip) = &self.strip_prefix {
            let cut = rewrite.without(strip, pattern);
            rewrite = cut.map_err(|error| refuse("--strip-prefix", strip, &error))?;
        }
        if !add.is_empty() || self.add_prefix.is_some() {
            let below = rewrite.with_prefix(add);
            rewrite = below.map_err(|error| refuse("--add-prefix", add, &error))?;
        }
        Ok(rewrite)
    }
}

fn refuse(flag: &str, text: &str, error: &dyn std::fmt::Display) -> Failure {
    Failure::of_input(&format!("{flag} {text}: {error}"))
}
