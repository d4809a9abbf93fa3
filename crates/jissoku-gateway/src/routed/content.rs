//! What all workers share of a table of routes.

use std::sync::Arc;

use jissoku_server::{DynamicResponse, Files, Fixed, RequestHead};
use jissoku_upstream::routes::{Decision, Routes, Subject};

use crate::config::{Forwarding, Gateway};

/// What serves the requests of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// The folder of this index. The path of the request is the path below it.
    Folder(usize),
    /// The text of this index.
    Fixed(usize),
    /// Another server.
    Forward(Forwarding),
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
    /// Referred to by [`Content::Folder`].
    pub folders: Vec<Arc<Files>>,
    /// Referred to by [`Content::Fixed`].
    pub texts: Vec<Arc<Fixed>>,
    /// Forwards requests.
    pub gateway: Arc<Gateway>,
}

impl RouteContent {
    /// The content for a request, or the response if no route takes it.
    pub(super) fn find(&self, request: &RequestHead<'_>) -> Result<Content, DynamicResponse> {
        let RequestHead { head, bytes, .. } = *request;
        let subject = Subject {
            method: head.method_name.of(bytes),
            host: head.host(bytes),
            path: request.path_and_query().0,
        };
        let (status, fields, text) = match self.rules.find(&subject) {
            Decision::Take { index, .. } => match self.contents.get(index) {
                Some(content) => return Ok(*content),
                None => (404, String::new(), "Not Found\n"),
            },
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
