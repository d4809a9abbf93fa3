//! The listening sockets of a server, which outlive its workers.
//!
//! A socket stays open until its endpoint is removed, because the kernel resets connections that
//! are queued on a listener that closes. So the server owns the sockets, every worker pool gets
//! duplicates, and with fewer workers some workers get two.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jissoku_os::driver::{Backend, Listener};
use jissoku_os::inherited::Inherited;
use jissoku_os::socket::{self, Endpoint, Sharing};

use crate::listener_options::ListenerOptions;
use crate::settings::{ListenerSharing, Settings};
use crate::worker_process::{MOVED_IN, MOVED_OUT};
use crate::worker_thread::{EndpointMoves, WorkerListeners};

/// An endpoint as configured and as bound.
#[derive(Clone, Debug)]
struct BoundEndpoint {
    /// The configured name, or that given by the process that opened it.
    name: String,
    address: Endpoint,
    sockets: Vec<Arc<OwnedFd>>,
    /// The file of a Unix socket that this process created.
    file: Option<SocketFile>,
    /// How idle connections are passed on between worker processes.
    moves: Option<Arc<Moves>>,
}

/// A queue of connections, for as long as all workers treat them alike.
#[derive(Debug)]
struct Moves {
    receiver: OwnedFd,
    sender: OwnedFd,
    /// `None` in a worker process, which has it from its parent.
    options: Option<ListenerOptions>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Endpoints(Vec<BoundEndpoint>);

/// Prefix of the names of our own endpoints when they are passed to a new process.
const OURS: &str = "jissoku=";

impl Endpoints {
    /// Takes over inherited sockets.
    ///
    /// # Errors
    /// The name of the first that is not a listener, and why.
    pub(super) fn from_inherited(inherited: Vec<Inherited>) -> io::Result<Self> {
        let mut endpoints: Vec<BoundEndpoint> = Vec::new();
        let (mut receivers, mut senders) = (BTreeMap::new(), BTreeMap::new());
        for Inherited { name, fd } in inherited {
            if let Some(address) = name.strip_prefix(MOVED_IN) {
                receivers.insert(address.to_owned(), fd);
                continue;
            }
            if let Some(address) = name.strip_prefix(MOVED_OUT) {
                senders.insert(address.to_owned(), fd);
                continue;
            }
            let address = socket::from_inherited(&fd)
                .map_err(|error| io::Error::other(format!("inherited socket {name}: {error}")))?;
            let is_same =
                |bound: &&mut BoundEndpoint| bound.name == name && bound.address == address;
            if let Some(bound) = endpoints.iter_mut().find(is_same) {
                bound.sockets.push(Arc::new(fd));
                continue;
            }
            let file = match &address {
                Endpoint::Unix(path) if name.starts_with(OURS) => SocketFile::of(path).ok(),
                _ => None,
            };
            let sockets = vec![Arc::new(fd)];
            endpoints.push(BoundEndpoint { name, address, sockets, file, moves: None });
        }
        for bound in &mut endpoints {
            let address = text_of(&bound.address);
            if let (Some(receiver), Some(sender)) =
                (receivers.remove(&address), senders.remove(&address))
            {
                bound.moves = Some(Arc::new(Moves { receiver, sender, options: None }));
            }
        }
        Ok(Self(endpoints))
    }

    /// Removes and returns the last one at `endpoint`, if any.
    pub(super) fn split_off(&mut self, endpoint: &Endpoint) -> Self {
        let index = self.0.iter().rposition(|bound| bound.is_at(endpoint));
        Self(index.map(|index| self.0.remove(index)).into_iter().collect())
    }

    /// All sockets with the names of their endpoints.
    pub(super) fn sockets(&self) -> Vec<(String, Arc<OwnedFd>)> {
        let sockets_of = |bound: &BoundEndpoint| {
            let name = bound.name.clone();
            bound.sockets.iter().map(move |socket| (name.clone(), Arc::clone(socket))).collect()
        };
        self.0.iter().flat_map(|bound| -> Vec<_> { sockets_of(bound) }).collect()
    }

    /// Binds the endpoints of `settings`, reusing existing sockets. New ones accept no connections
    /// before [`Endpoints::listen`].
    ///
    /// # Errors
    /// The first endpoint that cannot be bound, and why. Nothing has changed then.
    pub(super) fn open(&self, settings: &Settings) -> Result<Self, String> {
        let mut endpoints = Self::default();
        match endpoints.open_all(settings, self.0.clone()) {
            Ok(()) => Ok(endpoints),
            Err(error) => {
                endpoints.remove_files(self);
                Err(error)
            }
        }
    }

    fn open_all(
        &mut self,
        settings: &Settings,
        mut standing: Vec<BoundEndpoint>,
    ) -> Result<(), String> {
        for (index, endpoint) in settings.endpoints.iter().enumerate() {
            let mut bound = match standing.iter().position(|bound| bound.is_at(endpoint)) {
                Some(index) => standing.remove(index),
                None => BoundEndpoint::bind(endpoint, settings.socket_mode)
                    .map_err(|error| refusal(endpoint, &error))?,
            };
            bound.update_moves(index, settings);
            self.0.push(bound);
        }
        if let Some(bound) = standing.into_iter().find(|bound| !bound.name.starts_with(OURS)) {
            // Clients would wait forever: the parent process keeps it open.
            let error = io::Error::other("it was inherited but is not configured");
            return Err(refusal(&bound.address, &error));
        }
        self.0.iter_mut().for_each(|bound| bound.grow(settings.sockets()));
        Ok(())
    }

    /// Calls `listen(2)` on the first socket of every endpoint. The kernel queues connections.
    ///
    /// # Errors
    /// The first endpoint that another process bound meanwhile.
    pub(super) fn listen_on_first(&self) -> Result<(), String> {
        self.0.iter().try_for_each(|bound| bound.listen(1))
    }

    /// Calls `listen(2)` on all sockets. From here on each needs a worker, or connections in its
    /// queue are lost: the workers must be ready before.
    ///
    /// # Errors
    /// The first endpoint that another process bound meanwhile, or a lack of memory.
    pub(super) fn listen(&self) -> Result<(), String> {
        // The calls that are more likely to fail are first.
        self.listen_on_first()?;
        self.0.iter().try_for_each(|bound| bound.listen(usize::MAX))
    }

    /// The bound addresses, with actual ports.
    pub(super) fn addresses(&self) -> Vec<Endpoint> {
        self.0.iter().map(|bound| bound.address.clone()).collect()
    }

    /// Duplicates of all sockets, for the workers of `settings`.
    ///
    /// # Errors
    /// The error of `dup(2)`: descriptors are exhausted.
    pub(super) fn assign(&self, settings: &Settings) -> io::Result<Vec<WorkerListeners>> {
        (0..settings.workers).map(|index| self.assign_one(settings, index)).collect()
    }

    /// Duplicates of the sockets of one worker of `settings`.
    ///
    /// # Errors
    /// As [`Endpoints::assign`].
    pub(super) fn assign_one(
        &self,
        settings: &Settings,
        index: usize,
    ) -> io::Result<WorkerListeners> {
        let workers = settings.workers;
        let mut listeners = WorkerListeners::default();
        for (index_of_endpoint, bound) in self.0.iter().enumerate() {
            let socket = bound.sockets[index % bound.sockets.len()].try_clone()?;
            let listener = match settings.listener_sharing {
                ListenerSharing::WakeAll => Listener::SharedWakeAll,
                ListenerSharing::Exclusive => Listener::SharedExclusive,
                ListenerSharing::PerWorker if bound.sockets.len() < workers => {
                    Listener::SharedExclusive
                }
                ListenerSharing::PerWorker => Listener::PerWorker,
            };
            listeners.listeners.push(listener(socket));
            listeners.endpoint_indices.push(index_of_endpoint);
        }
        for (endpoint_index, bound) in self.0.iter().enumerate() {
            if let Some(Moves { receiver, sender, .. }) = bound.moves.as_deref() {
                let (receiver, sender) = (receiver.try_clone()?, sender.try_clone()?);
                let name = text_of(&bound.address);
                listeners.moves.push(EndpointMoves { endpoint_index, name, receiver, sender });
            }
        }
        for (index_of_endpoint, bound) in self.0.iter().enumerate() {
            let surplus = bound.sockets.iter().enumerate().skip(workers);
            for (_, socket) in surplus.filter(|(number, _)| number % workers == index) {
                listeners.listeners.push(Listener::PerWorker(socket.try_clone()?));
                listeners.endpoint_indices.push(index_of_endpoint);
            }
        }
        Ok(listeners)
    }

    /// Whether there are connections that workers of `successors` receive from workers of these:
    /// all queues must be theirs, too.
    pub(super) fn pass_connections_to(&self, successors: &Self) -> bool {
        let mut queues = self.0.iter().filter_map(|bound| bound.moves.as_ref()).peekable();
        let is_theirs = |queue: &Arc<Moves>| {
            let mut theirs = successors.0.iter().filter_map(|bound| bound.moves.as_ref());
            theirs.any(|other| Arc::ptr_eq(other, queue))
        };
        queues.peek().is_some() && queues.all(is_theirs)
    }

    /// Number of endpoints.
    pub(super) const fn count(&self) -> usize {
        self.0.len()
    }

    /// Removes the files of Unix sockets that are not among `successors`.
    pub(super) fn remove_files(&self, successors: &Self) {
        for bound in &self.0 {
            let is_kept = successors.0.iter().any(|other| other.address == bound.address);
            if let Some(file) = bound.file.as_ref().filter(|_| !is_kept) {
                file.remove();
            }
        }
    }
}

impl BoundEndpoint {
    fn bind(endpoint: &Endpoint, mode: Option<u32>) -> io::Result<Self> {
        socket::probe_bind(endpoint)?;
        // Always with SO_REUSEPORT: a later pool may have more workers.
        let sharing = match endpoint {
            Endpoint::Tcp(_) => Sharing::Reuseport,
            Endpoint::Unix(_) => Sharing::Alone,
        };
        let socket = socket::bind(endpoint, sharing, mode)?;
        let address = socket::local_endpoint(&socket)?;
        let file = match &address {
            Endpoint::Unix(path) => Some(SocketFile::of(path)?),
            Endpoint::Tcp(_) => None,
        };
        let (name, sockets) = (name_of(endpoint), vec![Arc::new(socket)]);
        Ok(Self { name, address, sockets, file, moves: None })
    }

    /// Opens a queue for connections, unless there is one for the same options. A connection with
    /// TLS is more than its socket, and is not passed on.
    fn update_moves(&mut self, index: usize, settings: &Settings) {
        if self.moves.as_ref().is_some_and(|moves| moves.options.is_none()) {
            return;
        }
        let options = settings.listener_options.get(index).copied().unwrap_or_default();
        let is_encrypted = settings.tls.is_some() && options.use_tls(&self.address);
        let is_epoll = settings.driver.backend != Backend::Uring;
        if is_encrypted || !is_epoll || !settings.moves_connections {
            self.moves = None;
        } else if self.moves.as_ref().is_none_or(|moves| moves.options != Some(options)) {
            // If no queue can be created, because descriptors are exhausted, connections are
            // closed after their next response.
            let queue = socket::connection_queue().ok();
            self.moves = queue.map(|(receiver, sender)| {
                Arc::new(Moves { receiver, sender, options: Some(options) })
            });
        }
    }

    fn is_at(&self, endpoint: &Endpoint) -> bool {
        self.name == name_of(endpoint) || self.address == *endpoint
    }

    /// Opens sockets up to `count`, if possible. Otherwise workers share the existing ones: for
    /// example on a port below 1024 after privileges were dropped.
    fn grow(&mut self, count: usize) {
        let is_shareable = matches!(self.address, Endpoint::Tcp(_))
            && self.sockets.iter().all(socket::is_reuseport);
        while is_shareable && self.sockets.len() < count {
            let Ok(socket) = socket::bind(&self.address, Sharing::Reuseport, None) else {
                return;
            };
            self.sockets.push(Arc::new(socket));
        }
    }

    /// Calls `listen(2)` on the first `count` sockets that do not listen yet.
    fn listen(&self, count: usize) -> Result<(), String> {
        let silent = |socket: &&Arc<OwnedFd>| !socket::is_listening(socket);
        let mut new = self.sockets.iter().take(count).filter(silent);
        new.try_for_each(socket::listen).map_err(|error| refusal(&self.address, &error))
    }
}

/// Why an endpoint cannot be bound.
fn refusal(endpoint: &Endpoint, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => format!("{endpoint} is already in use"),
        _ => format!("cannot listen on {endpoint}: {error}"),
    }
}

/// The name of our own endpoint. Colons separate names in `sd_listen_fds(3)`.
fn name_of(endpoint: &Endpoint) -> String {
    format!("{OURS}{}", text_of(endpoint))
}

/// An address as a part of such a name.
fn text_of(endpoint: &Endpoint) -> String {
    endpoint.to_string().replace(':', "+")
}

/// The file of a Unix socket, by identity: another process may have replaced it since.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl SocketFile {
    fn of(path: &Path) -> io::Result<Self> {
        let found = std::fs::symlink_metadata(path)?;
        Ok(Self { path: path.to_owned(), identity: (found.dev(), found.ino()) })
    }

    fn remove(&self) {
        if Self::of(&self.path).is_ok_and(|found| found == *self) {
            // It may be gone already, or the directory may be read-only; both are harmless.
            let _gone = std::fs::remove_file(&self.path);
        }
    }
}
