//! Service notifications (`sd_notify(3)`).

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The notification socket of the service manager.
#[derive(Debug)]
pub struct SdNotify {
    socket: UnixDatagram,
    address: SocketAddr,
}

impl SdNotify {
    /// Opens the socket `address` (`NOTIFY_SOCKET`): a path, or `@` and an abstract name.
    ///
    /// # Errors
    /// `InvalidInput` for another kind of address, or the error of `socket(2)`.
    pub fn new(address: &OsStr) -> io::Result<Self> {
        let address = match address.as_bytes() {
            [b'@', name @ ..] if !name.is_empty() => SocketAddr::from_abstract_name(name)?,
            [b'/', ..] => SocketAddr::from_pathname(address)?,
            _ => return Err(io::ErrorKind::InvalidInput.into()),
        };
        let socket = UnixDatagram::unbound()?;
        // A manager that does not read must not block the server.
        socket.set_nonblocking(true)?;
        Ok(Self { socket, address })
    }

    /// Sends assignments, one per line, as one datagram.
    ///
    /// # Errors
    /// The error of `sendto(2)`.
    pub fn send(&self, lines: &str) -> io::Result<()> {
        self.socket.send_to_addr(lines.as_bytes(), &self.address).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(address: &OsStr, listener: &UnixDatagram) {
        SdNotify::new(address).expect("an address").send("READY=1\nSTATUS=x").expect("sent");
        let mut bytes = [0; 64];
        let size = listener.recv(&mut bytes).expect("a message");
        assert_eq!(&bytes[..size], b"READY=1\nSTATUS=x");
    }

    #[test]
    fn a_path_receives() {
        let path = std::env::temp_dir().join(format!("jissoku-notify-{}", std::process::id()));
        let listener = UnixDatagram::bind(&path).expect("a socket");
        check(path.as_os_str(), &listener);
        std::fs::remove_file(path).expect("the socket is ours");
    }

    #[test]
    fn an_abstract_name_receives() {
        let name = format!("jissoku-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let listener = UnixDatagram::bind_addr(&address).expect("a socket");
        check(OsStr::new(&format!("@{name}")), &listener);
    }

    #[test]
    fn other_addresses_are_refused() {
        for address in ["", "@", "vsock:2:1", "relative"] {
            assert!(SdNotify::new(OsStr::new(address)).is_err(), "{address:?}");
        }
    }
}
