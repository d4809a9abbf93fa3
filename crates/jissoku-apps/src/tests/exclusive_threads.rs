//! From the call of the application to the end of `close` a thread belongs to one request, whatever
//! the application returns and its client does.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use jissoku_os::driver::Backend;
use jissoku_os::socket::Endpoint;
use jissoku_os::uring;
use jissoku_server::{RunningServer, Server, Settings};
use proptest::prelude::*;
use pyo3::prelude::*;

use crate::{Interface, ServerInfo, serve_object};

/// Longer than anything here takes; it turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(30);

/// A path is `/KIND/PARTS/SIZE/FAILS_AT`.
const APP: &std::ffi::CStr = c"
import contextvars, threading

active, faults = {}, []
counts = {'called': 0, 'ended': 0}
current = contextvars.ContextVar('current', default=None)
local = threading.local()
lock = threading.Lock()

class Open:
    def __init__(self, path):
        thread = threading.get_ident()
        if thread in active or current.get() is not None or getattr(local, 'path', None):
            faults.append(f'{path} is called while {active.get(thread)} is open')
        self.thread, self.path = thread, path
        active[thread], local.path, self.token = self, path, current.set(self)
        with lock:
            counts['called'] += 1

    def check(self, what):
        if active.get(threading.get_ident()) is not self or current.get() is not self:
            faults.append(f'{what} of {self.path} outside of its request')

    def end(self):
        self.check('the end')
        current.reset(self.token)
        local.path = None
        active.pop(self.thread, None)
        with lock:
            counts['ended'] += 1

class Parts:
    def __init__(self, opened, count, size, fails_at):
        self.opened, self.count, self.size, self.fails_at, self.at = opened, count, size, fails_at, 0

    def __iter__(self):
        return self

    def __next__(self):
        self.opened.check('a part')
        if self.at == self.fails_at:
            raise ValueError('a part')
        if self.at == self.count:
            raise StopIteration
        self.at += 1
        return bytes(self.size)

    def close(self):
        self.opened.end()

def app(environ, start_response):
    kind, *numbers = environ['PATH_INFO'][1:].split('/')
    if kind == 'state':
        start_response('200 OK', [('Connection', 'close')])
        return [f'{len(active)} {counts[\"called\"] - counts[\"ended\"]} {faults[:3]}'.encode()]
    count, size, fails_at = map(int, numbers)
    opened = Open(environ['PATH_INFO'])
    if kind in ('list', 'call'):
        try:
            if kind == 'call':
                raise ValueError('the call')
            start_response('200 OK', [])
            return [bytes(size) for _ in range(count)]
        finally:
            opened.end()
    headers = [('Content-Length', str(count * size))] if kind == 'sized' else []
    write = start_response('200 OK', headers)
    if kind == 'write':
        write(bytes(size))
        opened.check('write')
    return Parts(opened, count, size, fails_at)

def quiet():
    import io, sys
    sys.stderr = io.StringIO()
";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    All,
    Slowly,
    /// Leaves after N bytes.
    Some(usize),
    None,
}

/// The requests of one client, sent together, and how it reads their responses.
#[derive(Clone, Debug)]
struct Client {
    paths: Vec<String>,
    reading: Reading,
}

fn path() -> impl Strategy<Value = String> {
    let kind = prop_oneof![
        3 => Just("iterable"),
        2 => Just("sized"),
        1 => Just("write"),
        1 => Just("list"),
        1 => Just("call"),
    ];
    let size = prop_oneof![4 => 0_usize..2_000, 1 => Just(300_000_usize)];
    let fails_at = prop_oneof![3 => Just(1_000_usize), 1 => 0_usize..4];
    (kind, 0_usize..6, size, fails_at)
        .prop_map(|(kind, count, size, fails_at)| format!("/{kind}/{count}/{size}/{fails_at}"))
}

fn client() -> impl Strategy<Value = Client> {
    let reading = prop_oneof![
        4 => Just(Reading::All),
        2 => Just(Reading::Slowly),
        1 => (0_usize..4_000).prop_map(Reading::Some),
        1 => Just(Reading::None),
    ];
    let paths = prop::collection::vec(path(), 1..4);
    (paths, reading).prop_map(|(paths, reading)| Client { paths, reading })
}

fn connect(address: SocketAddr, requests: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
    stream.write_all(requests.as_bytes()).expect("it is sent");
    stream
}

fn play(address: SocketAddr, client: &Client) {
    let last = client.paths.len() - 1;
    let request = |(index, path): (usize, &String)| {
        let close = if index == last { "Connection: close\r\n" } else { "" };
        format!("GET {path} HTTP/1.1\r\nHost: a\r\n{close}\r\n")
    };
    let requests: String = client.paths.iter().enumerate().map(request).collect();
    let mut stream = connect(address, &requests);
    let mut buffer = vec![0; if client.reading == Reading::Slowly { 1_024 } else { 65_536 }];
    let mut left = match client.reading {
        Reading::All | Reading::Slowly => usize::MAX,
        Reading::Some(size) => size,
        Reading::None => 0,
    };
    while left > 0 {
        match stream.read(&mut buffer) {
            Ok(size @ 1..) => left = left.saturating_sub(size),
            // The server may end the connection after an error, with unread requests.
            Ok(0) => return,
            Err(error) => {
                assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{client:?}");
                return;
            }
        }
        thread::yield_now();
    }
}

fn state(address: SocketAddr) -> String {
    let mut text = String::new();
    let request = "GET /state HTTP/1.1\r\nHost: a\r\n\r\n";
    connect(address, request).read_to_string(&mut text).expect("a response");
    text.rsplit_once("\r\n").map_or(text.clone(), |(_, body)| body.to_owned())
}

/// A server of the application, and its address.
fn start(threads: usize, backend: Backend) -> (RunningServer, SocketAddr) {
    let endpoint = Endpoint::Tcp("127.0.0.1:0".parse().expect("an address"));
    let mut settings = Settings::new(endpoint);
    settings.driver.backend = backend;
    let server = Server::listen(settings).expect("a listener");
    let listeners = server.endpoints();
    let Some(&Endpoint::Tcp(address)) = listeners.first() else { panic!("it is one of TCP") };
    let info = ServerInfo {
        listeners,
        secure_listeners: <_>::default(),
        is_multiprocess: false,
        threads,
        body_memory_max: crate::BODY_MEMORY_MAX,
        root_path: String::new(),
        asgi: crate::environ::AsgiOptions::default(),
    };
    let service = Python::attach(|python| {
        let module = PyModule::from_code(python, APP, c"exclusive.py", c"exclusive");
        let module = module.expect("it compiles");
        // The tracebacks are not part of the result.
        module.call_method0("quiet").expect("it is defined");
        let app = module.getattr("app").expect("it is defined");
        serve_object(&app, Some(Interface::Wsgi), info, None).expect("an application")
    });
    (server.start(service).expect("it starts"), address)
}

#[test]
fn a_thread_belongs_to_one_request_until_its_close_was_called() {
    Python::initialize();
    let mut backends = vec![Backend::Epoll];
    backends.extend(uring::is_available().then_some(Backend::Uring));
    for (backend, threads) in backends.into_iter().flat_map(|it| [(it, 0), (it, 2)]) {
        let (mut running, address) = start(threads, backend);
        let clients = prop::collection::vec(client(), 8);
        let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) };
        proptest!(config, |(clients in clients)| {
            thread::scope(|scope| {
                for client in &clients {
                    scope.spawn(move || play(address, client));
                }
            });
            // A thread may still have to notice that its client has left.
            let ended = (0..10_000).map(|_| state(address)).find(|it| it.starts_with("0 0 "));
            prop_assert_eq!(ended.unwrap_or_else(|| state(address)), "0 0 []");
        });
        running.stop().expect("it stops");
        running.join().expect("it ends");
    }
}
