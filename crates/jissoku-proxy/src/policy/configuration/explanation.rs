//! Which route takes a request, and why not those before it, as text.

use std::fmt::Write as _;

use super::route::{Route, RouteAction};
use super::upstream::Upstream;
use crate::policy::routes::{Captures, Decision, Routes, Rule, Subject};

/// The answer of `Configuration::explain`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// Whether a route takes the request.
    pub is_taken: bool,
    /// One line for the decision, one for each route before it.
    pub text: String,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Tables<'a> {
    pub(super) upstreams: &'a [Upstream],
    pub(super) routes: &'a [Route],
    pub(super) rules: &'a Routes,
}

impl Tables<'_> {
    pub(super) fn explain(self, method: &str, url: &str) -> Explanation {
        let (host, target) = split(url);
        let path = target.split(['?', '#']).next().unwrap_or_default();
        let path = if path.is_empty() { "/" } else { path };
        let subject = Subject {
            method: method.as_bytes(),
            host: host.map(str::as_bytes),
            path: path.as_bytes(),
            is_secure: url.starts_with("https://"),
        };
        let decision = self.rules.find(&subject);
        let mut text = match &decision {
            Decision::Take { index, captures, path: other } => {
                let decoded = other.as_deref().map(String::from_utf8_lossy);
                self.taken(*index, captures, decoded.as_deref().unwrap_or(path))
            }
            Decision::MethodNotAllowed => {
                format!("405: {path} is for {}\n", self.rules.allow(&subject).join(", "))
            }
            Decision::NotFound => "404: no route takes it\n".to_owned(),
            Decision::Refuse(ambiguity) => format!("400: {ambiguity}\n"),
        };
        if !matches!(decision, Decision::Refuse(_)) {
            for (route, mismatch) in self.routes.iter().zip(self.rules.mismatches(&subject)) {
                // Infallible: the target is a String.
                let _written =
                    writeln!(text, "  not line {}, {}: {mismatch}", route.line, route.path);
            }
        }
        Explanation { is_taken: decision.index().is_some(), text }
    }

    fn taken(self, index: usize, captures: &Captures, path: &str) -> String {
        let found = self.routes.get(index).zip(self.rules.rules().get(index));
        let Some((route, rule)) = found else { return String::new() };
        let mut text = format!("line {}, {}: {}", route.line, route.path, self.does(route));
        add_variables(&mut text, rule, captures, path);
        if let Some(rewrite) = &rule.rewrite {
            let other = rewrite.path(path.as_bytes());
            let _written = write!(text, ", as {}", String::from_utf8_lossy(&other));
        }
        text.push('\n');
        if let RouteAction::Gather(plan) = &route.action {
            for part in &plan.parts {
                let target = part.template.target(path.as_bytes(), captures).unwrap_or_default();
                let target = String::from_utf8_lossy(&target);
                let _written =
                    writeln!(text, "  {}: {} {target}", part.id, part.template.upstream());
            }
        }
        text
    }

    fn upstream(&self, index: usize) -> &str {
        self.upstreams.get(index).map_or("", |upstream| upstream.name.as_str())
    }

    fn does(self, route: &Route) -> String {
        match &route.action {
            RouteAction::Forward(upstream) => format!("to upstream {}", self.upstream(*upstream)),
            RouteAction::Folder(folder) => format!("files of {}", folder.path),
            RouteAction::Fixed(_) => "a fixed response".to_owned(),
            RouteAction::Redirect(redirect) => {
                format!("redirects to {} with {}", redirect.text, redirect.status)
            }
            RouteAction::App(name) => format!("the application {name}"),
            RouteAction::Handler(file) => format!("the handler {file}"),
            RouteAction::Gather(plan) => format!("gathers {} parts", plan.parts.len()),
        }
    }
}

/// As `, id = 7`.
fn add_variables(text: &mut String, rule: &Rule, captures: &Captures, path: &str) {
    for (index, name) in rule.path.variables().enumerate() {
        let value = captures.span(index).and_then(|span| path.get(span)).unwrap_or_default();
        let _written = write!(text, ", {name} = {value}");
    }
}

/// Authority and target.
fn split(url: &str) -> (Option<&str>, &str) {
    let Some((_, rest)) = url.split_once("://").filter(|_| !url.starts_with('/')) else {
        return (None, url);
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, target) = rest.split_at_checked(end).unwrap_or((rest, ""));
    (Some(host), target)
}
