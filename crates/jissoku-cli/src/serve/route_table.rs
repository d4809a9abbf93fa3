//! Converts `[upstream.NAME]` and `[[route]]` of the configuration file to a service.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jissoku_proxy::policy::configuration::{
    self, Configuration, Explanation, HostField, Route, RouteAction,
};
use jissoku_proxy::{
    Resolution, RouteContent, RouteLimits, ServerEntry, Target, UpstreamGroup, UpstreamOptions,
};
use jissoku_server::{SecureListeners, TlsClient, TlsName};

use super::app_name::AppName;
use super::failure::{Failure, print_error};
use super::files::FileArgs;
use super::gateway_args::{GatewayArgs, tls_client};
use super::route_contents::RouteContents;

/// The routes of a file.
#[derive(Debug)]
pub(super) struct RouteTable {
    path: PathBuf,
    configuration: Configuration,
}

impl RouteTable {
    /// Reads the routes of a file, if it contains any; or all that is wrong with them.
    pub(super) fn read(path: &Path, text: &str) -> Result<Option<Self>, Vec<Failure>> {
        let refuse = |problem| Failure::of_input(&format!("{}, {problem}", path.display()));
        let configuration = Configuration::parse_all(text)
            .map_err(|problems| problems.into_iter().map(refuse).collect::<Vec<_>>())?;
        let table = Self { path: path.to_owned(), configuration };
        let Configuration { upstreams, routes, .. } = &table.configuration;
        if routes.is_empty() {
            return match upstreams.first() {
                Some(upstream) => {
                    Err(vec![table.refuse(upstream.line, "no [[route]] uses this upstream")])
                }
                None => Ok(None),
            };
        }
        let wrong: Vec<Failure> =
            routes.iter().filter_map(|route| table.check(route).err()).collect();
        if wrong.is_empty() { Ok(Some(table)) } else { Err(wrong) }
    }

    /// Explains which route takes a request.
    pub(super) fn explain(&self, method: &str, url: &str) -> Explanation {
        self.configuration.explain(method, url)
    }

    /// How many routes there are, and in which file.
    pub(super) fn summary(&self) -> String {
        let count = self.configuration.routes.len();
        let plural = if count == 1 { "" } else { "s" };
        format!("{count} route{plural} of {}", self.path.display())
    }

    /// The name of the Python application.
    pub(super) fn app(&self) -> Option<AppName> {
        let mut routes = self.configuration.routes.iter();
        routes.find_map(|route| match &route.action {
            RouteAction::App(name) => AppName::parse(Some(Path::new(name))),
            _ => None,
        })
    }

    /// The largest limit of bodies of the routes that have one, or `size_max`.
    pub(super) fn body_size_max(&self, size_max: u64) -> u64 {
        let routes = self.configuration.routes.iter();
        routes.filter_map(|route| route.body_size_max).chain([size_max]).max().unwrap_or(size_max)
    }

    /// The content of the routes. `body_size_max`: of routes
    /// that have no limit of their own, and of those of the application. `previous` is the content before a reload.
    pub(super) fn content(
        &self,
        files: &FileArgs,
        flags: &GatewayArgs,
        (secure, body_size_max, app_body_size_max): (SecureListeners, u64, u64),
        previous: Option<&RouteContent>,
    ) -> Result<Arc<RouteContent>, Failure> {
        let Configuration { upstreams, routes, rules } = &self.configuration;
        let upstreams = upstreams
            .iter()
            .map(|upstream| {
                let known = previous.and_then(|old| old.gateway.upstream(&upstream.name));
                self.upstream(upstream, flags, known)
            })
            .collect::<Result<_, _>>()?;
        let limits = routes
            .iter()
            .zip(rules.rules())
            .map(|(route, rule)| {
                let (rate, concurrency) = (route.rate.clone(), route.concurrency.clone());
                let known = previous.and_then(|old| old.limits_of(rule));
                RouteLimits::new(&route.path, rate, concurrency, known)
            })
            .collect();
        let folder_count = self.folders().collect::<BTreeSet<_>>().len() as u64;
        let mut contents = RouteContents::new(flags.response_time_max);
        for (route, rule) in routes.iter().zip(rules.rules()) {
            let open = |folder: &str| {
                let opened = files.open(&self.beside(folder), folder_count);
                opened.map_err(|error| self.refuse(route.line, &error.to_string()))
            };
            contents.add((route, rule), &self.configuration.upstreams, open)?;
        }
        let RouteContents {
            contents,
            folders,
            texts,
            texts_with_fields,
            redirects,
            gathers,
            hedges,
            deadline_fields,
            edits,
            ..
        } = contents;
        let gateway = flags
            .gateway(upstreams, secure)
            .with_hedges(&hedges)
            .with_deadline_fields(&deadline_fields)
            .with_edits(edits);
        let size_max_of = |route: &Route| {
            route.body_size_max.unwrap_or(match route.action {
                RouteAction::App(_) => app_body_size_max,
                _ => body_size_max,
            })
        };
        Ok(Arc::new(RouteContent {
            rules: rules.clone(),
            contents,
            limits,
            body_sizes_max: routes.iter().map(size_max_of).collect(),
            body_size_max,
            folders,
            prefixes: Vec::new(),
            texts,
            texts_with_fields,
            redirects,
            gathers,
            gateway: Arc::new(gateway),
        }))
    }

    fn folders(&self) -> impl Iterator<Item = &str> {
        self.configuration.routes.iter().filter_map(|route| match &route.action {
            RouteAction::Folder(folder) => Some(folder.as_str()),
            _ => None,
        })
    }

    fn upstream(
        &self,
        upstream: &configuration::Upstream,
        flags: &GatewayArgs,
        previous: Option<&UpstreamGroup>,
    ) -> Result<UpstreamGroup, Failure> {
        let configuration::Upstream { name, line, servers, .. } = upstream;
        let host = match (&upstream.host, servers.first()) {
            (HostField::Name(name), _) => name,
            (_, Some(server)) if !server.endpoint.starts_with("unix:") => &server.endpoint,
            // The path of a socket is no Host.
            _ => "localhost",
        };
        let mut targets = Vec::new();
        for server in servers {
            let found = Target::of_server(&server.endpoint, upstream.protocol)
                .map_err(|error| self.refuse(*line, &format!("upstream {name:?}: {error}")))?;
            let (weight, in_flight_max) = (server.weight, server.in_flight_max);
            if found.is_unix() && upstream.protocol.has_tls() && upstream.tls.name.is_none() {
                let why = format!("upstream {name:?}: a Unix socket with TLS needs tls-name");
                return Err(self.refuse(*line, &why));
            }
            targets.push(ServerEntry { target: found, weight, in_flight_max });
        }
        let options = UpstreamOptions {
            balance: upstream.balance,
            hash_key: upstream.hash_key.clone(),
            ejection: upstream.ejection,
            queue: upstream.queue,
            retry_statuses: upstream.retry_statuses,
            health: upstream.health.clone(),
            protocol: upstream.protocol,
            tls: self.tls(upstream)?,
            tls_name: self.tls_name(upstream)?,
            idle_ns: upstream.idle_ns.unwrap_or(flags.upstream_idle_time),
            idle_min: upstream.idle_min,
            host: upstream.host.clone(),
            has_via: upstream.has_via,
            resolution: Resolution {
                every_ns: upstream.resolve_ns.unwrap_or(flags.upstream_resolve_every),
                report: print_error,
                ..Resolution::DEFAULT
            },
        };
        Ok(UpstreamGroup::new((name, host), targets, options, previous))
    }

    /// The name of the certificates of all servers of an upstream, if they have one.
    fn tls_name(&self, upstream: &configuration::Upstream) -> Result<Option<TlsName>, Failure> {
        let Some(text) = &upstream.tls.name else { return Ok(None) };
        let name = TlsName::parse(text);
        let why = || format!("tls-name is a name or an address, not {text:?}");
        name.map(Some).ok_or_else(|| self.refuse(upstream.line, &why()))
    }

    /// TLS to the servers of an upstream, if they speak that.
    fn tls(&self, upstream: &configuration::Upstream) -> Result<Option<TlsClient>, Failure> {
        if !upstream.protocol.has_tls() {
            return Ok(None);
        }
        let ca = upstream.tls.authorities.as_deref().map(|file| self.beside(file));
        let client =
            tls_client(ca.as_deref(), upstream.tls.accepts_all, "tls-ca or tls-insecure = true");
        let name = &upstream.name;
        client
            .map(Some)
            .map_err(|why| self.refuse(upstream.line, &format!("upstream {name:?}: {why}")))
    }

    /// Rejects routes that are valid but not supported by the server.
    fn check(&self, route: &Route) -> Result<(), Failure> {
        let RouteAction::App(name) = &route.action else { return Ok(()) };
        let Some(app) = AppName::parse(Some(Path::new(name))) else {
            return Err(self.refuse(route.line, &format!("app is MODULE:APP, not {name:?}")));
        };
        match self.app() {
            Some(other) if other != app => {
                let why = format!("a server has one application, and {other} is one");
                Err(self.refuse(route.line, &why))
            }
            _ => Ok(()),
        }
    }

    /// Resolves a path relative to the configuration file.
    fn beside(&self, folder: &str) -> PathBuf {
        let whole = self.path.parent().unwrap_or_else(|| Path::new("")).join(folder);
        std::path::absolute(&whole).unwrap_or(whole)
    }

    fn refuse(&self, line: usize, why: &str) -> Failure {
        Failure::of_input(&format!("{}, line {line}: {why}", self.path.display()))
    }
}
