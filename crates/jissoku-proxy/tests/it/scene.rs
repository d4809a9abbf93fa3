//! Scripted servers, a proxy in front of them, and a client of it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use jissoku_os::driver::Backend;
use jissoku_proxy::{Gateway, Target, Timeouts};
use jissoku_server::{DynService, RunningServer, Server, Settings};

/// Longer than anything here takes; it turns a hang into a failure.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// More than sockets and the proxy hold together, so that one side has to wait for the other.
pub(crate) const LARGE: usize = 16 * 1024 * 1024;

pub(crate) const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// The drivers of this kernel.
pub(crate) fn backends() -> impl Iterator<Item = Backend> {
    let is_there = |backend: &_| *backend == Backend::Epoll || jissoku_os::uring::is_available();
    [Backend::Epoll, Backend::Uring].into_iter().filter(is_there)
}

pub(crate) fn settings(backend: Backend) -> Settings {
    let mut settings = Settings::new("127.0.0.1:0".parse().expect("an address"));
    settings.driver.backend = backend;
    settings.limits.request.body_size_max = LARGE as u64;
    settings
}

/// A running proxy, and its address.
pub(crate) fn start(settings: Settings, service: impl Into<DynService>) -> (RunningServer, String) {
    let server = Server::listen(settings).expect("a place to listen");
    let address = server.endpoints()[0].to_string();
    (server.start(service).expect("workers start"), address)
}

pub(crate) fn connect(address: &str) -> TcpStream {
    let client = TcpStream::connect(address).expect("it listens");
    client.set_read_timeout(Some(PATIENCE)).expect("a socket has options");
    client
}

/// A listener, and its address.
pub(crate) fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it has an address").to_string();
    (listener, address)
}

pub(crate) fn accept(listener: &TcpListener) -> TcpStream {
    let (stream, _) = listener.accept().expect("the proxy connects");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket has options");
    stream
}

pub(crate) fn read_until(stream: &mut impl Read, is_enough: impl Fn(&str) -> bool) -> String {
    let mut text = String::new();
    while !is_enough(&text) {
        let mut byte = [0];
        // As opposed to `read`, this goes on after a signal, which the end of a ring sends.
        let outcome = stream.read_exact(&mut byte);
        assert!(outcome.is_ok(), "{outcome:?} after {text:?}");
        text.push(char::from(byte[0]));
    }
    text
}

pub(crate) fn read_head(stream: &mut impl Read) -> String {
    read_until(stream, |text| text.ends_with("\r\n\r\n"))
}

pub(crate) fn read_to_end(stream: &mut impl Read) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("it ends in order");
    text
}

/// A proxy, and a client of it.
pub(crate) struct Scene {
    pub(crate) client: TcpStream,
    pub(crate) address: String,
    _proxy: RunningServer,
}

impl Scene {
    pub(crate) fn new(target: &str, backend: Backend, timeouts: Timeouts) -> Self {
        let target: Target = target.parse().expect("an address");
        let mut gateway = Gateway::new(target, timeouts);
        gateway.via_name = "jissoku".into();
        let (proxy, address) = start(settings(backend), gateway);
        Self { client: connect(&address), address, _proxy: proxy }
    }

    pub(crate) fn send(&mut self, text: &str) {
        self.client.write_all(text.as_bytes()).expect("room to send");
    }

    pub(crate) fn get(&mut self, method: &str) {
        self.send(&format!("{method} / HTTP/1.1\r\nHost: h\r\n\r\n"));
    }

    pub(crate) fn head(&mut self) -> String {
        read_head(&mut self.client)
    }

    /// The status of a response with a body of `size` bytes, and that body.
    pub(crate) fn response(&mut self, size: usize) -> (String, String) {
        let head = self.head();
        let body = read_until(&mut self.client, |text| text.len() == size);
        (head[9..12].to_owned(), body)
    }

    pub(crate) fn rest(&mut self) -> String {
        read_to_end(&mut self.client)
    }
}

/// Plays `scene` in front of `target`, a server whose connections `accept` returns to `upstream`.
pub(crate) fn play_at<U: 'static>(
    target: &str,
    backend: Backend,
    mut accept: impl FnMut() -> U + Send + 'static,
    upstream: fn(&mut dyn FnMut() -> U),
    scene: impl Fn(&mut Scene),
) {
    let server = thread::spawn(move || upstream(&mut accept));
    scene(&mut Scene::new(target, backend, Timeouts::DEFAULT));
    server.join().expect("the script is played to its end");
}
