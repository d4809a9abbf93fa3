//! A scripted server that counts its requests.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{JoinHandle, spawn};

use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// The expected response of most tests.
pub(crate) const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHello";

/// The reaction to one request.
pub(crate) enum Act {
    /// Send these bytes.
    Say(String),
    /// Send these bytes, one at a time.
    Stammer(String),
    /// Send these bytes and close.
    SayAndClose(String),
    /// Respond with the request target as the body.
    Echo,
    /// Do not respond, and wait for the client to give up.
    Ignore,
}

/// The index of a request among all, and on its connection.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) overall: u64,
    pub(crate) on_connection: u64,
}

/// A received request: its connection, its request target, and its last six bytes.
struct ReceivedRequest {
    connection: usize,
    request_target: String,
    end: String,
}

type Script = Arc<dyn Fn(Place) -> Act + Send + Sync>;

#[derive(Default)]
struct Counters {
    connections: AtomicU64,
    requests: AtomicU64,
    body_bytes: AtomicU64,
    stopping: AtomicBool,
}

/// A listening server. Dropping it stops it and waits for its connections to end.
pub(crate) struct Server {
    counters: Arc<Counters>,
    address: ServerAddress,
    accepting: Option<JoinHandle<()>>,
    received: Receiver<ReceivedRequest>,
    peers: Option<Receiver<IpAddr>>,
}

enum ServerAddress {
    Tcp(SocketAddr),
    Secure(SocketAddr),
    Unix(PathBuf),
}

impl Server {
    pub(crate) fn new(script: impl Fn(Place) -> Act + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = ServerAddress::Tcp(listener.local_addr().expect("it is bound"));
        let (come, peers) = channel();
        let mut server = Self::start(address, script, move || {
            let (stream, peer) = listener.accept().expect("a client connects");
            stream.set_nodelay(true).expect("TCP can do that");
            // The error is ignored: the test may have ended.
            let _sent = come.send(peer.ip());
            stream
        });
        server.peers = Some(peers);
        server
    }

    pub(crate) fn secure(
        config: &Arc<ServerConfig>,
        script: impl Fn(Place) -> Act + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = ServerAddress::Secure(listener.local_addr().expect("it is bound"));
        let config = Arc::clone(config);
        Self::start(address, script, move || {
            let (stream, _) = listener.accept().expect("a client connects");
            stream.set_nodelay(true).expect("TCP can do that");
            let tls = ServerConnection::new(Arc::clone(&config)).expect("it can be set up");
            StreamOwned::new(tls, stream)
        })
    }

    pub(crate) fn on_path(
        path: &Path,
        script: impl Fn(Place) -> Act + Send + Sync + 'static,
    ) -> Self {
        let listener = UnixListener::bind(path).expect("the path is free");
        let address = ServerAddress::Unix(path.to_owned());
        Self::start(address, script, move || listener.accept().expect("a client connects").0)
    }

    fn start<S: Read + Write + Send + 'static>(
        address: ServerAddress,
        script: impl Fn(Place) -> Act + Send + Sync + 'static,
        accept: impl Fn() -> S + Send + 'static,
    ) -> Self {
        let counters = Arc::new(Counters::default());
        let (shared, script): (_, Script) = (Arc::clone(&counters), Arc::new(script));
        let (note, received) = channel();
        let accepting = spawn(move || {
            let mut talking = Vec::new();
            loop {
                let stream = accept();
                if shared.stopping.load(Ordering::SeqCst) {
                    break;
                }
                let number = shared.connections.fetch_add(1, Ordering::SeqCst);
                let (shared, script, note) =
                    (Arc::clone(&shared), Arc::clone(&script), note.clone());
                let note = (usize::try_from(number).expect("few"), note);
                talking.push(spawn(move || talk(stream, &note, &shared, &script)));
            }
            for thread in talking {
                thread.join().expect("scripts do not panic");
            }
        });
        Self { counters, address, accepting: Some(accepting), received, peers: None }
    }

    pub(crate) fn url(&self) -> String {
        match &self.address {
            ServerAddress::Tcp(address) => format!("http://{address}/"),
            ServerAddress::Secure(address) => format!("https://{address}/"),
            ServerAddress::Unix(path) => format!("unix:{}:/", path.display()),
        }
    }

    pub(crate) fn connections(&self) -> u64 {
        self.counters.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn requests(&self) -> u64 {
        self.meter()()
    }

    /// A function that returns the number of requests, for other threads.
    pub(crate) fn meter(&self) -> impl Fn() -> u64 + Sync + use<> {
        let counters = Arc::clone(&self.counters);
        move || counters.requests.load(Ordering::SeqCst)
    }

    /// The request targets since the last call, by connection.
    pub(crate) fn request_targets_seen(&self) -> Vec<Vec<String>> {
        let mut request_targets = Vec::new();
        for received in self.received.try_iter() {
            request_targets.resize(request_targets.len().max(received.connection + 1), Vec::new());
            request_targets[received.connection].push(received.request_target);
        }
        request_targets
    }

    /// Each request's target and last six bytes.
    pub(crate) fn ends_received(&self) -> Vec<(String, String)> {
        self.received.try_iter().map(|received| (received.request_target, received.end)).collect()
    }

    /// The peer addresses of connections since the last call; TCP only.
    pub(crate) fn peers(&self) -> Vec<IpAddr> {
        self.peers.iter().flat_map(Receiver::try_iter).collect()
    }

    pub(crate) fn body_bytes(&self) -> u64 {
        self.counters.body_bytes.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.counters.stopping.store(true, Ordering::SeqCst);
        match &self.address {
            ServerAddress::Tcp(address) | ServerAddress::Secure(address) => {
                drop(TcpStream::connect(address));
            }
            ServerAddress::Unix(path) => drop(UnixStream::connect(path)),
        }
        if let Some(thread) = self.accepting.take() {
            thread.join().expect("the server does not panic");
        }
    }
}

/// Serves one connection to its end; the client may close it at any time.
fn talk(
    mut stream: impl Read + Write,
    note: &(usize, Sender<ReceivedRequest>),
    counters: &Counters,
    script: &Script,
) {
    let (mut pending, mut chunk) = (Vec::new(), vec![0; 64 * 1024]);
    for on_connection in 0.. {
        let Some((size, body)) = request(&mut stream, &mut pending, &mut chunk) else { return };
        let wire: Vec<u8> = pending.drain(..size).collect();
        let request_target = record(&wire, note);
        counters.body_bytes.fetch_add(body, Ordering::SeqCst);
        let overall = counters.requests.fetch_add(1, Ordering::SeqCst);
        let spoken = match script(Place { overall, on_connection }) {
            Act::Say(text) => stream.write_all(text.as_bytes()),
            Act::Stammer(text) => text.bytes().try_for_each(|byte| stream.write_all(&[byte])),
            Act::SayAndClose(text) => {
                let _gone = stream.write_all(text.as_bytes());
                return;
            }
            Act::Echo => {
                let head =
                    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", request_target.len());
                stream.write_all((head + &request_target).as_bytes())
            }
            Act::Ignore => Ok(()),
        };
        if spoken.is_err() {
            return;
        }
    }
}

/// Records a request, and returns its request target.
fn record(wire: &[u8], (connection, note): &(usize, Sender<ReceivedRequest>)) -> String {
    let text = String::from_utf8_lossy(&wire[..wire.len().min(1024)]).into_owned();
    let request_target = text.split(' ').nth(1).unwrap_or_default().to_owned();
    let end = String::from_utf8_lossy(&wire[wire.len() - 6..]).into_owned();
    let received =
        ReceivedRequest { connection: *connection, request_target: request_target.clone(), end };
    // The error is ignored: the test may have ended.
    let _sent = note.send(received);
    request_target
}

/// Reads a complete request; returns its size and that of its body.
fn request(
    stream: &mut impl Read,
    pending: &mut Vec<u8>,
    chunk: &mut [u8],
) -> Option<(usize, u64)> {
    loop {
        if let Some(end) = pending.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&pending[..end]).to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let body = length.map_or(0, |text| text.parse().expect("a length is a number"));
            if pending.len() >= end + 4 + body {
                return Some((end + 4 + body, body as u64));
            }
        }
        match stream.read(chunk) {
            Ok(0) | Err(_) => return None,
            Ok(count) => pending.extend_from_slice(&chunk[..count]),
        }
    }
}
