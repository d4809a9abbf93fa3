//! Stream sockets, TCP and Unix alike, never blocking. The rest of the tree sees [`Endpoint`] and file descriptors.

use std::fmt;
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::str::FromStr;

use rustix::io::Errno;
use rustix::net::{
    self, AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, SocketAddrUnix,
    SocketFlags, SocketType, sockopt,
};

pub use crate::buffering::Buffering;
pub use crate::listening::{
    Sharing, adopt, begin_to_listen, bind, claim, is_listening, is_reuseport, listen, set_backlog,
};

/// Where a server listens or a client connects.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// An address and port.
    Tcp(SocketAddr),
    /// A path in the file system.
    Unix(PathBuf),
}

/// An endpoint that could not be read from text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadEndpoint(String);

impl fmt::Display for BadEndpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?} is no address: write HOST:PORT or unix:PATH", self.0)
    }
}

impl std::error::Error for BadEndpoint {}

impl FromStr for Endpoint {
    type Err = BadEndpoint;

    fn from_str(text: &str) -> Result<Self, BadEndpoint> {
        if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return Ok(Self::Unix(path.into()));
        }
        let mut found = text.to_socket_addrs().map_err(|_| BadEndpoint(text.to_owned()))?;
        found.next().map(Self::Tcp).ok_or_else(|| BadEndpoint(text.to_owned()))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(formatter),
            Self::Unix(path) => write!(formatter, "unix:{}", path.display()),
        }
    }
}

/// The endpoint a listener got, which tells the port when zero was asked for.
///
/// # Errors
/// The error of `getsockname(2)`, or `InvalidInput` for a socket that is neither TCP nor a named Unix one.
pub fn local_endpoint(socket: impl AsFd) -> io::Result<Endpoint> {
    let address = net::getsockname(socket)?;
    if let Ok(tcp) = SocketAddr::try_from(address.clone()) {
        return Ok(Endpoint::Tcp(tcp));
    }
    let unix = SocketAddrUnix::try_from(address)?;
    let path = unix.path_bytes().ok_or(io::ErrorKind::InvalidInput)?;
    Ok(Endpoint::Unix(String::from_utf8_lossy(path).into_owned().into()))
}

/// The address at the other end of a connection (`getpeername(2)`), without its port; `None` for a Unix
/// socket, and for a peer that has gone.
#[must_use]
pub fn peer_address(socket: impl AsFd) -> Option<IpAddr> {
    peer(socket).map(|address| address.ip())
}

/// As [`peer_address`], with the port.
#[must_use]
pub fn peer(socket: impl AsFd) -> Option<SocketAddr> {
    SocketAddr::try_from(net::getpeername(socket).ok()??).ok()
}

/// Whether this is a socket of the network, rather than one of the file system.
#[must_use]
pub fn is_tcp(socket: impl AsFd) -> bool {
    sockopt::socket_domain(socket).is_ok_and(|domain| domain != AddressFamily::UNIX)
}

/// Takes one waiting connection, or `None` when there is none.
///
/// Small answers leave at once: a TCP connection has `TCP_NODELAY` from its listener.
///
/// # Errors
/// The error of `accept4(2)`; `EMFILE` and `ENFILE` deserve the caller's thought.
pub fn accept(listener: impl AsFd) -> io::Result<Option<OwnedFd>> {
    match net::accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
        Ok(socket) => Ok(Some(socket)),
        Err(Errno::AGAIN | Errno::CONNABORTED | Errno::INTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Starts a connection and returns at once: the socket becomes writable when it stands or has failed.
///
/// # Errors
/// The error of `socket(2)` or `connect(2)`, other than "in progress".
pub fn connect(endpoint: &Endpoint) -> io::Result<OwnedFd> {
    connect_from(endpoint, None, Buffering::default())
}

/// As [`connect`], from a local address. Each has its own 28,000 ports; which one is taken is decided
/// when the other side is known (`IP_BIND_ADDRESS_NO_PORT`), so one port serves several other sides.
///
/// # Errors
/// As for [`connect`], and the error of `bind(2)`: `EADDRNOTAVAIL` when the address is not ours.
pub fn connect_from(
    endpoint: &Endpoint,
    local: Option<IpAddr>,
    buffering: Buffering,
) -> io::Result<OwnedFd> {
    let socket = open(endpoint)?;
    if let (Endpoint::Tcp(_), Some(local)) = (endpoint, local) {
        bind_address(&socket, local)?;
    }
    buffering.set_sizes(&socket)?;
    let outcome = match endpoint {
        Endpoint::Tcp(address) => {
            if !buffering.collects {
                send_at_once(&socket)?;
            }
            net::connect(&socket, address)
        }
        Endpoint::Unix(path) => net::connect(&socket, &SocketAddrUnix::new(path)?),
    };
    match outcome {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error.into()),
    }
}

/// How a connection attempt ended, once the socket has become writable.
///
/// # Errors
/// The error the attempt ended with (`SO_ERROR`).
pub fn connect_outcome(socket: impl AsFd) -> io::Result<()> {
    Ok(sockopt::socket_error(socket)??)
}

/// Turns Nagle's algorithm off for a TCP socket.
///
/// # Errors
/// The error of `setsockopt(2)`.
pub fn send_at_once(socket: impl AsFd) -> io::Result<()> {
    Ok(sockopt::set_tcp_nodelay(socket, true)?)
}

/// Turns Nagle's algorithm on for a TCP socket: a small segment waits until the one before is acknowledged.
///
/// # Errors
/// The error of `setsockopt(2)`; there is no such option on a Unix socket.
pub fn send_together(socket: impl AsFd) -> io::Result<()> {
    Ok(sockopt::set_tcp_nodelay(socket, false)?)
}

/// Closes a connection so that no `TIME_WAIT` stays behind (`SO_LINGER` of zero: a reset).
///
/// # Errors
/// The error of `setsockopt(2)`.
pub fn reset_on_close(socket: impl AsFd) -> io::Result<()> {
    Ok(sockopt::set_socket_linger(socket, Some(std::time::Duration::ZERO))?)
}

/// What one read brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// So many bytes, at least one, at the front of the buffer.
    Bytes(usize),
    /// Nothing is there now.
    NotYet,
    /// The peer will send no more.
    End,
}

/// Reads what is there (`recv(2)`), without waiting.
///
/// # Errors
/// The error of `recv(2)`; `ECONNRESET` when the peer has given up.
pub fn receive(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<Received> {
    match net::recv(socket, buffer, RecvFlags::empty()) {
        Ok((0, _)) => Ok(Received::End),
        Ok((count, _)) => Ok(Received::Bytes(count)),
        Err(Errno::AGAIN | Errno::INTR) => Ok(Received::NotYet),
        Err(error) => Err(error.into()),
    }
}

/// Sends what the kernel will take (`send(2)`, no `SIGPIPE`), and returns how many bytes that were.
///
/// # Errors
/// The error of `send(2)`; `EPIPE` or `ECONNRESET` when the peer has given up.
pub fn send(socket: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    match net::send(socket, bytes, SendFlags::NOSIGNAL) {
        Ok(count) => Ok(count),
        Err(Errno::AGAIN | Errno::INTR) => Ok(0),
        Err(error) => Err(error.into()),
    }
}

/// Whether more bytes follow at once, so that the last segment may wait for them (`MSG_MORE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum More {
    /// These are the last for now.
    No,
    /// More follow.
    Follows,
}

/// As [`send`], for bytes in several places (`sendmsg(2)`).
///
/// # Errors
/// The error of `sendmsg(2)`, as for [`send`].
pub fn send_slices(socket: impl AsFd, slices: &[IoSlice<'_>], more: More) -> io::Result<usize> {
    let mut control = SendAncillaryBuffer::default();
    let flags = match more {
        More::No => SendFlags::NOSIGNAL,
        More::Follows => SendFlags::NOSIGNAL | SendFlags::MORE,
    };
    match net::sendmsg(socket, slices, &mut control, flags) {
        Ok(count) => Ok(count),
        Err(Errno::AGAIN | Errno::INTR) => Ok(0),
        Err(error) => Err(error.into()),
    }
}

/// Sends up to `size` bytes of `file` from `offset` on (`sendfile(2)`), and returns how many went. The
/// process has to [`crate::signal::outlive_broken_pipes`], because this call knows no other way.
///
/// # Errors
/// The error of `sendfile(2)`, as for [`send`]; `UnexpectedEof` when the file is shorter than that.
pub fn send_file(
    socket: impl AsFd,
    file: impl AsFd,
    offset: u64,
    size: usize,
) -> io::Result<usize> {
    let mut offset = offset;
    match rustix::fs::sendfile(socket, file, Some(&mut offset), size) {
        Ok(0) if size > 0 => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(count) => Ok(count),
        Err(Errno::AGAIN | Errno::INTR) => Ok(0),
        Err(error) => Err(error.into()),
    }
}

/// Tells the peer that nothing more will come; it can still send (`shutdown(2)`).
///
/// # Errors
/// The error of `shutdown(2)`; `ENOTCONN` when the peer has gone.
pub fn finish(socket: impl AsFd) -> io::Result<()> {
    Ok(net::shutdown(socket, Shutdown::Write)?)
}

#[expect(unsafe_code, reason = "the option has no safe wrapper")]
fn bind_address(socket: &OwnedFd, local: IpAddr) -> io::Result<()> {
    let on: libc::c_int = 1;
    let size = libc::socklen_t::try_from(size_of_val(&on)).unwrap_or(0);
    let (level, option) = (libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT);
    // SAFETY: `on` outlives the call, which reads its size in bytes and keeps no pointer.
    let status = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const on).cast(), size)
    };
    if status != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(net::bind(socket, &SocketAddr::new(local, 0))?)
}

pub(crate) fn open(endpoint: &Endpoint) -> io::Result<OwnedFd> {
    let family = match endpoint {
        Endpoint::Tcp(SocketAddr::V4(_)) => AddressFamily::INET,
        Endpoint::Tcp(SocketAddr::V6(_)) => AddressFamily::INET6,
        Endpoint::Unix(_) => AddressFamily::UNIX,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(net::socket_with(family, SocketType::STREAM, flags, None)?)
}
