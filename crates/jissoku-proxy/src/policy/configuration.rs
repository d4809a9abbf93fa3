//! `[upstream.*]` and `[[route]]` of the configuration file.
//!
//! Every error is one sentence with the line that it is about. Other keys of the file are not read
//! here.

mod edit;
mod explanation;
mod gather;
mod limits;
mod route;
mod statuses;
mod table;
mod upstream;

use toml::de::{DeTable, DeValue};

use self::table::{Refusal, Table, read_whole, refuse};
use crate::policy::routes::{Routes, Rule};

pub use crate::policy::spelling::instead_of;
pub use explanation::Explanation;
pub use limits::{Concurrency, Rate, RateKey};
pub use route::{COLLECT_SIZE, ClientEnd, Hedge, Route, RouteAction};
pub use table::Problem;
pub use upstream::{HashKey, HealthCheck, HostField, IDLE_MIN_MAX, Protocol, Upstream};

/// The keys of the file that are read here.
pub const KEYS: [&str; 2] = ["upstream", "route"];

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
    /// The first thing that cannot be meant.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        Self::parse_all(text).map_err(|problems| problems.into_iter().next().unwrap_or_default())
    }

    /// As [`Configuration::parse`].
    ///
    /// # Errors
    ///
    /// All that cannot be meant, in the order of the file.
    pub fn parse_all(text: &str) -> Result<Self, Vec<Problem>> {
        Self::read(text).map_err(|mut refusals| {
            refusals.sort_by_key(|refusal| refusal.at.start);
            refusals.into_iter().map(|refusal| Problem::new(text, refusal)).collect()
        })
    }

    /// Explains the decision about a request of `method` for `url`: `http://host/path`, or a path
    /// alone for a request without a host. A query and a fragment have no influence.
    pub fn explain(&self, method: &str, url: &str) -> Explanation {
        let Self { upstreams, routes, rules } = self;
        explanation::Tables { upstreams, routes, rules }.explain(method, url)
    }

    fn read(text: &str) -> Result<Self, Vec<Refusal>> {
        let file = DeTable::parse(text).map_err(|error| {
            let (at, why) = (error.span().unwrap_or_default(), error.message().to_owned());
            vec![Refusal { at, why }]
        })?;
        let mut configuration = Self::default();
        let mut refusals = Vec::new();
        // Names of upstreams that are wrong, in quotes: what routes have of them may be right.
        let mut doubtful = Vec::new();
        if let Some(value) = file.get_ref().get("upstream") {
            let DeValue::Table(all) = value.get_ref() else {
                return Err(vec![refuse(value.span(), "upstream is a table: [upstream.NAME]")]);
            };
            for (name, value) in all {
                let what = format!("upstream {:?}", name.get_ref());
                let (read, wrong) = match Table::of(value, &what, &name.span()) {
                    Ok(table) => read_whole(table, |table| upstream::read(name.get_ref(), table)),
                    Err(refusal) => (None, vec![refusal]),
                };
                if !wrong.is_empty() {
                    doubtful.push(format!("{:?}", name.get_ref()));
                }
                refusals.extend(wrong);
                let line = table::line(text, &name.span());
                configuration.upstreams.extend(read.map(|read| Upstream { line, ..read }));
            }
        }
        let Some(value) = file.get_ref().get("route") else {
            return if refusals.is_empty() { Ok(configuration) } else { Err(refusals) };
        };
        let DeValue::Array(all) = value.get_ref() else {
            return Err(vec![refuse(value.span(), "route is a list of tables: [[route]]")]);
        };
        let mut rules = Vec::new();
        for value in all {
            let (read, wrong) = match Table::of(value, "a route", &value.span()) {
                Ok(table) => {
                    read_whole(table, |table| route::read(table, &configuration.upstreams))
                }
                Err(refusal) => (None, vec![refusal]),
            };
            let is_certain =
                |wrong: &Refusal| !doubtful.iter().any(|name| wrong.why.contains(name.as_str()));
            refusals.extend(wrong.into_iter().filter(is_certain));
            if let Some((route, rule)) = read {
                let line = table::line(text, &route.at);
                configuration.routes.push(Route { line, ..route });
                rules.push(rule);
            }
        }
        if !refusals.is_empty() {
            return Err(refusals);
        }
        configuration.rules = configuration.ordered(rules).map_err(|refusal| vec![refusal])?;
        Ok(configuration)
    }

    /// The rules of the routes, unless one takes all requests of another before it.
    fn ordered(&self, rules: Vec<Rule>) -> Result<Routes, Refusal> {
        Routes::new(rules).map_err(|found| {
            let by = self.routes.get(found.by).map(|route| route.line).unwrap_or_default();
            refuse(
                self.routes.get(found.index).map(|route| route.at.clone()).unwrap_or_default(),
                &format!("no request reaches this route: the one on line {by} takes them before"),
            )
        })
    }
}

#[cfg(test)]
mod tests;
