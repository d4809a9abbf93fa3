//! Converts `[upstream.NAME]` and `[[route]]` of the configuration file to a service.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jissoku_proxy::policy::configuration::{
    self, Configuration, Explanation, Folder, HostField, Problem, ProblemKind, Route, RouteAction,
};
use jissoku_proxy::policy::routes::Rule;
use jissoku_proxy::{
    Content, Forwarding, Gateway, GatherRoute, Resolution, RouteContent, RouteEntry, RouteLimits,
    ServerEntry, Target, TextWithFields, UpstreamGroup, UpstreamOptions,
};
use jissoku_server::{Files, Fixed, SecureListeners, TlsClient, TlsName};
use toml::de::DeTable;

use super::app_name::AppName;
use super::failure::{Failure, print_error};
use super::files::FileArgs;
use super::gateway_args::{GatewayArgs, tls_client};
use super::handler_file::HandlerFile;
use super::inputs::Inputs;

#[derive(Debug)]
pub(super) struct RouteTable {
    path: PathBuf,
    configuration: Configuration,
}

impl RouteTable {
    /// Reads the routes of a file, if it contains any; or all that is wrong with them.
    pub(super) fn read(
        path: &Path,
        text: &str,
        parsed: &DeTable<'_>,
    ) -> Result<Option<Self>, Vec<Problem>> {
        let table = Self { path: path.to_owned(), configuration: Configuration::of(text, parsed)? };
        let Configuration { upstreams, routes, .. } = &table.configuration;
        let refuse = |key, line, why| Problem { kind: ProblemKind::Value, key, line, why };
        if let (Some(upstream), []) = (upstreams.first(), &**routes) {
            let key = format!("upstream.{}", upstream.name);
            let why = "no [[route]] uses this upstream".to_owned();
            return Err(vec![refuse(key, upstream.line, why)]);
        }
        let of_app = |(index, route): (usize, &Route)| {
            let (key, why) = table.refusal_of_code(route)?;
            Some(refuse(format!("route[{index}].{key}"), route.line, why))
        };
        let problems: Vec<Problem> = routes.iter().enumerate().filter_map(of_app).collect();
        if problems.is_empty() { Ok((!routes.is_empty()).then_some(table)) } else { Err(problems) }
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

    /// The handlers in C, each once, in the order of their routes.
    pub(super) fn handlers(&self) -> Vec<HandlerFile> {
        let mut files: Vec<HandlerFile> = Vec::new();
        for route in &self.configuration.routes {
            if let RouteAction::Handler(name) = &route.action
                && let Some(file) = HandlerFile::parse(Some(&self.beside(name)))
                && !files.contains(&file)
            {
                files.push(file);
            }
        }
        files
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
        inputs: &Inputs,
    ) -> Result<Arc<RouteContent>, Failure> {
        let Configuration { upstreams, routes, rules } = &self.configuration;
        let upstreams = upstreams
            .iter()
            .map(|upstream| {
                let known = previous.and_then(|old| old.gateway.upstream(&upstream.name));
                self.upstream(upstream, flags, (known, inputs))
            })
            .collect::<Result<_, _>>()?;
        let mut gateway = flags.gateway(upstreams, secure);
        let (written, folders) = self.open_folders(files)?;
        let entry = |(route, rule): (&Route, &Rule)| {
            let (rate, concurrency) = (route.rate.clone(), route.concurrency.clone());
            let known = previous.and_then(|old| old.limits_of(rule));
            let size_max = match route.action {
                RouteAction::App(_) => app_body_size_max,
                _ => body_size_max,
            };
            RouteEntry {
                content: self.serving((route, rule), &written, &mut gateway),
                limits: RouteLimits::new(&route.path, rate, concurrency, known),
                body_size_max: route.body_size_max.unwrap_or(size_max),
            }
        };
        let routes = routes.iter().zip(rules.rules()).map(entry).collect();
        let (rules, prefixes, gateway) = (rules.clone(), Vec::new(), Arc::new(gateway));
        Ok(Arc::new(RouteContent { rules, routes, body_size_max, folders, prefixes, gateway }))
    }

    /// Opens each of the folders once for the same fields, and returns what is written of them, and
    /// them in the same order.
    fn open_folders(&self, files: &FileArgs) -> Result<(Vec<&Folder>, Vec<Arc<Files>>), Failure> {
        let (mut written, mut lines) = (Vec::new(), Vec::new());
        for route in &self.configuration.routes {
            if let RouteAction::Folder(folder) = &route.action
                && !written.contains(&folder)
            {
                written.push(folder);
                lines.push(route.line);
            }
        }
        let open = |(folder, line): (&&Folder, &usize)| {
            let (path, count) = (self.beside(&folder.path), written.len() as u64);
            let opened = files.open(&path, folder.fields.clone(), count);
            opened.map(Arc::new).map_err(|why| self.refuse(*line, &why))
        };
        let folders = written.iter().zip(&lines).map(open).collect::<Result<_, _>>()?;
        Ok((written, folders))
    }

    /// What serves the requests of a route. `folders` are those that were opened.
    fn serving(
        &self,
        (route, rule): (&Route, &Rule),
        folders: &[&Folder],
        gateway: &mut Gateway,
    ) -> Content {
        let fields = route.response_fields.clone();
        match &route.action {
            RouteAction::Folder(folder) => {
                let place = folders.iter().position(|other| *other == folder);
                Content::Folder(place.unwrap_or_default())
            }
            RouteAction::Fixed(text) if fields.is_empty() => Content::Fixed(Fixed::new(text)),
            RouteAction::Fixed(text) => Content::FixedWithFields(TextWithFields::new(text, fields)),
            RouteAction::Redirect(redirect) => {
                let mut redirect = redirect.as_ref().clone();
                redirect.fields = fields;
                Content::Redirect(redirect)
            }
            RouteAction::Forward(upstream) => {
                Content::Forward(gateway.add_route(route, rule, *upstream))
            }
            RouteAction::App(_) => Content::App,
            RouteAction::Handler(name) => {
                let file = HandlerFile::parse(Some(&self.beside(name)));
                let place = self.handlers().iter().position(|other| Some(other) == file.as_ref());
                Content::Part(place.unwrap_or_default())
            }
            RouteAction::Gather(plan) => {
                let forwarding = gateway.add_route(route, rule, 0);
                let forwardings = plan.parts.iter().map(|part| {
                    let name = part.template.upstream();
                    let mut upstreams = self.configuration.upstreams.iter();
                    // A part that names an unknown upstream was refused when the file was read.
                    let index = upstreams.position(|upstream| upstream.name == name);
                    Forwarding { upstream: index.unwrap_or_default(), ..forwarding }
                });
                let (plan, forwardings) = (plan.as_ref().clone(), forwardings.collect());
                Content::Gather(Arc::new(GatherRoute { plan, forwardings, fields }))
            }
        }
    }

    fn upstream(
        &self,
        upstream: &configuration::Upstream,
        flags: &GatewayArgs,
        (previous, inputs): (Option<&UpstreamGroup>, &Inputs),
    ) -> Result<UpstreamGroup, Failure> {
        let configuration::Upstream { name, line, servers, .. } = upstream;
        let host = match (&upstream.policy.host, servers.first()) {
            (HostField::Name(name), _) => name,
            (_, Some(server)) if !server.endpoint.starts_with("unix:") => &server.endpoint,
            // The path of a socket is no Host.
            _ => "localhost",
        };
        let mut targets = Vec::new();
        for server in servers {
            let found = Target::of_server(&server.endpoint, upstream.policy.protocol)
                .map_err(|error| self.refuse(*line, &format!("upstream {name:?}: {error}")))?;
            let (weight, in_flight_max) = (server.weight, server.in_flight_max);
            if found.is_unix() && upstream.policy.protocol.has_tls() && upstream.tls.name.is_none()
            {
                let why = format!("upstream {name:?}: a Unix socket with TLS needs tls-name");
                return Err(self.refuse(*line, &why));
            }
            targets.push(ServerEntry { target: found, weight, in_flight_max });
        }
        let options = UpstreamOptions {
            policy: upstream.policy.clone(),
            tls: self.tls(upstream, inputs)?,
            tls_name: self.tls_name(upstream)?,
            idle_ns: upstream.idle_ns.unwrap_or(flags.upstream_idle_time),
            resolution: Resolution {
                every_ns: upstream.resolve_ns.unwrap_or(flags.upstream_resolve_every),
                report: print_error,
                ..Resolution::DEFAULT
            },
        };
        Ok(UpstreamGroup::new((name, host), targets, options, previous))
    }

    /// Reads the certificates of authorities, for worker processes.
    pub(super) fn read_authorities(&self, inputs: &Inputs) -> Result<(), Failure> {
        let upstreams = &self.configuration.upstreams;
        upstreams.iter().try_for_each(|upstream| self.tls(upstream, inputs).map(drop))
    }

    /// The name of the certificates of all servers of an upstream, if they have one.
    fn tls_name(&self, upstream: &configuration::Upstream) -> Result<Option<TlsName>, Failure> {
        let Some(text) = &upstream.tls.name else { return Ok(None) };
        let name = TlsName::parse(text);
        let why = || format!("tls-name is a name or an address, not {text:?}");
        name.map(Some).ok_or_else(|| self.refuse(upstream.line, &why()))
    }

    /// TLS to the servers of an upstream, if they speak that.
    fn tls(
        &self,
        upstream: &configuration::Upstream,
        inputs: &Inputs,
    ) -> Result<Option<TlsClient>, Failure> {
        if !upstream.policy.protocol.has_tls() {
            return Ok(None);
        }
        let ca = upstream.tls.authorities.as_deref().map(|file| self.beside(file));
        let flags = "tls-ca or tls-insecure = true";
        let client = tls_client(ca.as_deref(), upstream.tls.accepts_all, flags, inputs);
        let name = &upstream.name;
        client
            .map(Some)
            .map_err(|why| self.refuse(upstream.line, &format!("upstream {name:?}: {why}")))
    }

    /// Why the server does not support the code of a route, if it has some, and its key.
    fn refusal_of_code(&self, route: &Route) -> Option<(&'static str, String)> {
        let RouteAction::Handler(name) = &route.action else {
            return Some(("app", self.refusal_of_app(route)?));
        };
        let why = match (HandlerFile::parse(Some(&self.beside(name))), self.app()) {
            (None, _) => format!("handler is a file NAME.c, NAME.cpp or NAME.so, not {name:?}"),
            // Its faults would be those of the process of both.
            (_, Some(app)) => format!("a server has handlers or an application, and {app} is one"),
            _ => return None,
        };
        Some(("handler", why))
    }

    /// Why the server does not support the application of a route, if it has one.
    fn refusal_of_app(&self, route: &Route) -> Option<String> {
        let RouteAction::App(name) = &route.action else { return None };
        match (AppName::parse(Some(Path::new(name))), self.app()) {
            (None, _) => Some(format!("app is MODULE:APP, not {name:?}")),
            (Some(app), Some(other)) if other != app => {
                Some(format!("a server has one application, and {other} is one"))
            }
            _ => None,
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
