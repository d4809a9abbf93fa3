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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// The folder of this index. The path of the request is the path below it.
    Folder(usize),
    /// The folder of this index, below its prefix of [`RouteContent::prefixes`].
    Beside(usize),
    /// The text of this index.
    Fixed(usize),
    /// The text of this index, with rules for the fields of responses.
    FixedWithFields(usize),
    /// The redirect of this index.
    Redirect(usize),
    /// Another server.
    Forward(Forwarding),
    /// Several servers, by the plan of this index.
    Gather(usize),
    /// The application.
    App,
}

/// What a request gets: a result with names.
#[derive(Debug)]
pub(super) struct Found {
    /// The index of the route, if there are rules.
    pub(super) route: usize,
    pub(super) content: Content,
    /// The variables of its path.
    pub(super) captures: Captures,
    /// The path, if it is not passed as it came.
    pub(super) path: Option<Vec<u8>>,
    pub(super) admitted: Admitted,
    pub(super) body_size_max: u64,
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
    /// What serves each route's requests, in the same order.
    pub contents: Vec<Content>,
    /// The limits of each route, in the same order.
    pub limits: Vec<Option<RouteLimits>>,
    /// The limit of the bodies of each route's requests, in the same order.
    pub body_sizes_max: Vec<u64>,
    /// The limit of the bodies of requests that no route takes.
    pub body_size_max: u64,
    /// Referred to by [`Content::Folder`] and [`Content::Beside`].
    pub folders: Vec<Arc<Files>>,
    /// The prefix of each folder beside an application; empty if there are rules.
    pub prefixes: Vec<String>,
    /// Referred to by [`Content::Fixed`].
    pub texts: Vec<Arc<Fixed>>,
    /// Referred to by [`Content::FixedWithFields`].
    pub texts_with_fields: Vec<TextWithFields>,
    /// Referred to by [`Content::Redirect`].
    pub redirects: Vec<Arc<Redirect>>,
    /// Referred to by [`Content::Gather`].
    pub gathers: Vec<Arc<GatherRoute>>,
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
    #[must_use]
    pub fn new(text: &str, rules: FieldRules) -> Self {
        Self { text: text.as_bytes().into(), own_lines: Fixed::fields(text), rules }
    }

    pub(super) const fn rules(&self) -> &FieldRules {
        &self.rules
    }

    /// The response with these header lines, which its rules have added.
    pub(super) fn response(&self, added: &[u8]) -> DynamicResponse {
        let body = vec![BodyPart::Shared(Arc::clone(&self.text), 0..self.text.len())];
        DynamicResponse::with_fields(200, &self.rules.applied(self.own_lines, added), body)
    }
}

impl RouteContent {
    /// Folders beside an application, each with the prefix of its paths, which begins with a slash
    /// and does not end with one. The longest prefix of a path applies; all other requests are the
    /// application's, with bodies of up to `body_size_max` bytes.
    #[must_use]
    pub fn beside_app(mut folders: Vec<(String, Arc<Files>)>, body_size_max: u64) -> Self {
        folders.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        let (prefixes, folders) = folders.into_iter().unzip();
        let gateway = Gateway::of(Vec::new(), Timeouts::DEFAULT);
        Self { folders, prefixes, ..Self::empty(gateway, body_size_max) }
    }

    /// One route, which has this content, without limits but for that of bodies.
    #[must_use]
    pub fn single(rule: Rule, content: Content, gateway: Gateway, body_size_max: u64) -> Self {
        Self {
            rules: Routes::single(rule),
            contents: vec![content],
            limits: vec![None],
            body_sizes_max: vec![body_size_max],
            ..Self::empty(gateway, body_size_max)
        }
    }

    fn empty(gateway: Gateway, body_size_max: u64) -> Self {
        Self {
            rules: Routes::default(),
            contents: Vec::new(),
            limits: Vec::new(),
            body_sizes_max: Vec::new(),
            body_size_max,
            folders: Vec::new(),
            prefixes: Vec::new(),
            texts: Vec::new(),
            texts_with_fields: Vec::new(),
            redirects: Vec::new(),
            gathers: Vec::new(),
            gateway: Arc::new(gateway),
        }
    }

    /// What serves a path if there are no rules. Prefixes are compared with the path as it came.
    fn beside(&self, path: &[u8]) -> Content {
        let is_below = |prefix: &String| {
            path.strip_prefix(prefix.as_bytes()).is_some_and(|rest| rest.starts_with(b"/"))
        };
        self.prefixes.iter().position(is_below).map_or(Content::App, Content::Beside)
    }

    /// The limits of the route for the same requests as `rule`, if there is one that has some.
    #[must_use]
    pub fn limits_of(&self, rule: &Rule) -> Option<&RouteLimits> {
        let place = self.rules.rules().iter().position(|other| other.is_for_same(rule))?;
        self.limits.get(place)?.as_ref()
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
                route: 0,
                content: self.beside(path),
                captures: Captures::default(),
                path: None,
                admitted: Admitted::default(),
                body_size_max: self.body_size_max,
            });
        }
        let (method, host) = (head.method_name.of(bytes), head.host(bytes));
        let subject = Subject { method, host, path, is_secure };
        let (status, fields, text) = match self.rules.find(&subject) {
            Decision::Take { index, captures, path } => {
                let limits = self.limits[index].as_ref();
                let field = |name: &str| field_of(request, name);
                let admitted = limits
                    .map_or(Ok(Admitted::default()), |it| it.admit(address, field, request.now_ns))
                    .map_err(|much| Refusal { response: much.response(), is_too_much: true })?;
                let (content, body_size_max) = (self.contents[index], self.body_sizes_max[index]);
                let route = index;
                return Ok(Found { route, content, captures, path, admitted, body_size_max });
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
