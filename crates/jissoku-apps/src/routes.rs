//! An application beside other contents.

use std::sync::Arc;

use jissoku_gateway::RouteContent;
use jissoku_server::{AnyService, Service};

/// An application as the content of a server: of all requests, or of those that routes name.
pub(crate) fn with_routes(app: impl Service, routes: Option<&Arc<RouteContent>>) -> AnyService {
    match routes {
        Some(routes) => routes.with(app).into(),
        None => app.into(),
    }
}
