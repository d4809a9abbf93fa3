//! Says to the service manager how the process is doing: the protocol of `sd_notify(3)`.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Whom to tell: the value of `NOTIFY_SOCKET`.
#[derive(Debug)]
pub struct Notifier {
    socket: UnixDatagram,
    address: SocketAddr,
}

impl Notifier {
    /// Tells whoever listens on `address`: a path, or a name in the abstract namespace after an `@`.
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
        // A manager that does not read is no reason to stand still.
        socket.set_nonblocking(true)?;
        Ok(Self { socket, address })
    }

    /// Sends assignments, one per line, as one message.
    ///
    /// # Errors
    /// The error of `sendto(2)`.
    pub fn tell(&self, lines: &str) -> io::Result<()> {
        self.socket.send_to_addr(lines.as_bytes(), &self.address).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(address: &OsStr, listener: &UnixDatagram) {
        Notifier::new(address).expect("an address").tell("READY=1\nSTATUS=x").expect("told");
        let mut bytes = [0; 64];
        let size = listener.recv(&mut bytes).expect("a message");
        assert_eq!(&bytes[..size], b"READY=1\nSTATUS=x");
    }

    #[test]
    fn a_path_is_told() {
        let path = std::env::temp_dir().join(format!("jissoku-notify-{}", std::process::id()));
        let listener = UnixDatagram::bind(&path).expect("a socket");
        check(path.as_os_str(), &listener);
        std::fs::remove_file(path).expect("the socket is ours");
    }

    #[test]
    fn an_abstract_name_is_told() {
        let name = format!("jissoku-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let listener = UnixDatagram::bind_addr(&address).expect("a socket");
        check(OsStr::new(&format!("@{name}")), &listener);
    }

    #[test]
    fn other_addresses_are_refused() {
        for address in ["", "@", "vsock:2:1", "relative"] {
            assert!(Notifier::new(OsStr::new(address)).is_err(), "{address:?}");
        }
    }
}
