//! Non-blocking stream sockets, TCP and Unix.

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

use super::options::SocketOptions;

/// A TCP or Unix address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// An address and port.
    Tcp(SocketAddr),
    /// A path in the file system.
    Unix(PathBuf),
}

/// An invalid endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadEndpoint(String);

impl fmt::Display for BadEndpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "invalid address {:?}: write HOST:PORT or unix:PATH", self.0)
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

/// The local address of a socket, with the actual port.
///
/// # Errors
/// The error of `getsockname(2)`, or `InvalidInput` for a socket that is neither TCP nor a named
/// Unix one.
pub fn local_endpoint(socket: impl AsFd) -> io::Result<Endpoint> {
    let address = net::getsockname(socket)?;
    if let Ok(tcp) = SocketAddr::try_from(address.clone()) {
        return Ok(Endpoint::Tcp(tcp));
    }
    let unix = SocketAddrUnix::try_from(address)?;
    let path = unix.path_bytes().ok_or(io::ErrorKind::InvalidInput)?;
    Ok(Endpoint::Unix(String::from_utf8_lossy(path).into_owned().into()))
}

/// The IP address of the peer (`getpeername(2)`); `None` for a Unix socket and for a closed
/// connection.
pub fn peer_address(socket: impl AsFd) -> Option<IpAddr> {
    peer(socket).map(|address| address.ip())
}

/// As [`peer_address`], with the port.
pub fn peer(socket: impl AsFd) -> Option<SocketAddr> {
    SocketAddr::try_from(net::getpeername(socket).ok()??).ok()
}

/// Whether this is not a Unix socket.
pub fn is_tcp(socket: impl AsFd) -> bool {
    sockopt::socket_domain(socket).is_ok_and(|domain| domain != AddressFamily::UNIX)
}

/// Accepts one connection, or returns `None` when none is queued.
///
/// A TCP connection inherits `TCP_NODELAY` from its listener.
///
/// # Errors
/// The error of `accept4(2)`; `EMFILE` and `ENFILE` have to be handled.
pub fn accept(listener: impl AsFd) -> io::Result<Option<OwnedFd>> {
    match net::accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
        Ok(socket) => Ok(Some(socket)),
        Err(error) => no_connection(error),
    }
}

/// As [`accept`], with the address of the peer; `None` for a Unix socket.
///
/// # Errors
/// As for [`accept`].
pub fn accept_from(listener: impl AsFd) -> io::Result<Option<(OwnedFd, Option<SocketAddr>)>> {
    match net::acceptfrom_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
        Ok((socket, peer)) => {
            let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
            Ok(Some((socket, peer)))
        }
        Err(error) => no_connection(error),
    }
}

fn no_connection<T>(error: Errno) -> io::Result<Option<T>> {
    match error {
        Errno::AGAIN | Errno::CONNABORTED | Errno::INTR => Ok(None),
        _ => Err(error.into()),
    }
}

/// Starts to connect: the socket becomes writable when that has succeeded or failed.
///
/// # Errors
/// The error of `socket(2)` or `connect(2)`, other than "in progress".
pub fn connect(endpoint: &Endpoint) -> io::Result<OwnedFd> {
    connect_from(endpoint, None, SocketOptions::default())
}

/// As [`connect`], from a local address. Each has about 28,000 ephemeral ports;
/// `IP_BIND_ADDRESS_NO_PORT` lets several destinations share a port.
///
/// # Errors
/// As for [`connect`], and the error of `bind(2)`: `EADDRNOTAVAIL` when the address is not local.
pub fn connect_from(
    endpoint: &Endpoint,
    local: Option<IpAddr>,
    options: SocketOptions,
) -> io::Result<OwnedFd> {
    let socket = open(endpoint)?;
    if let (Endpoint::Tcp(_), Some(local)) = (endpoint, local) {
        bind_address(&socket, local)?;
    }
    options.set_sizes(&socket)?;
    let outcome = match endpoint {
        Endpoint::Tcp(address) => {
            if !options.nagle {
                set_nodelay(&socket)?;
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

/// The result of a connection attempt, once the socket is writable.
///
/// # Errors
/// The error the attempt ended with (`SO_ERROR`).
pub fn take_error(socket: impl AsFd) -> io::Result<()> {
    Ok(sockopt::socket_error(socket)??)
}

/// Disables Nagle's algorithm of a TCP socket (`TCP_NODELAY`).
///
/// # Errors
/// The error of `setsockopt(2)`.
pub fn set_nodelay(socket: impl AsFd) -> io::Result<()> {
    Ok(sockopt::set_tcp_nodelay(socket, true)?)
}

/// Enables Nagle's algorithm of a TCP socket: a small segment waits until the previous one is
/// acknowledged.
///
/// # Errors
/// The error of `setsockopt(2)`; there is no such option on a Unix socket.
pub fn clear_nodelay(socket: impl AsFd) -> io::Result<()> {
    Ok(sockopt::set_tcp_nodelay(socket, false)?)
}

/// Lets a close reset the connection, without `TIME_WAIT` (`SO_LINGER` of zero).
///
/// # Errors
/// The error of `setsockopt(2)`.
pub fn set_linger_zero(socket: impl AsFd) -> io::Result<()> {
    Ok(sockopt::set_socket_linger(socket, Some(std::time::Duration::ZERO))?)
}

/// The result of a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// Number of received bytes, at least one.
    Bytes(usize),
    /// Nothing to read.
    NotYet,
    /// End of file.
    End,
}

/// Receives available bytes (`recv(2)`).
///
/// # Errors
/// The error of `recv(2)`; `ECONNRESET` after a reset.
pub fn receive(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<Received> {
    match net::recv(socket, buffer, RecvFlags::empty()) {
        Ok((0, _)) => Ok(Received::End),
        Ok((count, _)) => Ok(Received::Bytes(count)),
        Err(Errno::AGAIN | Errno::INTR) => Ok(Received::NotYet),
        Err(error) => Err(error.into()),
    }
}

/// The address with IPv4 where it is mapped into IPv6.
pub const fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Whether bytes were received that were not read, which a close would answer with a reset.
pub fn has_unread(socket: impl AsFd) -> bool {
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    net::recv(socket, &mut [0; 1][..], flags).is_ok_and(|(count, _)| count > 0)
}

/// Sends as much as the kernel accepts (`send(2)`, no `SIGPIPE`) and returns the number of bytes.
///
/// # Errors
/// The error of `send(2)`; `EPIPE` or `ECONNRESET` after a reset.
pub fn send(socket: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    match net::send(socket, bytes, SendFlags::NOSIGNAL) {
        Ok(count) => Ok(count),
        Err(Errno::AGAIN | Errno::INTR) => Ok(0),
        Err(error) => Err(error.into()),
    }
}

/// Whether more bytes follow, so that the last segment may wait (`MSG_MORE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum More {
    /// No more bytes follow.
    No,
    /// More follow.
    Follows,
}

/// As [`send`], for several slices (`sendmsg(2)`).
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

/// Sends up to `size` bytes of `file` from `offset` (`sendfile(2)`) and returns the number of
/// bytes. Requires [`crate::signal::ignore_sigpipe`], because the call has no flag for that.
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
    // Reading the file may be interrupted while the socket is writable.
    let sent =
        rustix::io::retry_on_intr(|| rustix::fs::sendfile(&socket, &file, Some(&mut offset), size));
    match sent {
        Ok(0) if size > 0 => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(count) => Ok(count),
        Err(Errno::AGAIN) => Ok(0),
        Err(error) => Err(error.into()),
    }
}

/// Shuts down the write side (`shutdown(2)`).
///
/// # Errors
/// The error of `shutdown(2)`; `ENOTCONN` for a closed connection.
pub fn shutdown_write(socket: impl AsFd) -> io::Result<()> {
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
