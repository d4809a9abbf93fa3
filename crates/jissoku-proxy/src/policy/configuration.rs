//! `[upstream.*]`, `[[route]]` and `[store.*]` of the configuration file.
//!
//! All mistakes are reported at once, each with its key, its line and one sentence. Other keys of the
//! file are not read here.

mod edit;
mod explanation;
mod gather;
mod limits;
mod route;
mod store;
mod table;
mod upstream;

use toml::de::{DeTable, DeValue};

use self::table::{File, Table};
use crate::policy::routes::{Routes, Rule, Unreachable};

pub use crate::policy::spelling::instead_of;
pub use explanation::Explanation;
pub use limits::{Concurrency, Rate, RateKey};
pub use route::{COLLECT_SIZE, ClientEnd, Folder, Hedge, Route, RouteAction};
pub use store::{StoreDurability, StoreOptions, StoreWhenFull};
pub use table::{Problem, ProblemKind};
pub use upstream::{
    HashKey, HealthCheck, HostField, IDLE_MIN_MAX, Protocol, Upstream, UpstreamPolicy,
};

/// The keys of the file that are read here.
pub const KEYS: [&str; 3] = ["upstream", "route", "store"];

/// What the file says about upstreams and routes.
#[derive(Debug, Clone, Default)]
pub struct Configuration {
    /// By name.
    pub upstreams: Vec<Upstream>,
    /// In their order, which is that of `rules`.
    pub routes: Vec<Route>,
    /// Which route takes a request.
    pub rules: Routes,
}

impl Configuration {
    /// Reads a whole file.
    ///
    /// # Errors
    ///
    /// All that cannot be meant, in the order of the file.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        match DeTable::parse(text) {
            Ok(parsed) => Self::of(text, parsed.get_ref()),
            Err(error) => Err(vec![Problem::of_syntax(text, &error)]),
        }
    }

    /// As [`Configuration::parse`], of a file that was parsed.
    ///
    /// # Errors
    ///
    /// As [`Configuration::parse`].
    pub fn of(text: &str, parsed: &DeTable<'_>) -> Result<Self, Vec<Problem>> {
        let file = File::new(text);
        let (mut configuration, rules) = Self::read(&file, parsed);
        let problems = file.into_problems();
        if !problems.is_empty() {
            return Err(problems);
        }
        configuration.rules = Routes::new(rules).map_err(|found| vec![configuration.why(found)])?;
        Ok(configuration)
    }

    /// Explains the decision about a request of `method` for `url`: `http://host/path`, or a path
    /// alone for a request without a host. A query and a fragment have no influence.
    pub fn explain(&self, method: &str, url: &str) -> Explanation {
        let Self { upstreams, routes, rules } = self;
        explanation::Tables { upstreams, routes, rules }.explain(method, url)
    }

    /// What is wrong is in `file`, and what this returns is of no use then.
    fn read(file: &File<'_>, parsed: &DeTable<'_>) -> (Self, Vec<Rule>) {
        let (mut configuration, mut rules) = (Self::default(), Vec::new());
        if let Some(value) = parsed.get("upstream") {
            if let DeValue::Table(all) = value.get_ref() {
                for (name, value) in all {
                    let (at, name) = (name.span(), name.get_ref());
                    let names = (upstream::path_of(name), &*format!("upstream {name:?}"));
                    let table = Table::of(file, value, names, at);
                    configuration.upstreams.extend(table.map(|it| upstream::read(name, it)));
                }
            } else {
                file.refuse("upstream", &value.span(), "upstream is a table: [upstream.NAME]");
            }
        }
        if let Some(value) = parsed.get("route") {
            if let DeValue::Array(all) = value.get_ref() {
                for (index, value) in all.iter().enumerate() {
                    let names = (format!("route[{index}]"), "a route");
                    let table = Table::of(file, value, names, value.span());
                    let read = table.map(|it| route::read(it, &configuration.upstreams));
                    let (route, rule) = read.unzip();
                    configuration.routes.extend(route);
                    rules.extend(rule);
                }
            } else {
                file.refuse("route", &value.span(), "route is a list of tables: [[route]]");
            }
        }
        (configuration, rules)
    }

    /// What is wrong with a route that no request reaches.
    fn why(&self, found: Unreachable) -> Problem {
        let line =
            |index: usize| self.routes.get(index).map(|route| route.line).unwrap_or_default();
        let by = line(found.by);
        Problem {
            kind: ProblemKind::Value,
            key: format!("route[{}]", found.index),
            line: line(found.index),
            why: format!("no request reaches this route: the one on line {by} takes them before"),
        }
    }
}

/// Reads the stores of a file that was parsed.
///
/// # Errors
///
/// All that cannot be meant, in the order of the file.
pub fn stores(text: &str, parsed: &DeTable<'_>) -> Result<Vec<StoreOptions>, Vec<Problem>> {
    let (file, mut stores) = (File::new(text), Vec::new());
    if let Some(value) = parsed.get("store") {
        if let DeValue::Table(all) = value.get_ref() {
            for (name, value) in all {
                let (at, name) = (name.span(), name.get_ref());
                let names = (format!("store.{name}"), &*format!("store {name:?}"));
                let table = Table::of(&file, value, names, at);
                stores.extend(table.map(|it| store::read(name, it)));
            }
        } else {
            file.refuse("store", &value.span(), "store is a table: [store.NAME]");
        }
    }
    let problems = file.into_problems();
    if problems.is_empty() { Ok(stores) } else { Err(problems) }
}

#[cfg(test)]
mod tests;
