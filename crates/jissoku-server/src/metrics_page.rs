//! The server's metrics as a page: `/metrics`.

use std::io;
use std::sync::Arc;

use jissoku_http::Method;
use jissoku_os::driver::NewConnection;

use crate::handler::{BodyFlow, Handler, Progress, RequestHead, Service, WorkerInfo};
use crate::metrics::Metrics;
use crate::response::{BodyPart, DynamicResponse, Response};

const PATH: &[u8] = b"/metrics";

/// Serves the metrics of a server.
#[derive(Debug)]
pub struct MetricsPage(Arc<Metrics>);

impl MetricsPage {
    /// Serves `metrics`.
    pub const fn new(metrics: Arc<Metrics>) -> Self {
        Self(metrics)
    }

    fn response(&self, request: &RequestHead<'_>) -> DynamicResponse {
        match (request.path_and_query().0, request.method()) {
            (PATH, Method::Get | Method::Head) => {
                let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
                let fields = format!("Content-Type: {kind}\r\nCache-Control: no-store\r\n");
                let body = vec![BodyPart::Bytes(self.0.text().into_bytes())];
                DynamicResponse::new(200, &fields, body)
            }
            (PATH, _) => {
                DynamicResponse::text(405, "Allow: GET, HEAD\r\n", b"Method Not Allowed\n")
            }
            _ => DynamicResponse::text(404, "", b"Not Found: see /metrics\n"),
        }
    }
}

impl Service for MetricsPage {
    type Handler = Arc<Self>;

    fn handler(self: &Arc<Self>, _: &WorkerInfo) -> io::Result<Arc<Self>> {
        Ok(Arc::clone(self))
    }
}

impl Handler for Arc<MetricsPage> {
    type Connection = ();
    type Request = DynamicResponse;

    fn on_open(&mut self, _: &NewConnection<'_>) {}

    fn on_head(&mut self, (): &mut (), request: &RequestHead<'_>) -> DynamicResponse {
        self.response(request)
    }

    fn body_flow(&self, _: &DynamicResponse) -> BodyFlow {
        BodyFlow::Ignored
    }

    fn respond(
        &mut self,
        (): &mut (),
        request: &mut DynamicResponse,
        response: &mut Response<'_>,
    ) -> Progress {
        response.send_dynamic(request);
        Progress::Complete
    }
}
