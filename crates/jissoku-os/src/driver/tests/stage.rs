//! The stage that the suite plays on: a handler that does what each byte says, a driver, and
//! clients.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};

use super::super::{
    Action, Backend, ConnectionId, Driver, EventHandler, Listener, NewConnection, SendBuffer,
    Settings, UNSENT_MAX, Waker, Wakeup,
};
use crate::clock;
use crate::file::File;
use crate::socket::{self, Endpoint, Sharing};
use crate::uring;

/// More than any socket buffers.
pub(super) const LARGE: usize = 16 * 1024 * 1024;

/// Longer than anything here takes; it turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(30);

/// Far more turns than any test needs; beyond it something is lost, and the test fails instead of
/// hanging.
pub(super) const TURNS_MAX: usize = 20_000;

/// Far more than the clients of a test.
const VISITORS_MAX: usize = 100;

/// A file in memory without a name, and its writer, which can change it.
pub(in crate::driver) struct Paper {
    pub(in crate::driver) file: Arc<File>,
    pub(in crate::driver) writer: std::fs::File,
}

impl Paper {
    pub(in crate::driver) fn new(bytes: &[u8]) -> Self {
        let fd = memfd_create("paper", MemfdFlags::CLOEXEC).expect("memory can be a file");
        let mut writer = std::fs::File::from(fd);
        writer.write_all(bytes).expect("there is room");
        let path = PathBuf::from(format!("/proc/self/fd/{}", writer.as_raw_fd()));
        let file = File::open(&path).expect("it is open already");
        Self { file: Arc::new(file), writer }
    }

    pub(in crate::driver) fn size(&self) -> u64 {
        self.file.stamp().size
    }
}

/// Does what each byte says.
#[derive(Default)]
pub(super) struct Puppet {
    pub(super) now_ns: u64,
    pub(super) held: Vec<ConnectionId>,
    pub(super) released: bool,
    pub(super) opened: usize,
    pub(super) closed: usize,
    pub(super) largest: usize,
    pub(super) received: usize,
    pub(super) hung_up: usize,
    pub(super) watched: usize,
    /// The connection that no other may be called before.
    pub(super) flushed: Option<ConnectionId>,
    /// Unsent bytes before the last part, and how often it was not asked for because of them.
    pub(super) unsent_max: usize,
    pub(super) waited: usize,
    /// The data of `F` and `S`, also for clients that were suspended.
    pub(super) paper: Option<Paper>,
    /// Where `v` connects to, while there are fewer visitors than [`VISITORS_MAX`].
    pub(super) visited: Option<Endpoint>,
    pub(super) visitors: Vec<Box<dyn Client + Send>>,
}

pub(super) struct Strings {
    id: ConnectionId,
    next: Action,
    /// The parts of `n`, `N` and `e` that are to follow at once, and their size.
    parts_left: usize,
    part_size: usize,
}

/// The parts of `n` and of `N`, which are more than any socket buffers.
pub(super) const PARTS: usize = 8;
pub(super) const PART_SIZE: usize = LARGE / 4;

impl EventHandler for Puppet {
    type Connection = Strings;

    fn on_open(&mut self, arrival: &NewConnection<'_>) -> Strings {
        self.opened += 1;
        Strings { id: arrival.id, next: Action::Receive, parts_left: 0, part_size: 0 }
    }

    fn on_data(
        &mut self,
        connection: &mut Strings,
        bytes: &[u8],
        output: &mut SendBuffer,
    ) -> Action {
        assert!(
            matches!(connection.next, Action::Receive | Action::ShutdownWrite),
            "receives unasked"
        );
        assert_eq!(self.flushed, None, "another connection is called");
        self.largest = self.largest.max(bytes.len());
        self.received += bytes.len();
        for byte in bytes {
            match byte {
                b'L' => output.append_shared(Arc::from(vec![b'l'; LARGE])),
                b'F' | b'S' => {
                    let paper = self.paper.as_ref().expect("the scene has a file");
                    let size = if *byte == b'S' { 1 } else { paper.size() };
                    output.append_file(Arc::clone(&paper.file), 0..size);
                }
                b'v' => self.send_a_visitor(),
                b'p' => connection.next = Action::Yield,
                b'n' => self.start_parts(connection, PARTS, 1),
                b'N' => self.start_parts(connection, PARTS, PART_SIZE),
                b'e' => self.start_parts(connection, usize::MAX, 0),
                b'c' => connection.next = Action::Close,
                b'a' => connection.next = Action::Abort,
                b'f' => connection.next = Action::ShutdownWrite,
                b'h' => {
                    self.held.push(connection.id);
                    connection.next = Action::Suspend;
                }
                _ => {}
            }
            output.append(&[*byte]);
        }
        connection.next
    }

    fn on_eof(&mut self, connection: &mut Strings, output: &mut SendBuffer) -> Action {
        output.append(b"E");
        connection.next
    }

    fn resume(
        &mut self,
        connection: &mut Strings,
        unsent: usize,
        output: &mut SendBuffer,
    ) -> Action {
        assert!(self.flushed.is_none_or(|id| id == connection.id), "another connection is called");
        match connection.next {
            Action::Flush if unsent > UNSENT_MAX => self.waited += 1,
            Action::Flush => {
                self.unsent_max = self.unsent_max.max(unsent);
                output.append(&vec![b'.'; connection.part_size]);
                connection.parts_left -= 1;
                if connection.parts_left == 0 {
                    self.flushed = None;
                    connection.next = Action::Receive;
                }
            }
            Action::Yield => {
                output.append(b"P");
                connection.next = Action::Receive;
            }
            Action::Suspend if self.released => {
                if let Some(paper) = &self.paper {
                    output.append_file(Arc::clone(&paper.file), 0..paper.size());
                }
                output.append(b"H");
                connection.next = Action::Receive;
            }
            _ => {}
        }
        connection.next
    }

    fn on_hangup(&mut self, connection: &mut Strings) {
        assert!(matches!(connection.next, Action::Suspend | Action::Flush));
        self.hung_up += 1;
        if connection.next == Action::Flush {
            connection.parts_left = 1;
        }
    }

    fn on_watched(&mut self) {
        self.watched += 1;
    }

    fn on_close(&mut self, connection: Strings) {
        self.closed += 1;
        self.flushed.take_if(|id| *id == connection.id);
    }

    fn on_tick(&mut self, now_ns: u64) {
        assert!(now_ns >= self.now_ns, "time runs backwards");
        self.now_ns = now_ns;
    }

    /// Never far away, so that a turn in which nothing happens ends.
    fn deadline_ns(&mut self) -> Option<u64> {
        Some(clock::monotonic_ns() + 1_000_000)
    }

    fn next_ready(&mut self) -> Option<Wakeup> {
        if self.released { self.held.pop().map(Wakeup::One) } else { None }
    }
}

impl Puppet {
    fn start_parts(&mut self, connection: &mut Strings, count: usize, size: usize) {
        self.flushed = Some(connection.id);
        (connection.parts_left, connection.part_size) = (count, size);
        connection.next = Action::Flush;
    }

    /// Connects a client that wants the same, if it is let in.
    fn send_a_visitor(&mut self) {
        let visited = self.visited.as_ref().filter(|_| self.visitors.len() < VISITORS_MAX);
        if let Some(mut visitor) = visited.and_then(|endpoint| connect_to(endpoint).ok()) {
            visitor.write_all(b"v").expect("room to send");
            self.visitors.push(visitor);
        }
    }
}

fn connect_to(endpoint: &Endpoint) -> io::Result<Box<dyn Client + Send>> {
    Ok(match endpoint {
        Endpoint::Tcp(address) => {
            let client = TcpStream::connect(address)?;
            client.set_nonblocking(true)?;
            Box::new(client)
        }
        Endpoint::Unix(path) => {
            let client = UnixStream::connect(path)?;
            client.set_nonblocking(true)?;
            Box::new(client)
        }
    })
}

pub(super) trait Client: Read + Write {
    fn finish(&self);

    /// Whatever sees the end of the connection has to happen without the driver.
    fn expect_end(&mut self);
}

impl Client for TcpStream {
    fn finish(&self) {
        self.shutdown(Shutdown::Write).expect("the connection stands");
    }

    fn expect_end(&mut self) {
        self.set_nonblocking(false).expect("a socket has modes");
        self.set_read_timeout(Some(PATIENCE)).expect("a socket has options");
        check_end(self);
    }
}

impl Client for UnixStream {
    fn finish(&self) {
        self.shutdown(Shutdown::Write).expect("the connection stands");
    }

    fn expect_end(&mut self) {
        self.set_nonblocking(false).expect("a socket has modes");
        self.set_read_timeout(Some(PATIENCE)).expect("a socket has options");
        check_end(self);
    }
}

fn check_end(client: &mut dyn Client) {
    loop {
        match client.read(&mut [0; 1]) {
            Ok(count) => return assert_eq!(count, 0, "more bytes come"),
            // The kernel interrupts a thread whose ring it cleans up.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                return assert_ne!(error.kind(), io::ErrorKind::WouldBlock, "it does not end");
            }
        }
    }
}

pub(super) struct Stage {
    pub(super) driver: Driver<Puppet>,
    pub(super) puppet: Puppet,
    pub(super) endpoint: Endpoint,
    pub(super) waker: Waker,
}

impl Stage {
    pub(super) fn new(endpoint: &Endpoint, settings: Settings) -> Self {
        let listener =
            socket::bind_and_listen(endpoint, Sharing::Alone).expect("a place to listen");
        let endpoint = socket::local_endpoint(&listener).expect("it has an address");
        let listener = match endpoint {
            Endpoint::Tcp(_) => Listener::PerWorker(listener),
            Endpoint::Unix(_) => Listener::SharedExclusive(listener),
        };
        let waker = Waker::new().expect("a waker");
        let driver = Driver::new(vec![listener], waker.clone(), settings).expect("a driver");
        Self { driver, puppet: Puppet::default(), endpoint, waker }
    }

    pub(super) fn try_connect(&self) -> io::Result<Box<dyn Client + Send>> {
        connect_to(&self.endpoint)
    }

    pub(super) fn connect(&self) -> Box<dyn Client + Send> {
        self.try_connect().expect("it listens")
    }

    /// Ends the driver, with all that it has, and has another that listens nowhere.
    pub(super) fn replace_driver(&mut self) {
        let settings = Settings { backend: Backend::Epoll, ..Settings::default() };
        let driver = Driver::new(Vec::new(), self.waker.clone(), settings);
        self.driver = driver.expect("a driver");
    }

    pub(super) fn run_until(&mut self, what: &str, mut is_done: impl FnMut(&mut Self) -> bool) {
        for _ in 0..TURNS_MAX {
            if is_done(self) {
                return;
            }
            self.driver.run_once(&mut self.puppet).expect("a turn succeeds");
        }
        panic!("it never came to pass that {what}");
    }

    /// Reads `size` bytes while the driver runs.
    pub(super) fn read(&mut self, client: &mut dyn Client, size: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut buffer = vec![0; 1024 * 1024];
        self.run_until("enough bytes come", |_| {
            let room = buffer.len().min(size - bytes.len());
            match client.read(&mut buffer[..room]) {
                Ok(count) => bytes.extend_from_slice(&buffer[..count]),
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
            bytes.len() == size
        });
        bytes
    }

    /// Reads whatever comes until the connection ends.
    pub(super) fn read_all(&mut self, client: &mut dyn Client) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut buffer = vec![0; 1024 * 1024];
        self.run_until("the connection ends", |_| match client.read(&mut buffer) {
            Ok(count) => {
                bytes.extend_from_slice(&buffer[..count]);
                count == 0
            }
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        });
        bytes
    }

    /// Waits for the end of what the driver sends.
    pub(super) fn read_end(&mut self, client: &mut dyn Client) {
        self.run_until("the connection ends", |_| match client.read(&mut [0; 1]) {
            Ok(count) => {
                assert_eq!(count, 0, "more bytes come");
                true
            }
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        });
    }
}

fn fresh_path() -> Endpoint {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("jissoku-driver-{}-{number}", std::process::id());
    Endpoint::Unix(std::env::temp_dir().join(name))
}

/// Plays `scene` with every driver, over TCP and over a Unix socket.
pub(super) fn play(scene: impl Fn(&mut Stage)) {
    play_with(Settings::default(), scene);
}

pub(super) fn play_with(settings: Settings, scene: impl Fn(&mut Stage)) {
    play_on(Settings { backend: Backend::Epoll, ..settings }, &scene);
    if uring::is_available() {
        play_on(Settings { backend: Backend::Uring, ..settings }, &scene);
    } else {
        eprintln!("skipped: this kernel lacks io_uring, or keeps it from us");
    }
}

fn play_on(settings: Settings, scene: &impl Fn(&mut Stage)) {
    let tcp = "127.0.0.1:0".parse().expect("an address");
    scene(&mut Stage::new(&tcp, settings));
    let unix = fresh_path();
    scene(&mut Stage::new(&unix, settings));
    if let Endpoint::Unix(path) = unix {
        std::fs::remove_file(path).expect("the socket is ours");
    }
}
