//! What all workers share of a table of routes.

use std::net::IpAddr;
use std::sync::Arc;

use jissoku_server::{BodyPart, DynamicResponse, Files, Fixed, RequestHead};

use super::limits::{Admitted, RouteLimits};
use crate::config::{Forwarding, Gateway, Timeouts};
use crate::gather::GatherRoute;
use crate::policy::fields::FieldRules;
use crate::policy::redirect::Redirect;
use crate::policy::routes::{Captures, Decision, Routes, Rule, Subject};

/// What serves the requests of a route.
#[derive(Debug)]
pub enum Content {
    /// The folder of this index. The path of the request is the path below it.
    Folder(usize),
    /// The folder of this index, below its prefix of [`RouteContent::prefixes`].
    Beside(usize),
    /// A text.
    Fixed(Fixed),
    /// A text, with rules for the fields of responses.
    FixedWithFields(TextWithFields),
    /// Another place.
    Redirect(Redirect),
    /// Another server.
    Forward(Forwarding),
    /// Several servers.
    Gather(Arc<GatherRoute>),
    /// The application.
    App,
    /// The part of this index of the application, which gets the variables of the path.
    Part(usize),
}

/// A route, but for what decides which requests it takes.
#[derive(Debug)]
pub struct RouteEntry {
    /// What serves its requests.
    pub content: Content,
    /// How many it takes.
    pub limits: Option<RouteLimits>,
    /// The limit of their bodies.
    pub body_size_max: u64,
}

/// What a request gets: a result with names.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) route: usize,
    /// The variables of its path.
    pub(super) captures: Captures,
    /// The path, if it is not passed as it came.
    pub(super) path: Option<Vec<u8>>,
    pub(super) admitted: Admitted,
}

/// Why a request gets no content: a result with names.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) response: DynamicResponse,
    /// Whether it is beyond a limit.
    pub(super) is_too_much: bool,
}

/// Routes, and what serves their requests.
#[derive(Debug)]
pub struct RouteContent {
    /// Which route takes a request.
    pub rules: Routes,
    /// The routes, in the same order; without rules, those of the prefixes, and of the application.
    pub routes: Vec<RouteEntry>,
    /// The limit of the bodies of requests that no route takes.
    pub body_size_max: u64,
    /// Referred to by [`Content::Folder`] and [`Content::Beside`].
    pub folders: Vec<Arc<Files>>,
    /// The prefix of each folder beside an application; empty if there are rules.
    pub prefixes: Vec<String>,
    /// Forwards requests.
    pub gateway: Arc<Gateway>,
}

/// A text, and rules for the fields of its responses.
#[derive(Debug)]
pub struct TextWithFields {
    text: Arc<[u8]>,
    /// Its header lines without rules.
    own_lines: &'static str,
    rules: FieldRules,
}

impl TextWithFields {
    /// Responds with `text`, and with fields by these rules.
    pub fn new(text: &str, rules: FieldRules) -> Self {
        Self { text: text.as_bytes().into(), own_lines: Fixed::fields(text), rules }
    }

    pub(super) const fn rules(&self) -> &FieldRules {
        &self.rules
    }

    /// The response with these header lines, which its rules have added.
    pub(super) fn response(&self, added: &[u8]) -> DynamicResponse {
        let body = vec![BodyPart::Shared(Arc::clone(&self.text), 0..self.text.len())];
        DynamicResponse::new(200, self.rules.applied(self.own_lines, added), body)
    }
}

impl RouteContent {
    /// Folders beside an application, each with the prefix of its paths, which begins with a slash
    /// and does not end with one. The longest prefix of a path applies; all other requests are the
    /// application's, with bodies of up to `body_size_max` bytes.
    pub fn beside_app(mut folders: Vec<(String, Arc<Files>)>, body_size_max: u64) -> Self {
        folders.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        let (prefixes, folders): (Vec<_>, Vec<_>) = folders.into_iter().unzip();
        let contents = (0..folders.len()).map(Content::Beside).chain([Content::App]);
        let routes = contents.map(|content| RouteEntry { content, limits: None, body_size_max });
        Self {
            rules: Routes::default(),
            routes: routes.collect(),
            body_size_max,
            folders,
            prefixes,
            gateway: Arc::new(Gateway::of(Vec::new(), Timeouts::DEFAULT)),
        }
    }

    /// One route, which has this content, without limits but for that of bodies.
    pub fn single(rule: Rule, content: Content, gateway: Gateway, body_size_max: u64) -> Self {
        Self {
            rules: Routes::single(rule),
            routes: vec![RouteEntry { content, limits: None, body_size_max }],
            body_size_max,
            folders: Vec::new(),
            prefixes: Vec::new(),
            gateway: Arc::new(gateway),
        }
    }

    /// The index of what serves a path if there are no rules. Prefixes are compared with the path as it
    /// came.
    fn beside(&self, path: &[u8]) -> usize {
        let is_below = |prefix: &String| {
            path.strip_prefix(prefix.as_bytes()).is_some_and(|rest| rest.starts_with(b"/"))
        };
        self.prefixes.iter().position(is_below).unwrap_or(self.prefixes.len())
    }

    /// The limits of the route for the same requests as `rule`, if there is one that has some.
    pub fn limits_of(&self, rule: &Rule) -> Option<&RouteLimits> {
        let place = self.rules.rules().iter().position(|other| other.is_for_same(rule))?;
        self.routes.get(place)?.limits.as_ref()
    }

    /// What a request of a client at `address` gets, which uses TLS or does not; or the response if no route takes it, or it is
    /// too much.
    pub(super) fn find(
        &self,
        request: &RequestHead<'_>,
        address: Option<IpAddr>,
        is_secure: bool,
    ) -> Result<Found, Refusal> {
        let RequestHead { head, bytes, .. } = *request;
        let (path, _) = request.path_and_query();
        if !self.prefixes.is_empty() {
            return Ok(Found {
                route: self.beside(path),
                captures: Captures::default(),
                path: None,
                admitted: Admitted::default(),
            });
        }
        let method = head.method_name.of(bytes);
        let host = if self.rules.compares_hosts() { head.host(bytes) } else { None };
        let subject = Subject { method, host, path, is_secure };
        let (status, fields, text) = match self.rules.find(&subject) {
            Decision::Take { index, captures, path } => {
                let limits = self.routes[index].limits.as_ref();
                let field = |name: &str| field_of(request, name);
                let admitted = limits
                    .map_or(Ok(Admitted::default()), |it| it.admit(address, field, request.now_ns))
                    .map_err(|much| Refusal { response: much.response(), is_too_much: true })?;
                return Ok(Found { route: index, captures, path, admitted });
            }
            Decision::MethodNotAllowed => {
                let allow = format!("Allow: {}\r\n", self.rules.allow(&subject).join(", "));
                (405, allow, "Method Not Allowed\n")
            }
            Decision::NotFound => (404, String::new(), "Not Found\n"),
            Decision::Refuse(_) => (400, String::new(), "Bad Request\n"),
        };
        let response = DynamicResponse::text(status, &fields, text.as_bytes());
        Err(Refusal { response, is_too_much: false })
    }
}

/// The value of the first field of this name.
fn field_of<'a>(request: &RequestHead<'a>, name: &str) -> Option<&'a [u8]> {
    let mut fields = request.fields();
    fields.find(|(other, _)| other.eq_ignore_ascii_case(name.as_bytes())).map(|(_, value)| value)
}
