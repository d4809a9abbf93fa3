//! Listening sockets: bind and listen, as two steps.

use std::fs::Permissions;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;

use rustix::io::Errno;
use rustix::net::{self, SocketAddrUnix, SocketType, sockopt};

use super::stream::{Endpoint, connect, local_endpoint, open, set_nodelay};

/// Accept queue length; the kernel caps it at `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// Whether several sockets may listen on one TCP port and share its connections (`SO_REUSEPORT`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// The port is exclusive.
    Alone,
    /// Every worker has its own listener on the port.
    Reuseport,
}

/// Binds a socket; connections are refused until [`listen`]. A stale Unix socket is replaced; a
/// live one is an error. `mode` is the mode of a Unix socket (`chmod(2)`).
///
/// # Errors
/// The error of `socket(2)`, `bind(2)` or `chmod(2)`; `EADDRINUSE` when the address is in use.
pub fn bind(endpoint: &Endpoint, sharing: Sharing, mode: Option<u32>) -> io::Result<OwnedFd> {
    let socket = open(endpoint)?;
    match endpoint {
        Endpoint::Tcp(address) => {
            sockopt::set_socket_reuseaddr(&socket, true)?;
            if sharing == Sharing::Reuseport {
                sockopt::set_socket_reuseport(&socket, true)?;
            }
            set_nodelay(&socket)?;
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

/// Starts to accept connections on a bound socket.
///
/// # Errors
/// The error of `listen(2)`.
pub fn listen(socket: impl AsFd) -> io::Result<()> {
    Ok(net::listen(socket, BACKLOG)?)
}

/// Opens a listener, by [`bind`] and [`listen`] in one.
///
/// # Errors
/// As for both.
pub fn bind_and_listen(endpoint: &Endpoint, sharing: Sharing) -> io::Result<OwnedFd> {
    let socket = bind(endpoint, sharing, None)?;
    listen(&socket)?;
    Ok(socket)
}

/// Whether a socket is listening (`SO_ACCEPTCONN`).
pub fn is_listening(socket: impl AsFd) -> bool {
    sockopt::socket_acceptconn(socket) == Ok(true)
}

/// Sets the accept queue length of a listener (`listen(2)` again).
///
/// # Errors
/// The error of `listen(2)`.
pub fn set_backlog(listener: impl AsFd, count: u16) -> io::Result<()> {
    Ok(net::listen(listener, i32::from(count))?)
}

/// Whether `SO_REUSEPORT` is set.
pub fn is_reuseport(socket: impl AsFd) -> bool {
    sockopt::socket_reuseport(socket).unwrap_or(false)
}

/// Configures an inherited listener and returns its address.
///
/// # Errors
/// `InvalidInput` for anything but a listening stream socket, and the error of `setsockopt(2)`.
pub fn from_inherited(socket: impl AsFd) -> io::Result<Endpoint> {
    let is_stream = sockopt::socket_type(&socket) == Ok(SocketType::STREAM);
    if !(is_stream && is_listening(&socket)) {
        let message = "not a listening stream socket";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    rustix::io::ioctl_fionbio(&socket, true)?;
    let endpoint = local_endpoint(&socket)?;
    if matches!(endpoint, Endpoint::Tcp(_)) {
        set_nodelay(&socket)?;
    }
    Ok(endpoint)
}

/// Checks whether `endpoint` is free, without accepting connections.
///
/// With `SO_REUSEPORT` alone, a port in use by another process would not be detected.
///
/// # Errors
/// The error of `bind(2)`; `EADDRINUSE` when the address is in use.
pub fn probe_bind(endpoint: &Endpoint) -> io::Result<()> {
    let Endpoint::Tcp(address) = endpoint else { return Ok(()) };
    let socket = open(endpoint)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    Ok(net::bind(&socket, address)?)
}

/// Whether an error means that descriptors or memory are exhausted (`accept(2)`): the call may
/// succeed later.
pub fn is_resource_exhausted(error: &io::Error) -> bool {
    let shortages = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    shortages.iter().any(|shortage| error.raw_os_error() == Some(shortage.raw_os_error()))
}
