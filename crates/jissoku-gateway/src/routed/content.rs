//! What all workers share of a table of routes.

use std::net::IpAddr;
use std::sync::Arc;

use jissoku_server::{DynamicResponse, Files, Fixed, RequestHead};
use jissoku_upstream::rate::Permit;
use jissoku_upstream::routes::{Captures, Decision, Routes, Subject};

use super::limits::RouteLimits;
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

/// Routes, and what serves their requests.
#[derive(Debug)]
pub struct RouteContent {
    /// Which route takes a request.
    pub rules: Routes,
    /// What serves each route's requests, in the same order.
    pub contents: Vec<Content>,
    /// The limits of each route, in the same order.
    pub limits: Vec<Option<RouteLimits>>,
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
    /// The content for a request of a client at `address`, the variables of its path, and what
    /// counts it; or the response if
    /// no route takes it, or it is too much.
    pub(super) fn find(
        &self,
        request: &RequestHead<'_>,
        address: Option<IpAddr>,
    ) -> Result<(Content, Captures, Option<Permit>), DynamicResponse> {
        let RequestHead { head, bytes, .. } = *request;
        let subject = Subject {
            method: head.method_name.of(bytes),
            host: head.host(bytes),
            path: request.path_and_query().0,
        };
        let (status, fields, text) = match self.rules.find(&subject) {
            Decision::Take { index, captures } => {
                let permit = match &self.limits[index] {
                    Some(limits) => limits.admit(address, request.now_ns)?,
                    None => None,
                };
                return Ok((self.contents[index], captures, permit));
            }
            Decision::MethodNotAllowed => {
                let allow = format!("Allow: {}\r\n", self.rules.allow(&subject).join(", "));
                (405, allow, "Method Not Allowed\n")
            }
            Decision::NotFound => (404, String::new(), "Not Found\n"),
            Decision::Refuse(_) => (400, String::new(), "Bad Request\n"),
        };
        Err(DynamicResponse::text(status, &fields, text.as_bytes()))
    }
}
