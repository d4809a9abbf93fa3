//! The common contract of the laboratory's targets, for its recipe `jissoku-rust`; `jissoku serve`
//! serves /files/ itself.

use std::time::Duration;

use jissoku_handler::{Request, Response, handler};

const DELAY_MS_MAX: u64 = 60_000;

fn hello() -> Response<'static> {
    Response::new(200).content_type("text/plain").body("Hello, World!")
}

fn contract(request: Request<'_>) -> Response<'_> {
    match &*request.path() {
        "/" => hello(),
        "/delay" => match request.query("ms").and_then(|ms| ms.parse().ok()) {
            Some(ms @ 0..=DELAY_MS_MAX) => request.after(Duration::from_millis(ms), |_| hello()),
            _ => Response::new(404),
        },
        _ => Response::new(404),
    }
}

handler!(fn contract);
