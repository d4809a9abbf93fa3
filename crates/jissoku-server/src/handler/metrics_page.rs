//! The `/metrics` page.

use jissoku_http::Method;

use super::{BodyPart, DynamicResponse, ResponseBody, ResponseKind, ResponsePlan, path_of};
use crate::metrics::Metrics;

const PATH: &[u8] = b"/metrics";

pub(super) fn plan(metrics: &Metrics, method: Method, path_and_query: &[u8]) -> ResponsePlan {
    let plain = "Content-Type: text/plain\r\n";
    let (status, fields, body) = match (path_of(path_and_query), method) {
        (PATH, Method::Get | Method::Head) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            (200, format!("Content-Type: {kind}\r\nCache-Control: no-store\r\n"), metrics.text())
        }
        (PATH, _) => {
            (405, format!("Allow: GET, HEAD\r\n{plain}"), "Method Not Allowed\n".to_owned())
        }
        _ => (404, plain.to_owned(), "Not Found: see /metrics\n".to_owned()),
    };
    let head = format!("{fields}Content-Length: {}\r\n\r\n", body.len()).into_bytes();
    let body = ResponseBody { parts: vec![BodyPart::Bytes(body.into_bytes())] };
    ResponsePlan::new(
        ResponseKind::Dynamic(Box::new(DynamicResponse { status, head, body })),
        method,
    )
}
