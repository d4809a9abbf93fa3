//! A server under test, and a client that reads exact responses.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use jissoku_lab::fixtures::Contract;
use jissoku_os::epoll::{Epoll, Interest, no_event};
use jissoku_os::socket::Endpoint;
use jissoku_server::{DynService, RunningServer, Server, Settings};

/// A limit that no test reaches; it turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a slow client waits for an event, and how often: 40 s in total.
const LULL: Duration = Duration::from_millis(20);
const LULLS_MAX: u32 = 2_000;

pub(crate) fn free_port() -> Endpoint {
    "127.0.0.1:0".parse().expect("an address")
}

/// Waits until `is_so`, and fails after a limit that no test reaches.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin_ns = jissoku_os::clock::monotonic_ns();
    while !is_so() {
        let waited = Duration::from_nanos(jissoku_os::clock::monotonic_ns() - begin_ns);
        assert!(waited < PATIENCE, "timed out: {what}");
        thread::yield_now();
    }
}

/// The benchmark contract without files.
pub(crate) fn contract() -> Contract {
    Contract::new(None, Duration::ZERO, 0)
}

/// A path that no other test uses.
pub(crate) fn fresh_path() -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("jissoku-server-{}-{number}", std::process::id()))
}

/// One request on each connection at the same time.
pub(crate) fn ask_all(clients: &mut [Client]) {
    for client in &mut *clients {
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    for client in clients {
        assert_eq!(client.answer().status, 200);
    }
}

/// A server that ends with its test, whatever its connections do.
pub(crate) struct Running(Option<RunningServer>);

impl Running {
    pub(crate) fn start(server: Server, service: impl Into<DynService>) -> Self {
        Self(Some(server.start(service).expect("workers start")))
    }

    /// Waits for workers that have been stopped.
    pub(crate) fn join(mut self) {
        let running = self.0.take().expect("it is joined once");
        running.join().expect("the workers exit without an error");
    }
}

impl Deref for Running {
    type Target = RunningServer;

    fn deref(&self) -> &RunningServer {
        self.0.as_ref().expect("it is not joined")
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut RunningServer {
        self.0.as_mut().expect("it is not joined")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(mut running) = self.0.take().filter(|_| !thread::panicking()) else { return };
        running.abandon().expect("the workers are woken");
        running.join().expect("the workers exit without an error");
    }
}

/// A running server and its address.
pub(crate) struct Target {
    pub(crate) running: Running,
    pub(crate) endpoint: Endpoint,
}

impl Target {
    pub(crate) fn start(mut settings: Settings, service: impl Into<DynService>) -> Self {
        settings.driver.backend = crate::driver();
        let server = Server::listen(settings).expect("the address is free");
        let endpoint = server.endpoints()[0].clone();
        Self { running: Running::start(server, service), endpoint }
    }

    /// One worker on a free port.
    pub(crate) fn serve(service: impl Into<DynService>) -> Self {
        Self::start(Settings::new(free_port()), service)
    }

    pub(crate) fn try_connect(&self) -> io::Result<Client> {
        Client::connect(&self.endpoint)
    }

    pub(crate) fn connect(&self) -> Client {
        self.try_connect().expect("the server listens")
    }

    /// One request on a connection of its own.
    pub(crate) fn ask(&self, request: &str) -> Answer {
        let mut client = self.connect();
        client.send(request);
        client.answer()
    }

    /// Stops the workers gracefully.
    pub(crate) fn stop(&mut self) {
        self.running.stop().expect("the workers are woken");
    }
}

pub(crate) struct Client {
    stream: BufReader<Stream>,
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}

/// One parsed response.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let same = |field: &&(String, String)| field.0.eq_ignore_ascii_case(name);
        self.fields.iter().find(same).map(|field| field.1.as_str())
    }

    pub(crate) fn text(&self) -> &str {
        str::from_utf8(&self.body).expect("the body is text")
    }
}

impl Client {
    pub(crate) fn connect(endpoint: &Endpoint) -> io::Result<Self> {
        let stream = match endpoint {
            Endpoint::Tcp(address) => Stream::Tcp(connect_tcp(*address)?),
            Endpoint::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                Stream::Unix(stream)
            }
        };
        Ok(Self { stream: BufReader::new(stream) })
    }

    pub(crate) fn send(&mut self, text: &str) {
        self.send_bytes(text.as_bytes());
    }

    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.try_send(bytes).expect("it can be sent");
    }

    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// A second handle to send on this connection, for another thread.
    pub(crate) fn writer(&self) -> impl Write + Send + 'static {
        match self.stream.get_ref() {
            Stream::Tcp(stream) => Stream::Tcp(stream.try_clone().expect("a descriptor")),
            Stream::Unix(stream) => Stream::Unix(stream.try_clone().expect("a descriptor")),
        }
    }

    pub(crate) fn finish(&self) {
        match self.stream.get_ref() {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Stream::Unix(stream) => stream.shutdown(Shutdown::Write),
        }
        .expect("the connection is open");
    }

    /// Whether an event of `interest` occurs soon.
    fn has_news(&self, interest: Interest) -> bool {
        let epoll = Epoll::new().expect("a descriptor");
        epoll.add(self.stream.get_ref(), 0, interest).expect("the socket is open");
        epoll.wait(&mut [no_event()], Some(LULL)).expect("epoll waits") > 0
    }

    /// Sends `piece` at intervals until the server sends a final response, whose status is
    /// returned, or closes.
    pub(crate) fn drip(&mut self, piece: &str) -> Option<u16> {
        for lull in 0.. {
            assert!(lull < LULLS_MAX, "the server bears with it for ever");
            if self.has_news(Interest::IN) {
                if self.stream.fill_buf().expect("the connection ends in order").is_empty() {
                    return None;
                }
                let answer = self.answer();
                assert_eq!(answer.field("Connection"), Some("close"));
                self.expect_end();
                return Some(answer.status);
            }
            // If the server has just closed, an event follows.
            let _sent = self.try_send(piece.as_bytes());
        }
        None
    }

    /// Reads a byte at intervals until the server resets the connection.
    pub(crate) fn sip(&mut self) {
        for lull in 0.. {
            assert!(lull < LULLS_MAX, "the server bears with it for ever");
            if self.has_news(Interest::ERR) {
                return;
            }
            self.stream.get_mut().read_exact(&mut [0]).expect("there is more");
        }
    }

    /// Waits for a moment without an event.
    pub(crate) fn idle(&self) {
        assert!(!self.has_news(Interest::IN), "nothing was to come");
    }

    pub(crate) fn answer(&mut self) -> Answer {
        let mut answer = self.head();
        let size = answer.field("Content-Length").expect("a length").parse().expect("a number");
        answer.body = self.read(size);
        answer
    }

    /// Exactly this many bytes.
    pub(crate) fn read(&mut self, size: usize) -> Vec<u8> {
        let mut bytes = vec![0; size];
        self.stream.read_exact(&mut bytes).expect("the bytes come");
        bytes
    }

    /// A status line and header lines: a response to HEAD, or an interim response.
    pub(crate) fn head(&mut self) -> Answer {
        let line = self.line();
        let status = line.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
        let status = status.expect("a status line").parse().expect("a status");
        let mut fields = Vec::new();
        loop {
            let line = self.line();
            let Some((name, value)) = line.split_once(": ") else {
                assert_eq!(line, "", "a header line has a colon");
                return Answer { status, fields, body: Vec::new() };
            };
            fields.push((name.to_owned(), value.to_owned()));
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).expect("a line comes");
        line.strip_suffix("\r\n").expect("a line ends in CRLF").to_owned()
    }

    pub(crate) fn expect_end(&mut self) {
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).expect("the connection ends in order");
        assert_eq!(String::from_utf8_lossy(&rest), "", "nothing follows");
    }
}

fn connect_tcp(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
