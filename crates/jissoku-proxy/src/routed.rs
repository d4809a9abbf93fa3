//! A table of routes: each request is served by the first route that takes it.
//!
//! The application of a route has a type of its own, so it is a type parameter: a worker calls it
//! without dynamic dispatch, as it does without routes.

mod content;
mod handler;
mod limits;

use std::io;
use std::sync::Arc;

use handler::RoutedHandler;
use jissoku_os::driver::NewConnection;
use jissoku_server::{Handler, Metrics, Progress, RequestHead, Response, Service, WorkerInfo};

pub use content::{Content, RouteContent, RouteEntry, TextWithFields};
pub use limits::RouteLimits;

/// Serves what the routes name; `A` is the application.
#[derive(Debug)]
pub struct Routed<A> {
    content: Arc<RouteContent>,
    app: Arc<A>,
}

/// The application of routes that name none. It has no requests.
#[derive(Debug)]
pub struct NoApp;

impl RouteContent {
    /// With `app` for the routes that name it.
    pub fn with<A: Service>(self: &Arc<Self>, app: A) -> Routed<A> {
        Routed { content: Arc::clone(self), app: Arc::new(app) }
    }

    /// Without an application.
    pub fn without_app(self: &Arc<Self>) -> Routed<NoApp> {
        self.with(NoApp)
    }
}

impl<A: Service> Service for Routed<A> {
    type Handler = RoutedHandler<A::Handler>;

    fn handler(self: &Arc<Self>, worker: &WorkerInfo) -> io::Result<Self::Handler> {
        let app = self.app.handler(worker)?;
        RoutedHandler::new(Arc::clone(&self.content), app, worker)
    }

    fn run_worker(&self, worker: &mut dyn FnMut()) {
        self.app.run_worker(worker);
    }

    fn report_to(&self, metrics: &Metrics) {
        self.app.report_to(metrics);
        for files in &self.content.folders {
            files.report_to(metrics);
        }
        self.content.gateway.report_to(metrics);
        for limits in self.content.routes.iter().flat_map(|route| &route.limits) {
            limits.report_to(metrics);
        }
    }
}

impl Service for NoApp {
    type Handler = NoAppHandler;

    fn handler(self: &Arc<Self>, _: &WorkerInfo) -> io::Result<NoAppHandler> {
        Ok(NoAppHandler)
    }
}

/// Is never asked for a response.
#[derive(Debug)]
pub struct NoAppHandler;

impl Handler for NoAppHandler {
    type Connection = ();
    type Request = ();

    fn on_open(&mut self, _: &NewConnection<'_>) {}

    fn on_head(&mut self, (): &mut (), _: &RequestHead<'_>) {}

    fn respond(&mut self, (): &mut (), (): &mut (), response: &mut Response<'_>) -> Progress {
        response.close_after();
        Progress::Reset
    }
}
