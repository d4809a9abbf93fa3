//! Memory per request: none in steady state, and a bounded amount for a client that does not read.
//!
//! A separate binary, because an allocator belongs to a whole process. It counts allocations of all
//! threads except the client's.

mod counting;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use jissoku_lab::fixtures::{Contract, Echo, FortyTwo};
use jissoku_os::driver::Backend;
use jissoku_os::socket::Endpoint;
use jissoku_os::uring;
use jissoku_server::{
    AccessLog, DynService, Files, FilesOptions, Fixed, LogFormat, Metrics, RunningServer, Server,
    Settings, TelemetryConfig,
};

/// A limit that no test reaches; it turns a hang into a failure.
const PATIENCE: Duration = Duration::from_mins(1);

/// Clients that do not read, and how long each waits until it assumes that the client does not read
/// its requests either.
const STALLED: u64 = 2;
const LULL: Duration = Duration::from_millis(200);

/// Rounds until all buffers have their size, and rounds that are counted.
const ROUNDS_BEFORE: usize = 50;
const ROUNDS: usize = 300;

/// Header fields of a browser.
const BROWSER: &str = "Host: localhost:8000\r\nConnection: keep-alive\r\nCache-Control: max-age=0\r\n\
    sec-ch-ua: \"Chromium\";v=\"130\", \"Not?A_Brand\";v=\"99\"\r\nsec-ch-ua-mobile: ?0\r\n\
    sec-ch-ua-platform: \"Linux\"\r\nUpgrade-Insecure-Requests: 1\r\nUser-Agent: Mozilla/5.0 (X11; Linux \
    x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36\r\nAccept: text/html,\
    application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\nSec-Fetch-Site: none\r\n\
    Sec-Fetch-Mode: navigate\r\nSec-Fetch-User: ?1\r\nSec-Fetch-Dest: document\r\nAccept-Language: \
    en-GB,en;q=0.9\r\nCookie: session=0123456789abcdef0123456789abcdef; theme=dark\r\n\r\n";

/// A worker, and one connection to it.
struct Scene {
    running: RunningServer,
    client: TcpStream,
}

impl Scene {
    fn new(service: impl Into<DynService>, backend: Backend) -> Self {
        Self::observed(service, backend, TelemetryConfig::default())
    }

    fn observed(
        service: impl Into<DynService>,
        backend: Backend,
        telemetry: TelemetryConfig,
    ) -> Self {
        let mut settings = Settings::new("127.0.0.1:0".parse().expect("an address"));
        settings.driver.backend = backend;
        settings.telemetry = telemetry;
        settings.limits.pace_grace_ns = u64::MAX;
        let server = Server::listen(settings).expect("the address is free");
        let Some(Endpoint::Tcp(address)) = server.endpoints().pop() else {
            unreachable!("it listens on TCP");
        };
        let running = server.start(service).expect("the worker starts");
        Self { running, client: connect(address) }
    }

    fn address(&self) -> SocketAddr {
        self.client.peer_addr().expect("it is connected")
    }

    /// Sends `request` and reads a response of `size` bytes, without allocating.
    fn exchange(&mut self, request: &[u8], mut left: usize) {
        self.client.write_all(request).expect("it can be sent");
        let mut buffer = [0; 16 * 1024];
        while left > 0 {
            let most = left.min(buffer.len());
            match self.client.read(&mut buffer[..most]) {
                // A read with a timeout is not restarted by the kernel (`signal(7)`).
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => {
                    let size = read.expect("the response arrives");
                    assert!(size > 0, "the connection ended");
                    left -= size;
                }
            }
        }
    }

    /// The size of the response to `request`.
    fn measure(&self, request: &[u8]) -> usize {
        let last = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        self.measure_all(&[request, last].concat()) - self.measure_all(last)
    }

    /// The size of all responses to `requests`, of which the last closes the connection.
    fn measure_all(&self, requests: &[u8]) -> usize {
        let mut client = connect(self.address());
        client.write_all(requests).expect("it can be sent");
        let mut answers = Vec::new();
        client.read_to_end(&mut answers).expect("the responses arrive");
        answers.len()
    }

    fn end(mut self) {
        self.running.abandon().expect("the worker is woken");
        self.running.join().expect("the worker exits without an error");
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    let client = TcpStream::connect(address).expect("the server listens");
    client.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
    client.set_nodelay(true).expect("small segments may leave");
    client
}

/// Requests in every form that is answered from memory.
fn requests(paths: &[&str]) -> Vec<Vec<u8>> {
    let mut requests = Vec::new();
    for path in paths {
        let get = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
        requests.push(get.repeat(16));
        requests.push(get);
        requests.push(format!("GET {path} HTTP/1.1\r\n{BROWSER}"));
        requests.push(format!("HEAD {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        requests.push(format!("GET {path} HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
        requests.push(format!("GET http://a{path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let post = format!("POST {path} HTTP/1.1\r\nHost: a\r\n");
        requests.push(format!("{post}Content-Length: 5\r\n\r\nhello"));
        requests
            .push(format!("{post}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nT: u\r\n\r\n"));
    }
    requests.into_iter().map(String::into_bytes).collect()
}

/// The number of allocations while `request` is answered repeatedly.
fn count(scene: &mut Scene, request: &[u8]) -> u64 {
    let size = scene.measure(request);
    (0..ROUNDS_BEFORE).for_each(|_| scene.exchange(request, size));
    let before = counting::allocations();
    (0..ROUNDS).for_each(|_| scene.exchange(request, size));
    counting::allocations() - before
}

fn check(what: &str, service: impl Into<DynService>, backend: Backend, paths: &[&str]) {
    let mut scene = Scene::new(service, backend);
    for request in requests(paths) {
        let count = count(&mut scene, &request);
        let request = String::from_utf8_lossy(&request);
        assert_eq!(
            count, 0,
            "allocations in {ROUNDS} rounds with {what}, {backend:?}: {request:?}"
        );
    }
    scene.end();
}

/// With a log and metrics, memory is allocated per batch of log records, and only until there are
/// enough batches to reuse.
fn check_observed(backend: Backend) {
    let path = std::env::temp_dir().join(format!("jissoku-hot-{}.log", std::process::id()));
    let log = AccessLog::open(&path, LogFormat::Combined, |_| (), &<_>::default())
        .expect("a log can be opened");
    let telemetry =
        TelemetryConfig { log: Some(log.sink().clone()), metrics: Some(Metrics::new(None)) };
    let service = Fixed::new("Hello");
    let mut scene = Scene::observed(service, backend, telemetry);
    let request = "GET / HTTP/1.1\r\nHost: a\r\nReferer: b\r\nUser-Agent: c\r\n\r\n".repeat(16);
    let count = count(&mut scene, request.as_bytes());
    assert!(count < ROUNDS as u64 / 4, "{count} allocations in {ROUNDS} rounds, {backend:?}");
    scene.end();
    assert!(log.finish(PATIENCE).is_some());
    std::fs::remove_file(&path).expect("it was created here");
}

/// Sends requests from clients that do not read, until the server receives no more: returns the
/// bytes that it holds for each.
fn hold(service: impl Into<DynService>, backend: Backend) -> u64 {
    let scene = Scene::new(service, backend);
    // After a response, the buffers of the worker itself are allocated.
    scene.measure(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let before = counting::held_since(0);
    let requests = "GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(10_000);
    let clients: Vec<_> = (0..STALLED)
        .map(|_| {
            let mut client = connect(scene.address());
            client.set_write_timeout(Some(LULL)).expect("a timeout can be set");
            while client.write_all(requests.as_bytes()).is_ok() {}
            client
        })
        .collect();
    let held = counting::held_since(before) / STALLED;
    drop(clients);
    scene.end();
    held
}

/// A folder with a small and a large file.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("jissoku-hot-{}", std::process::id()));
        std::fs::create_dir(&path).expect("a folder can be made");
        std::fs::write(path.join("small.html"), "small").expect("a file can be written");
        std::fs::write(path.join("large.bin"), vec![b'x'; 20_000]).expect("a file can be written");
        Self(path)
    }

    fn service(&self) -> Files {
        // Revalidation is not part of a request in steady state.
        let options =
            FilesOptions { revalidate: Duration::from_hours(1), ..FilesOptions::default() };
        Files::open(&self.0, options).expect("the folder can be read")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

/// One test, because several would count each other's.
#[test]
fn requests_allocate_nothing_in_steady_state() {
    counting::exclude_this_thread();
    let none = Duration::ZERO;
    let folder = Folder::new();
    for backend in drivers() {
        check_observed(backend);
        let fixed = |text: &str| Fixed::new(text);
        check("a fixed text", fixed("Hello"), backend, &["/"]);
        let contract = Contract::new(None, none, 0);
        check("the contract", contract, backend, &["/", "/42", "/nothing", "/delay?ms=0"]);
        check("42", FortyTwo::new(), backend, &["/"]);
        check("files", folder.service(), backend, &["/small.html", "/nothing"]);
        check("a large fixed text", fixed(&"x".repeat(20_000)), backend, &["/"]);
        check("large files", folder.service(), backend, &["/large.bin"]);
        for text in ["Hello", &"x".repeat(8_000)] {
            let (size, held) = (text.len(), hold(fixed(text), backend));
            assert!(
                held <= 64 * 1024,
                "{held} bytes are held for a client that does not read responses of {size} bytes, {backend:?}"
            );
        }
        let contract = Contract::new(None, Duration::from_micros(20), 0);
        // One at a time: requests behind a delayed one are buffered until it is answered.
        let mut scene = Scene::new(contract, backend);
        assert_eq!(count(&mut scene, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"), 0, "delays allocate");
        scene.end();
        // A generated response allocates: the counter works.
        let mut scene = Scene::new(Echo::new(), backend);
        let count = count(&mut scene, b"GET /echo HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(count >= ROUNDS as u64, "{count} allocations were noticed");
        scene.end();
    }
}

fn drivers() -> Vec<Backend> {
    if uring::is_available() {
        return vec![Backend::Epoll, Backend::Uring];
    }
    let why = "skipped for io_uring: this kernel lacks it, or keeps it from us";
    // If standard error is closed, there is no reader.
    let _written = writeln!(std::io::stderr(), "{why}");
    vec![Backend::Epoll]
}
