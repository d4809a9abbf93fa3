//! The least server.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread;

use jissoku_os::epoll::{self, Epoll, Interest};
use jissoku_os::socket::{self, Endpoint, Received, Sharing};
use jissoku_os::uring;

use crate::answer::{ANSWER, Begun};

/// Answers sent in one piece; a pipeline deeper than this takes several.
const ANSWERS: usize = 1024;

const EVENTS: usize = 512;
const BUFFER_SIZE: usize = 64 * 1024;

/// The token of the descriptor that ends everything; no descriptor has such a number.
const HALT: u64 = u64::MAX;

/// Which kernel interface moves the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// `io_uring` where the kernel has what it takes, else epoll.
    Auto,
    /// Readiness: `epoll(7)`.
    Epoll,
    /// Completion: `io_uring(7)`.
    Uring,
}

/// A server that listens and does not answer yet.
#[derive(Debug)]
pub struct Bound {
    /// One set of listeners for each worker.
    workers: Vec<Vec<OwnedFd>>,
    endpoints: Vec<Endpoint>,
}

/// Listens on all `endpoints` with each of `workers` workers.
///
/// # Errors
/// The endpoint that could not be had, and the error of `bind(2)` or `listen(2)`.
pub fn bind(endpoints: &[Endpoint], workers: usize) -> Result<Bound, (Endpoint, io::Error)> {
    let mut bound = Bound { workers: Vec::new(), endpoints: endpoints.to_vec() };
    bound.workers.resize_with(workers, Vec::new);
    for endpoint in &mut bound.endpoints {
        let sharing = if workers > 1 { Sharing::Reuseport } else { Sharing::Alone };
        let mut first: Option<OwnedFd> = None;
        for listeners in &mut bound.workers {
            let listener = match (&first, &endpoint) {
                // A path has one listener; the workers share it.
                (Some(first), Endpoint::Unix(_)) => first.try_clone(),
                _ => socket::listen(endpoint, sharing),
            };
            let listener = listener.map_err(|error| (endpoint.clone(), error))?;
            if first.is_none() {
                let found = socket::local_endpoint(&listener);
                *endpoint = found.map_err(|error| (endpoint.clone(), error))?;
                first = listener.try_clone().ok();
            }
            listeners.push(listener);
        }
    }
    Ok(bound)
}

impl Bound {
    /// Where it listens; ports that were asked for as zero have their number.
    #[must_use]
    pub fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    /// Answers until `interrupt` becomes readable.
    ///
    /// # Errors
    /// The error of a worker's epoll or ring; `Unsupported` when `io_uring` was asked for by name and
    /// is not to be had.
    pub fn serve(self, driver: Driver, interrupt: BorrowedFd<'_>) -> io::Result<()> {
        let has_uring = driver != Driver::Epoll && uring::is_available();
        if driver == Driver::Uring && !has_uring {
            let why = "this kernel has no io_uring with buffer rings and deferred task work";
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        let (halt, halted) = UnixStream::pair()?;
        let epoll = Epoll::new()?;
        epoll.add(interrupt, 0, Interest::IN)?;
        thread::scope(|scope| {
            let mut threads = Vec::new();
            for listeners in self.workers {
                let halted = halted.try_clone()?;
                threads.push(scope.spawn(move || {
                    if has_uring {
                        answer_completions(&listeners, &halted)
                    } else {
                        answer_readiness(&listeners, &halted)
                    }
                }));
            }
            while epoll.wait(&mut [epoll::no_event()], None)? == 0 {}
            drop(halt);
            for thread in threads {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            }
            self.endpoints.iter().for_each(forget);
            Ok(())
        })
    }
}

fn forget(endpoint: &Endpoint) {
    if let Endpoint::Unix(path) = endpoint {
        // Somebody else may have taken the path away already.
        let _removed = std::fs::remove_file(path);
    }
}

/// A connection between two events.
#[derive(Debug)]
struct Connection {
    socket: OwnedFd,
    begun: Begun,
    /// Bytes of answers that the kernel would not take yet.
    unsent: usize,
}

fn answer_readiness(listeners: &[OwnedFd], halt: &UnixStream) -> io::Result<()> {
    let epoll = Epoll::new()?;
    epoll.add(halt, HALT, Interest::IN)?;
    for listener in listeners {
        // Connections inherit it. On a Unix socket there is no such option, and no need for it.
        let _set = socket::send_at_once(listener);
        epoll.add(listener, token(listener), Interest::IN)?;
    }
    let answers = ANSWER.repeat(ANSWERS);
    let mut connections: Vec<Option<Connection>> = Vec::new();
    let mut events = [epoll::no_event(); EVENTS];
    let mut buffer = vec![0; BUFFER_SIZE];
    loop {
        let count = epoll.wait(&mut events, None)?;
        for event in &events[..count] {
            let token = event.data.u64();
            if token == HALT {
                return Ok(());
            }
            let index = usize::try_from(token).unwrap_or(usize::MAX);
            if let Some(place @ Some(_)) = connections.get_mut(index) {
                exchange(place, &epoll, &answers, &mut buffer);
            } else if let Some(listener) =
                listeners.iter().find(|listener| self::token(*listener) == token)
            {
                accept(listener, &epoll, &mut connections)?;
            }
        }
    }
}

fn accept(
    listener: &OwnedFd,
    epoll: &Epoll,
    connections: &mut Vec<Option<Connection>>,
) -> io::Result<()> {
    while let Some(socket) = socket::accept(listener)? {
        epoll.add(&socket, token(&socket), Interest::IN)?;
        let index = usize::try_from(socket.as_raw_fd()).unwrap_or(0);
        if connections.len() <= index {
            connections.resize_with(index + 1, || None);
        }
        connections[index] = Some(Connection { socket, begun: Begun::default(), unsent: 0 });
    }
    Ok(())
}

/// One receive and one send; the connection's place is empty afterwards if it has ended.
#[inline]
fn exchange(place: &mut Option<Connection>, epoll: &Epoll, answers: &[u8], buffer: &mut [u8]) {
    let Some(connection) = place else { return };
    if connection.unsent == 0 {
        match socket::receive(&connection.socket, buffer) {
            Ok(Received::Bytes(count)) => {
                connection.unsent = connection.begun.requests(&buffer[..count]) * ANSWER.len();
            }
            Ok(Received::NotYet) => return,
            Ok(Received::End) | Err(_) => {
                *place = None;
                return;
            }
        }
        if connection.answer(answers) == Some(0) {
            return;
        }
    }
    if connection.finish(epoll, answers).is_err() {
        *place = None;
    }
}

impl Connection {
    /// Sends what the kernel takes at once; how much is left, or `None` when nobody is there any more.
    #[inline]
    fn answer(&mut self, answers: &[u8]) -> Option<usize> {
        while self.unsent > 0 {
            let start = answers.len() - self.unsent.min(answers.len());
            match socket::send(&self.socket, &answers[start..]).ok()? {
                0 => break,
                count => self.unsent -= count,
            }
        }
        Some(self.unsent)
    }

    /// The rare rest: waits for room, and goes back to receiving when all has gone.
    fn finish(&mut self, epoll: &Epoll, answers: &[u8]) -> io::Result<()> {
        let left = self.answer(answers).ok_or(io::ErrorKind::BrokenPipe)?;
        let interest = if left > 0 { Interest::OUT } else { Interest::IN };
        epoll.modify(&self.socket, token(&self.socket), interest)
    }
}

fn token(descriptor: &impl AsRawFd) -> u64 {
    u64::try_from(descriptor.as_raw_fd()).unwrap_or(HALT)
}

fn answer_completions(listeners: &[OwnedFd], halt: &UnixStream) -> io::Result<()> {
    let mut begun: Vec<Begun> = Vec::new();
    let answers = ANSWER.repeat(ANSWERS).into_boxed_slice();
    uring::answer(listeners, halt.as_fd(), answers, |connection, bytes| {
        if begun.len() <= connection {
            begun.resize(connection + 1, Begun::default());
        }
        // The next connection of this number begins anew.
        let Some(bytes) = bytes else {
            begun[connection] = Begun::default();
            return 0;
        };
        begun[connection].requests(bytes) * ANSWER.len()
    })
}
