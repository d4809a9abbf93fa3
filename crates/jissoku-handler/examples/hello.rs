//! Greets: `jissoku serve target/release/examples/libhello.so`, then /?name=Rust.

use jissoku_handler::{Request, Response, handler};

fn hello(request: Request<'_>) -> Response<'_> {
    let name = request.query("name").unwrap_or_default();
    Response::text(format!("Hello, {name}!"))
}

handler!(fn hello);
