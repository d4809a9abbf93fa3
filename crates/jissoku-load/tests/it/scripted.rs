//! A server that does what a test tells it to, and counts what it was asked.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{JoinHandle, spawn};

use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// The answer that tests hold others against.
pub(crate) const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHello";

/// What to do about one request.
pub(crate) enum Act {
    /// Answer with these bytes.
    Say(String),
    /// Answer with these bytes, one at a time.
    Stammer(String),
    /// Answer with these bytes, then close.
    SayAndClose(String),
    /// Answer with the request's target as the body.
    Echo,
    /// Answer nothing and wait for the client to give up.
    Ignore,
}

/// Which request: the how-manieth of all, and the how-manieth on its connection, both from 0.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) overall: u64,
    pub(crate) on_connection: u64,
}

/// A request as it came: on which connection, for what, and its last six bytes.
struct Heard {
    connection: usize,
    target: String,
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

/// A listening server; it ends when it is dropped, and waits for its connections to do so.
pub(crate) struct Server {
    counters: Arc<Counters>,
    door: Door,
    accepting: Option<JoinHandle<()>>,
    heard: Receiver<Heard>,
    peers: Option<Receiver<IpAddr>>,
}

enum Door {
    Tcp(SocketAddr),
    Secure(SocketAddr),
    Unix(PathBuf),
}

impl Server {
    pub(crate) fn new(script: impl Fn(Place) -> Act + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let door = Door::Tcp(listener.local_addr().expect("it is bound"));
        let (come, peers) = channel();
        let mut server = Self::start(door, script, move || {
            let (stream, peer) = listener.accept().expect("somebody comes");
            stream.set_nodelay(true).expect("TCP can do that");
            // A test that has ended does not listen any more.
            let _heard = come.send(peer.ip());
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
        let door = Door::Secure(listener.local_addr().expect("it is bound"));
        let config = Arc::clone(config);
        Self::start(door, script, move || {
            let (stream, _) = listener.accept().expect("somebody comes");
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
        let door = Door::Unix(path.to_owned());
        Self::start(door, script, move || listener.accept().expect("somebody comes").0)
    }

    fn start<S: Read + Write + Send + 'static>(
        door: Door,
        script: impl Fn(Place) -> Act + Send + Sync + 'static,
        accept: impl Fn() -> S + Send + 'static,
    ) -> Self {
        let counters = Arc::new(Counters::default());
        let (shared, script): (_, Script) = (Arc::clone(&counters), Arc::new(script));
        let (note, heard) = channel();
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
        Self { counters, door, accepting: Some(accepting), heard, peers: None }
    }

    pub(crate) fn url(&self) -> String {
        match &self.door {
            Door::Tcp(address) => format!("http://{address}/"),
            Door::Secure(address) => format!("https://{address}/"),
            Door::Unix(path) => format!("unix:{}:/", path.display()),
        }
    }

    pub(crate) fn connections(&self) -> u64 {
        self.counters.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn requests(&self) -> u64 {
        self.meter()()
    }

    /// Tells the number of requests to other threads.
    pub(crate) fn meter(&self) -> impl Fn() -> u64 + Sync + use<> {
        let counters = Arc::clone(&self.counters);
        move || counters.requests.load(Ordering::SeqCst)
    }

    /// The targets of each connection's requests that nobody has asked about yet.
    pub(crate) fn targets_heard(&self) -> Vec<Vec<String>> {
        let mut targets = Vec::new();
        for heard in self.heard.try_iter() {
            targets.resize(targets.len().max(heard.connection + 1), Vec::new());
            targets[heard.connection].push(heard.target);
        }
        targets
    }

    /// Each request's target and last six bytes.
    pub(crate) fn ends_heard(&self) -> Vec<(String, String)> {
        self.heard.try_iter().map(|heard| (heard.target, heard.end)).collect()
    }

    /// Where connections came from that nobody has asked about yet; TCP alone can tell.
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
        match &self.door {
            Door::Tcp(address) | Door::Secure(address) => drop(TcpStream::connect(address)),
            Door::Unix(path) => drop(UnixStream::connect(path)),
        }
        if let Some(thread) = self.accepting.take() {
            thread.join().expect("the server does not panic");
        }
    }
}

/// Serves one connection to its end. A client that went away is no reason to panic.
fn talk(
    mut stream: impl Read + Write,
    note: &(usize, Sender<Heard>),
    counters: &Counters,
    script: &Script,
) {
    let (mut pending, mut chunk) = (Vec::new(), vec![0; 64 * 1024]);
    for on_connection in 0.. {
        let Some((size, body)) = request(&mut stream, &mut pending, &mut chunk) else { return };
        let wire: Vec<u8> = pending.drain(..size).collect();
        let target = hear(&wire, note);
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
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", target.len());
                stream.write_all((head + &target).as_bytes())
            }
            Act::Ignore => Ok(()),
        };
        if spoken.is_err() {
            return;
        }
    }
}

/// Notes a request down, and returns its target.
fn hear(wire: &[u8], (connection, note): &(usize, Sender<Heard>)) -> String {
    let text = String::from_utf8_lossy(&wire[..wire.len().min(1024)]).into_owned();
    let target = text.split(' ').nth(1).unwrap_or_default().to_owned();
    let end = String::from_utf8_lossy(&wire[wire.len() - 6..]).into_owned();
    let heard = Heard { connection: *connection, target: target.clone(), end };
    // A test that has ended does not listen any more.
    let _heard = note.send(heard);
    target
}

/// Waits for a whole request; its size, and that of its body.
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
