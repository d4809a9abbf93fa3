//! The sockets of servers: taking a place, and beginning to listen there, which are two things.

use std::fs::Permissions;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;

use rustix::io::Errno;
use rustix::net::{self, SocketAddrUnix, SocketType, sockopt};

use crate::socket::{Endpoint, connect, local_endpoint, open, send_at_once};

/// How many finished handshakes the kernel may hold for us; it caps this at `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// Whether several sockets may listen on one TCP port and share its connections (`SO_REUSEPORT`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// The port is this socket's alone.
    Alone,
    /// Every worker has a listener of its own on the port.
    Reuseport,
}

/// Takes a place to listen, where nobody can connect before [`begin_to_listen`]. A Unix path that nobody
/// answers on is taken over; a live one is an error. `mode` says who may connect to it (`chmod(2)`).
///
/// # Errors
/// The error of `socket(2)`, `bind(2)` or `chmod(2)`; `EADDRINUSE` when somebody is there already.
pub fn bind(endpoint: &Endpoint, sharing: Sharing, mode: Option<u32>) -> io::Result<OwnedFd> {
    let socket = open(endpoint)?;
    match endpoint {
        Endpoint::Tcp(address) => {
            sockopt::set_socket_reuseaddr(&socket, true)?;
            if sharing == Sharing::Reuseport {
                sockopt::set_socket_reuseport(&socket, true)?;
            }
            send_at_once(&socket)?;
            net::bind(&socket, address)?;
        }
        Endpoint::Unix(path) => {
            if connect(endpoint).is_ok() {
                return Err(Errno::ADDRINUSE.into());
            }
            let is_socket = std::fs::symlink_metadata(path)
                .is_ok_and(|found| std::os::unix::fs::FileTypeExt::is_socket(&found.file_type()));
            if is_socket {
                std::fs::remove_file(path)?;
            }
            net::bind(&socket, &SocketAddrUnix::new(path)?)?;
            if let Some(mode) = mode {
                std::fs::set_permissions(path, Permissions::from_mode(mode))?;
            }
        }
    }
    Ok(socket)
}

/// Lets clients connect to where `socket` was bound.
///
/// # Errors
/// The error of `listen(2)`.
pub fn begin_to_listen(socket: impl AsFd) -> io::Result<()> {
    Ok(net::listen(socket, BACKLOG)?)
}

/// Opens a listener, by [`bind`] and [`begin_to_listen`] in one.
///
/// # Errors
/// As for both.
pub fn listen(endpoint: &Endpoint, sharing: Sharing) -> io::Result<OwnedFd> {
    let socket = bind(endpoint, sharing, None)?;
    begin_to_listen(&socket)?;
    Ok(socket)
}

/// Whether clients can connect to it.
pub fn is_listening(socket: impl AsFd) -> bool {
    sockopt::socket_acceptconn(socket) == Ok(true)
}

/// Lets the kernel hold at most about `count` finished handshakes for a listener (`listen(2)` again).
///
/// # Errors
/// The error of `listen(2)`.
pub fn set_backlog(listener: impl AsFd, count: u16) -> io::Result<()> {
    Ok(net::listen(listener, i32::from(count))?)
}

/// Whether other sockets of the same user may listen on this one's port beside it (`SO_REUSEPORT`).
pub fn is_reuseport(socket: impl AsFd) -> bool {
    sockopt::socket_reuseport(socket).unwrap_or(false)
}

/// Makes a listener that somebody else has opened one of ours, and returns where it listens.
///
/// # Errors
/// `InvalidInput` when it is no listening stream socket, TCP or Unix, and the error of `setsockopt(2)`.
pub fn adopt(socket: impl AsFd) -> io::Result<Endpoint> {
    let is_stream = sockopt::socket_type(&socket) == Ok(SocketType::STREAM);
    if !(is_stream && is_listening(&socket)) {
        let message = "it is no listening stream socket";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    rustix::io::ioctl_fionbio(&socket, true)?;
    let endpoint = local_endpoint(&socket)?;
    if matches!(endpoint, Endpoint::Tcp(_)) {
        send_at_once(&socket)?;
    }
    Ok(endpoint)
}

/// Finds out whether `endpoint` could be listened on, without a moment in which anybody could connect.
///
/// Listeners that share a port cannot tell on their own that a stranger shares it too.
///
/// # Errors
/// The error of `bind(2)`; `EADDRINUSE` when somebody is there already.
pub fn claim(endpoint: &Endpoint) -> io::Result<()> {
    let Endpoint::Tcp(address) = endpoint else { return Ok(()) };
    let socket = open(endpoint)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    Ok(net::bind(&socket, address)?)
}
