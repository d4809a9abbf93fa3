//! A minimal server over epoll, and the threads of server and forwarder.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread;

use jissoku_os::epoll::{self, Epoll, Interest};
use jissoku_os::socket::{self, Endpoint, Received, Sharing};

use crate::floor::forwarder;
use crate::floor::response::{RESPONSE, TerminatorMatcher};
use crate::floor::uwsgi_forwarder;

/// Responses sent in one piece; a deeper pipeline takes several sends.
const RESPONSES_BATCH: usize = 1024;

const EVENTS: usize = 512;
const BUFFER_SIZE: usize = 64 * 1024;

/// Token of the descriptor that stops a worker; no descriptor has this number.
const STOP: u64 = u64::MAX;

/// A server that listens and does not accept yet.
#[derive(Debug)]
pub struct Bound {
    /// The listeners of each worker.
    workers: Vec<Vec<OwnedFd>>,
    endpoints: Vec<Endpoint>,
}

/// Listens on all `endpoints`, with a listener for each of `workers` workers.
///
/// # Errors
/// The endpoint that failed, and the error of `bind(2)` or `listen(2)`.
pub fn bind(endpoints: &[Endpoint], workers: usize) -> Result<Bound, (Endpoint, io::Error)> {
    let mut bound = Bound { workers: Vec::new(), endpoints: endpoints.to_vec() };
    bound.workers.resize_with(workers, Vec::new);
    for endpoint in &mut bound.endpoints {
        let sharing = if workers > 1 { Sharing::Reuseport } else { Sharing::Alone };
        let mut first: Option<OwnedFd> = None;
        for listeners in &mut bound.workers {
            let listener = match (&first, &endpoint) {
                // A Unix socket has one listener, which the workers share.
                (Some(first), Endpoint::Unix(_)) => first.try_clone(),
                _ => socket::bind_and_listen(endpoint, sharing),
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
    /// The endpoints, with the actual numbers of ports that were given as zero.
    pub fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    /// Serves until `interrupt` becomes readable.
    ///
    /// # Errors
    /// The error of a worker's epoll, or of accepting.
    pub fn serve(self, interrupt: BorrowedFd<'_>) -> io::Result<()> {
        self.run(interrupt, serve)
    }

    /// Relays bytes between each accepted connection and one that is opened to `upstream` for it,
    /// over epoll, until `interrupt` becomes readable.
    ///
    /// # Errors
    /// The error of a worker's epoll, or of accepting.
    pub fn forward(self, upstream: &Endpoint, interrupt: BorrowedFd<'_>) -> io::Result<()> {
        self.run(interrupt, |listeners, halted| forwarder::serve(listeners, upstream, halted))
    }

    /// As [`Bound::forward`], with a connection for each request, in the uwsgi protocol. `upstream`
    /// is on this machine: elsewhere a connection is not made when its request is sent.
    ///
    /// # Errors
    /// As for [`Bound::forward`].
    pub fn forward_uwsgi(self, upstream: &Endpoint, interrupt: BorrowedFd<'_>) -> io::Result<()> {
        self.run(interrupt, |listeners, halted| uwsgi_forwarder::serve(listeners, upstream, halted))
    }

    /// Runs `work` on a thread for each worker until `interrupt` becomes readable.
    fn run(
        self,
        interrupt: BorrowedFd<'_>,
        work: impl Fn(&[OwnedFd], &UnixStream) -> io::Result<()> + Sync,
    ) -> io::Result<()> {
        let (halt, halted) = UnixStream::pair()?;
        let epoll = Epoll::new()?;
        epoll.add(interrupt, 0, Interest::IN)?;
        let work = &work;
        thread::scope(|scope| {
            let mut threads = Vec::new();
            for listeners in self.workers {
                let halted = halted.try_clone()?;
                threads.push(scope.spawn(move || work(&listeners, &halted)));
            }
            while epoll.wait(&mut [epoll::no_event()], None)? == 0 {}
            drop(halt);
            for thread in threads {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            }
            self.endpoints.iter().for_each(remove_socket_file);
            Ok(())
        })
    }
}

fn remove_socket_file(endpoint: &Endpoint) {
    if let Endpoint::Unix(path) = endpoint {
        // The socket file may have been removed already.
        let _removed = std::fs::remove_file(path);
    }
}

/// A connection between two events.
#[derive(Debug)]
struct Connection {
    socket: OwnedFd,
    matcher: TerminatorMatcher,
    /// Bytes of responses that the kernel has not accepted yet.
    unsent: usize,
}

fn serve(listeners: &[OwnedFd], halt: &UnixStream) -> io::Result<()> {
    let epoll = Epoll::new()?;
    epoll.add(halt, STOP, Interest::IN)?;
    for listener in listeners {
        // Accepted connections inherit the option. Unix sockets have none and need none.
        let _set = socket::set_nodelay(listener);
        epoll.add(listener, token(listener), Interest::IN)?;
    }
    let responses = RESPONSE.repeat(RESPONSES_BATCH);
    let mut connections: Vec<Option<Connection>> = Vec::new();
    let mut events = [epoll::no_event(); EVENTS];
    let mut buffer = vec![0; BUFFER_SIZE];
    loop {
        let count = epoll.wait(&mut events, None)?;
        for event in &events[..count] {
            let token = event.data.u64();
            if token == STOP {
                return Ok(());
            }
            let index = usize::try_from(token).unwrap_or(usize::MAX);
            if let Some(slot @ Some(_)) = connections.get_mut(index) {
                exchange(slot, &epoll, &responses, &mut buffer);
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
        connections[index] =
            Some(Connection { socket, matcher: TerminatorMatcher::default(), unsent: 0 });
    }
    Ok(())
}

/// One receive and one send; leaves the slot empty if the connection has ended.
#[inline]
fn exchange(slot: &mut Option<Connection>, epoll: &Epoll, responses: &[u8], buffer: &mut [u8]) {
    let Some(connection) = slot else { return };
    if connection.unsent == 0 {
        match socket::receive(&connection.socket, buffer) {
            Ok(Received::Bytes(count)) => {
                connection.unsent =
                    connection.matcher.count_requests(&buffer[..count]) * RESPONSE.len();
            }
            Ok(Received::NotYet) => return,
            Ok(Received::End) | Err(_) => {
                *slot = None;
                return;
            }
        }
        if connection.send_some(responses) == Some(0) {
            return;
        }
    }
    if connection.flush(epoll, responses).is_err() {
        *slot = None;
    }
}

impl Connection {
    /// Sends what the kernel accepts now; returns the bytes left, or `None` if the peer is gone.
    #[inline]
    fn send_some(&mut self, responses: &[u8]) -> Option<usize> {
        while self.unsent > 0 {
            let start = responses.len() - self.unsent.min(responses.len());
            match socket::send(&self.socket, &responses[start..]).ok()? {
                0 => break,
                count => self.unsent -= count,
            }
        }
        Some(self.unsent)
    }

    /// Waits for writability if bytes are left, and for requests otherwise.
    fn flush(&mut self, epoll: &Epoll, responses: &[u8]) -> io::Result<()> {
        let left = self.send_some(responses).ok_or(io::ErrorKind::BrokenPipe)?;
        let interest = if left > 0 { Interest::OUT } else { Interest::IN };
        epoll.modify(&self.socket, token(&self.socket), interest)
    }
}

fn token(descriptor: &impl AsRawFd) -> u64 {
    u64::try_from(descriptor.as_raw_fd()).unwrap_or(STOP)
}
