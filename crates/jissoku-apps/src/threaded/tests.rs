//! Threads of an application behind a real server, with one thread per client.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;

use jissoku_os::socket::Endpoint;
use jissoku_server::{Server, Settings};
use pyo3::prelude::*;

use crate::{Interface, ServerInfo, serve_object};

const THREADS: usize = 3;

const APP: &std::ffi::CStr = c"
import threading

barrier = threading.Barrier(3)
opened = threading.Event()
hinted = threading.Event()
closed = []

class Endless:
    def __iter__(self):
        while True:
            yield bytes(65536)

    def close(self):
        closed.append(1)
        opened.set()

def app(environ, start_response):
    path = environ['PATH_INFO']
    start_response('200 OK', [('Connection', 'close')])
    if path == '/hinted':
        environ['wsgi.early_hints']([('Link', '</a>')])
        return [b'%d' % hinted.wait(20)]
    if path == '/seen':
        hinted.set()
    if path == '/meet':
        return [b'%d' % barrier.wait(20)]
    if path == '/stream':
        return (b'%d ' % threading.get_ident() for _ in range(20))
    if path == '/endless':
        return Endless()
    if path == '/closed':
        return [b'%d' % opened.wait(20)]
    body = environ['wsgi.input'].read()
    return [b'%d ' % environ['wsgi.multithread'] + threading.current_thread().name.encode() + body]
";

fn connect(address: SocketAddr, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.write_all(request.as_bytes()).expect("it is sent");
    stream
}

/// The response to a GET, without its head; chunks with their sizes.
fn ask(address: SocketAddr, path: &str) -> String {
    let mut stream = connect(address, &format!("GET {path} HTTP/1.0\r\nHost: a\r\n\r\n"));
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("a response");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    body.to_owned()
}

fn ask_at_once(address: SocketAddr, path: &'static str, count: usize) -> Vec<String> {
    let clients: Vec<_> = (0..count).map(|_| thread::spawn(move || ask(address, path))).collect();
    clients.into_iter().map(|client| client.join().expect("a response")).collect()
}

#[test]
fn threads_process_requests_at_once_and_end_with_the_server() {
    Python::initialize();
    let endpoint = Endpoint::Tcp("127.0.0.1:0".parse().expect("an address"));
    let server = Server::listen(Settings::new(endpoint)).expect("a listener");
    let listeners = server.endpoints();
    let Some(&Endpoint::Tcp(address)) = listeners.first() else { panic!("it is one of TCP") };
    let info = ServerInfo {
        listeners,
        secure_listeners: <_>::default(),
        is_multiprocess: false,
        threads: THREADS,
        body_memory_max: crate::BODY_MEMORY_MAX,
        root_path: String::new(),
        asgi: crate::environ::AsgiOptions::default(),
    };
    let service = Python::attach(|python| {
        let module =
            PyModule::from_code(python, APP, c"threads.py", c"threads").expect("it compiles");
        let app = module.getattr("app").expect("it is defined");
        serve_object(&app, Some(Interface::Wsgi), info, None).expect("an application")
    });
    let mut running = server.start(service).expect("it starts");

    // Requests that wait for each other need one thread each.
    let mut met = ask_at_once(address, "/meet", 2 * THREADS);
    met.sort();
    assert_eq!(met, ["0", "0", "1", "1", "2", "2"]);

    // More streams than threads, each on one thread.
    for stream in ask_at_once(address, "/stream", 12) {
        let threads: Vec<&str> = stream.split_whitespace().collect();
        assert_eq!(threads.len(), 20);
        assert!(threads.iter().all(|thread| *thread == threads[0]), "{stream}");
    }

    // After a client disconnects, its thread is idle again and `close` was called.
    for _ in 0..=THREADS {
        let mut left = connect(address, "GET /endless HTTP/1.1\r\nHost: a\r\n\r\n");
        left.read_exact(&mut [0; 1024]).expect("the beginning");
        drop(left);
        assert_eq!(ask(address, "/closed"), "1");
    }

    // Hints are sent while the application is called.
    let mut hinted = connect(address, "GET /hinted HTTP/1.1\r\nHost: a\r\n\r\n");
    let expected = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
    let mut hint = vec![0; expected.len()];
    hinted.read_exact(&mut hint).expect("a hint");
    assert_eq!(hint, expected);
    ask(address, "/seen");
    let mut text = String::new();
    hinted.read_to_string(&mut text).expect("a response");
    assert!(text.starts_with("HTTP/1.1 200 ") && text.ends_with("\r\n\r\n1"), "{text}");

    // A body, and the name of the thread.
    let request = "POST / HTTP/1.0\r\nHost: a\r\nContent-Length: 5\r\n\r\n body";
    let mut text = String::new();
    connect(address, request).read_to_string(&mut text).expect("a response");
    assert!(text.contains("\r\n\r\n1 jissoku-app-") && text.ends_with(" body"), "{text}");

    running.stop().expect("it stops");
    running.join().expect("it ends");
}
