//! An application beside other contents.

use std::sync::Arc;

use jissoku_gateway::RouteContent;
use jissoku_server::{AnyService, Mount, Service, WithFiles};

/// An application as the content of a server. It gets all requests, or those of its routes, or
/// those outside the `--static` directories.
pub(crate) fn content_of(
    app: impl Service,
    routes: Option<&Arc<RouteContent>>,
    mounts: &[Mount],
) -> AnyService {
    match routes {
        Some(routes) => routes.with(app).into(),
        None if mounts.is_empty() => app.into(),
        None => WithFiles::new(app, mounts).into(),
    }
}
