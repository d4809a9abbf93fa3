//! What all workers share of a table of routes.

use std::net::IpAddr;
use std::sync::Arc;

use jissoku_server::{DynamicResponse, Files, Fixed, RequestHead};
use jissoku_upstream::routes::{Captures, Decision, Routes, Rule, Subject};

use super::limits::{Admitted, RouteLimits};
use crate::config::{Forwarding, Gateway};
use crate::gather::GatherRoute;

/// What serves the requests of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// The folder of this index. The path of the request is the path below it.
    Folder(usize),
    /// The text of this index.
    Fixed(usize),
    /// Another server.
    Forward(Forwarding),
    /// Several servers, by the plan of this index.
    Gather(usize),
    /// The application.
    App,
}

/// What a request gets.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) content: Content,
    /// The variables of its path.
    pub(super) captures: Captures,
    /// The path, if it is not passed as it came.
    pub(super) path: Option<Vec<u8>>,
    pub(super) admitted: Admitted,
    pub(super) body_size_max: u64,
}

/// Why a request gets no content.
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
    /// Referred to by [`Content::Folder`].
    pub folders: Vec<Arc<Files>>,
    /// Referred to by [`Content::Fixed`].
    pub texts: Vec<Arc<Fixed>>,
    /// Referred to by [`Content::Gather`].
    pub gathers: Vec<Arc<GatherRoute>>,
    /// Forwards requests.
    pub gateway: Arc<Gateway>,
}

impl RouteContent {
    /// The limits of the route for the same requests as `rule`, if there is one that has some.
    #[must_use]
    pub fn limits_of(&self, rule: &Rule) -> Option<&RouteLimits> {
        let place = self.rules.rules().iter().position(|other| other.is_for_same(rule))?;
        self.limits.get(place)?.as_ref()
    }

    /// What a request of a client at `address` gets; or the response if no route takes it, or it is
    /// too much.
    pub(super) fn find(
        &self,
        request: &RequestHead<'_>,
        address: Option<IpAddr>,
    ) -> Result<Found, Refusal> {
        let RequestHead { head, bytes, .. } = *request;
        let subject = Subject {
            method: head.method_name.of(bytes),
            host: head.host(bytes),
            path: request.path_and_query().0,
        };
        let (status, fields, text) = match self.rules.find(&subject) {
            Decision::Take { index, captures, path } => {
                let limits = self.limits[index].as_ref();
                let field = |name: &str| field_of(request, name);
                let admitted = limits
                    .map_or(Ok(Admitted::default()), |it| it.admit(address, field, request.now_ns))
                    .map_err(|much| Refusal { response: much.response(), is_too_much: true })?;
                let (content, body_size_max) = (self.contents[index], self.body_sizes_max[index]);
                return Ok(Found { content, captures, path, admitted, body_size_max });
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
