//! What a handler in Rust can do, by the path. `tests/c_handlers/test_rust.py` serves it.

use std::error::Error;
use std::fs::File;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use jissoku_handler::{
    Body, Chart, ChartKind, Handler, Later, Request, Response, Server, Store, StoreError, Ttl,
    handler,
};

/// How many requests a worker has had, and a body that is not copied.
struct Cases {
    count: u32,
    large: Arc<[u8]>,
}

impl Handler for Cases {
    fn start(_: Server) -> Result<Self, Box<dyn Error>> {
        Ok(Self { count: 0, large: vec![b'x'; 4 << 20].into() })
    }

    fn handle<'r>(&mut self, request: Request<'r>) -> Response<'r> {
        self.count += 1;
        match &*request.path() {
            "/count" => Response::text(self.count.to_string()),
            "/large" => Response::new(200).body(Arc::clone(&self.large)),
            "/echo" => Response::new(200).body(request.body()).field("X-Echo", "yes"),
            "/static" => Response::json(Body::Static(b"{}")).field("ETag", "\"v1\""),
            "/request" => shown(request),
            "/escape" => escaped(request),
            "/split" => Response::new(200).field("X-Name", request.query("x").unwrap_or_default()),
            "/error" => Response::from(number(request)),
            "/panic" => Response::text(request.query("absent").expect("as it is asked to")),
            "/after" => request.after(Duration::from_millis(10), |request| {
                Response::text(format!("later: {}", request.path()))
            }),
            "/thread" => in_thread(request),
            "/owned" => sent_by_thread(request, Arc::clone(&self.large)),
            "/file-of-thread" => Response::from(file_of_thread(request)),
            "/dropped" => request.defer(Duration::from_mins(1), drop),
            "/chart" => Response::from(drawn(request)),
            "/file" => Response::from(file(request)),
            "/parts" => {
                let parts = (0..5).map(|number| format!("part {number}\n").into_bytes());
                Response::text(Body::Parts(Box::new(parts)))
            }
            "/stream" => in_parts(request),
            "/store" => Response::from(counted(request)),
            "/redirect" => Response::redirect("/count"),
            _ => Response::text("nothing here").status(404),
        }
    }
}

fn shown(request: Request<'_>) -> Response<'_> {
    let fields = request.fields().into_iter().map(|(name, value)| format!("{name}={value}"));
    let lines = [
        request.method().to_owned(),
        request.path().into_owned(),
        request.client().unwrap_or_default().to_owned(),
        request.scheme().to_owned(),
        request.http_version().to_owned(),
        request.form("f").unwrap_or_default().into_owned(),
        request.field("HOST").unwrap_or_default().into_owned(),
        format!("{:?}", request.queries()),
    ];
    Response::text(lines.into_iter().chain(fields).collect::<Vec<_>>().join("\n"))
}

fn drawn(request: Request<'_>) -> Result<Response<'_>, String> {
    let title = request.query("title").unwrap_or_default();
    let values = [1.0, 2.5, 2.0];
    let chart = Chart { title: &title, series: &[("values", &values)], ..Chart::default() };
    let drawing = request.chart(ChartKind::Line, &chart)?;
    Ok(Response::new(200).content_type("image/svg+xml").body(drawing))
}

fn escaped(request: Request<'_>) -> Response<'_> {
    let text = request.query("t").unwrap_or_default();
    let (html, json) = (request.escape_html(&text), request.escape_json(&text));
    let mut random = [0; 16];
    let is_filled = request.server().random(&mut random) && random != [0; 16];
    let digest = request.sha256(b"")[0];
    let url = request.escape_url(&text);
    Response::text(format!("{html}\n{json}\n{url}\n{digest} {is_filled}"))
        .field("X-Date", request.http_date(784_111_777))
}

fn number(request: Request<'_>) -> Result<Response<'_>, std::num::ParseIntError> {
    let number: u64 = request.query("n").unwrap_or_default().parse()?;
    Ok(Response::text((number * 2).to_string()))
}

fn file(request: Request<'_>) -> io::Result<Response<'_>> {
    let file = File::open(&*request.query("name").unwrap_or_default())?;
    Ok(Response::new(200).body(Body::File(file, Some(2..7))))
}

fn in_parts(request: Request<'_>) -> Response<'_> {
    let write = |later: Later| -> io::Result<()> {
        let head = Response::new(201).field("X-Field", "of the thread");
        let Some(mut parts) = later.begin(&head, None) else { return Ok(()) };
        for number in 0..1000 {
            parts.write_all(format!("{number:01000}").as_bytes())?;
        }
        parts.end()
    };
    request.defer(Duration::from_mins(1), move |later| {
        // The thread goes on by itself.
        let _thread = thread::spawn(move || write(later));
    })
}

/// Uses each function of a store, and responds with what they return.
fn counted(request: Request<'_>) -> Result<Response<'_>, StoreError> {
    let store = Store::open(request.server(), "counts")?;
    let sum = store.increment("n", 2, Ttl::OfStore)?;
    store.put("a", [b'x'; 5000], Ttl::Never)?;
    let size = store.get("a")?.map(|value| value.len());
    let is_new = store.put_if_absent("a", "y", Ttl::For(Duration::from_secs(9)))?;
    let is_swapped = store.swap("b", None, "1", Ttl::OfStore)?;
    let is_swapped_back = store.swap("b", Some(b"1"), "2", Ttl::OfStore)?;
    let mut keys = Vec::new();
    store.scan("", |key, _| {
        keys.push(String::from_utf8_lossy(key).into_owned());
        if keys.len() < 2 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    let is_deleted = store.delete("b")?;
    store.put_many(&[("b", Some("3")), ("c", Some("4")), ("b", None)], Ttl::OfStore)?;
    let many = (store.get("b")?, store.get("c")?);
    let found = (sum, size, is_new, is_swapped, is_swapped_back, is_deleted, many);
    let failure = store.put("", "x", Ttl::OfStore).map_err(|error| error.to_string());
    Ok(Response::text(format!("{found:?} {keys:?} {failure:?}")))
}

fn in_thread(request: Request<'_>) -> Response<'_> {
    let name = request.query("name").unwrap_or_default().into_owned();
    let begin = |later: Later| {
        // The thread goes on by itself.
        let _thread = thread::spawn(move || {
            if later.is_wanted() {
                let text = format!("Hello from a thread, {name}!");
                later.respond_with(&Response::text(text).status(201));
            }
        });
    };
    request.defer(Duration::from_mins(1), begin).field("X-Field", "early")
}

fn sent_by_thread<B: Into<Body<'static>> + Send + 'static>(
    request: Request<'_>,
    body: B,
) -> Response<'_> {
    request.defer(Duration::from_mins(1), |later: Later| {
        // The thread goes on by itself.
        let _thread = thread::spawn(move || {
            later.send(Response::new(201).field("X-Field", "of the thread").body(body))
        });
    })
}

fn file_of_thread(request: Request<'_>) -> io::Result<Response<'_>> {
    Ok(sent_by_thread(request, File::open(&*request.query("name").unwrap_or_default())?))
}

handler!(Cases);
