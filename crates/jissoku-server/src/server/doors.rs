//! The endpoints of a server and their sockets, which outlive the workers that listen on them.
//!
//! A socket that was opened stays open until the endpoint is given up: the kernel resets whoever waits on a
//! listener that closes. So the sockets belong to the server, every generation of workers is dealt
//! duplicates of the same ones, and when there are fewer workers some have two.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jissoku_os::driver::Listener;
use jissoku_os::inherited::Inherited;
use jissoku_os::socket::{self, Endpoint, Sharing};

use super::Settings;
use super::dealing::Dealing;

/// A place that cannot be listened on.
#[derive(Debug)]
pub struct ListenError {
    endpoint: Endpoint,
    error: io::Error,
}

impl fmt::Display for ListenError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.error.kind() == io::ErrorKind::AddrInUse {
            return write!(formatter, "{} is taken: somebody listens there already", self.endpoint);
        }
        write!(formatter, "cannot listen on {}: {}", self.endpoint, self.error)
    }
}

impl std::error::Error for ListenError {}

/// One endpoint, as it was asked for and as it was had.
#[derive(Clone, Debug)]
struct Door {
    /// What it was asked for as, or what somebody else calls it who has opened it.
    name: String,
    bound: Endpoint,
    sockets: Vec<Arc<OwnedFd>>,
    /// The file of a Unix socket that is ours to take away.
    file: Option<SocketFile>,
}

/// All endpoints of a server.
#[derive(Clone, Debug, Default)]
pub(super) struct Doors(Vec<Door>);

/// What one worker listens on.
#[derive(Debug, Default)]
pub(super) struct Post {
    pub(super) listeners: Vec<Listener>,
    /// For each of them, which endpoint it belongs to: a worker may have two of one.
    pub(super) places: Vec<usize>,
}

/// What the names of our own doors begin with, when they are handed to a successor.
const OURS: &str = "jissoku=";

impl Doors {
    /// Sockets that another process has opened.
    ///
    /// # Errors
    /// The name of the first that is no listener, and what it is instead.
    pub(super) fn adopt(inherited: Vec<Inherited>) -> io::Result<Self> {
        let mut doors: Vec<Door> = Vec::new();
        for Inherited { name, fd } in inherited {
            let bound = socket::adopt(&fd)
                .map_err(|error| io::Error::other(format!("{name} was handed over: {error}")))?;
            let is_same = |door: &&mut Door| door.name == name && door.bound == bound;
            if let Some(door) = doors.iter_mut().find(is_same) {
                door.sockets.push(Arc::new(fd));
                continue;
            }
            let file = match &bound {
                Endpoint::Unix(path) if name.starts_with(OURS) => SocketFile::of(path).ok(),
                _ => None,
            };
            doors.push(Door { name, bound, sockets: vec![Arc::new(fd)], file });
        }
        Ok(Self(doors))
    }

    /// Takes out the last door at `endpoint`, if there is one.
    pub(super) fn split_off(&mut self, endpoint: &Endpoint) -> Self {
        let index = self.0.iter().rposition(|door| door.is_at(endpoint));
        Self(index.map(|index| self.0.remove(index)).into_iter().collect())
    }

    /// Every socket, under the name of its door.
    pub(super) fn sockets(&self) -> Vec<(String, Arc<OwnedFd>)> {
        let sockets_of = |door: &Door| {
            let name = door.name.clone();
            door.sockets.iter().map(move |socket| (name.clone(), Arc::clone(socket))).collect()
        };
        self.0.iter().flat_map(|door| -> Vec<_> { sockets_of(door) }).collect()
    }

    /// Takes the places that `settings` want; what of it stands already is kept. Nobody can connect to what
    /// is new before [`Doors::listen`].
    ///
    /// # Errors
    /// The first endpoint that cannot be had, and why. Nothing has changed then.
    pub(super) fn open(&self, settings: &Settings) -> Result<Self, ListenError> {
        let mut doors = Self::default();
        match doors.open_all(settings, self.0.clone()) {
            Ok(()) => Ok(doors),
            Err(error) => {
                doors.remove_files(self);
                Err(error)
            }
        }
    }

    fn open_all(
        &mut self,
        settings: &Settings,
        mut standing: Vec<Door>,
    ) -> Result<(), ListenError> {
        for endpoint in &settings.endpoints {
            let door = match standing.iter().position(|door| door.is_at(endpoint)) {
                Some(index) => standing.remove(index),
                None => Door::bind(endpoint, settings.socket_mode)
                    .map_err(|error| ListenError { endpoint: endpoint.clone(), error })?,
            };
            self.0.push(door);
        }
        if let Some(door) = standing.into_iter().find(|door| !door.name.starts_with(OURS)) {
            // Whoever connects there would wait for ever: the other side keeps it open.
            let error = io::Error::other("it was handed over, and is not to be listened on");
            return Err(ListenError { endpoint: door.bound, error });
        }
        self.0.iter_mut().for_each(|door| door.grow(settings.dealing().sockets()));
        Ok(())
    }

    /// Lets clients connect to the first socket of every door. The kernel keeps them there until they are taken.
    ///
    /// # Errors
    /// The first endpoint where somebody else was faster.
    pub(super) fn listen_on_firsts(&self) -> Result<(), ListenError> {
        self.0.iter().try_for_each(|door| door.listen(1))
    }

    /// Lets clients connect to all sockets. From here on each has to have a worker, or whoever is in its
    /// queue is lost: that is why workers are ready before.
    ///
    /// # Errors
    /// The first endpoint where somebody else was faster, or the kernel has no memory.
    pub(super) fn listen(&self) -> Result<(), ListenError> {
        // Where it may fail before where it hardly can.
        self.listen_on_firsts()?;
        self.0.iter().try_for_each(|door| door.listen(usize::MAX))
    }

    /// Where connections come in, with the ports the kernel chose.
    pub(super) fn endpoints(&self) -> Vec<Endpoint> {
        self.0.iter().map(|door| door.bound.clone()).collect()
    }

    /// Duplicates of all sockets, for the workers of `dealing`.
    ///
    /// # Errors
    /// The error of `dup(2)`: there are no more descriptors.
    pub(super) fn deal(&self, dealing: Dealing) -> io::Result<Vec<Post>> {
        let listening = dealing.listening();
        let mut posts: Vec<Post> = (0..dealing.workers()).map(|_| Post::default()).collect();
        for (place, door) in self.0.iter().enumerate() {
            for (index, post) in posts.iter_mut().enumerate().take(listening) {
                let socket = door.sockets[index % door.sockets.len()].try_clone()?;
                let is_shared = door.sockets.len() < listening;
                let listener = match dealing {
                    Dealing::Herd(_) => Listener::Herd,
                    _ if is_shared => Listener::Shared,
                    _ => Listener::Own,
                };
                post.listeners.push(listener(socket));
                post.places.push(place);
            }
        }
        for (place, door) in self.0.iter().enumerate() {
            for (index, socket) in door.sockets.iter().enumerate().skip(listening) {
                let post = &mut posts[index % listening];
                post.listeners.push(Listener::Own(socket.try_clone()?));
                post.places.push(place);
            }
        }
        Ok(posts)
    }

    /// Takes away the files of Unix sockets that none of `successors` has.
    pub(super) fn remove_files(&self, successors: &Self) {
        for door in &self.0 {
            let is_kept = successors.0.iter().any(|other| other.bound == door.bound);
            if let Some(file) = door.file.as_ref().filter(|_| !is_kept) {
                file.remove();
            }
        }
    }
}

impl Door {
    fn bind(endpoint: &Endpoint, mode: Option<u32>) -> io::Result<Self> {
        socket::claim(endpoint)?;
        // Always ready to be shared: a later generation may have more workers.
        let sharing = match endpoint {
            Endpoint::Tcp(_) => Sharing::Reuseport,
            Endpoint::Unix(_) => Sharing::Alone,
        };
        let socket = socket::bind(endpoint, sharing, mode)?;
        let bound = socket::local_endpoint(&socket)?;
        let file = match &bound {
            Endpoint::Unix(path) => Some(SocketFile::of(path)?),
            Endpoint::Tcp(_) => None,
        };
        Ok(Self { name: name_of(endpoint), bound, sockets: vec![Arc::new(socket)], file })
    }

    fn is_at(&self, endpoint: &Endpoint) -> bool {
        self.name == name_of(endpoint) || self.bound == *endpoint
    }

    /// Has so many sockets where that is possible. Where it is not, they share those there are:
    /// a port below 1024 after the privileges were given up, for example.
    fn grow(&mut self, count: usize) {
        let is_shareable =
            matches!(self.bound, Endpoint::Tcp(_)) && self.sockets.iter().all(socket::is_reuseport);
        while is_shareable && self.sockets.len() < count {
            let Ok(socket) = socket::bind(&self.bound, Sharing::Reuseport, None) else {
                return;
            };
            self.sockets.push(Arc::new(socket));
        }
    }

    /// Lets clients connect to so many of the sockets; those that others have opened keep their backlog.
    fn listen(&self, count: usize) -> Result<(), ListenError> {
        let silent = |socket: &&Arc<OwnedFd>| !socket::is_listening(socket);
        let mut new = self.sockets.iter().take(count).filter(silent);
        new.try_for_each(socket::begin_to_listen)
            .map_err(|error| ListenError { endpoint: self.bound.clone(), error })
    }
}

/// The name of an endpoint of ours. Colons separate the names of `sd_listen_fds(3)`.
fn name_of(endpoint: &Endpoint) -> String {
    format!("{OURS}{}", endpoint.to_string().replace(':', "+"))
}

/// The file of a Unix socket. Somebody else may have put theirs in its place since.
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
            // Somebody was faster, or the folder is not ours to change; neither hurts anybody.
            let _gone = std::fs::remove_file(&self.path);
        }
    }
}
