//! Tunnel devices: network interfaces whose packets a program receives and sends (`tun(4)`).

use std::ffi::c_char;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Larger than any packet that a device hands out: its largest MTU.
pub const PACKET_BYTES_MAX: usize = 65_535;

/// An interface that exists as long as this does, also if it is moved to another network namespace.
#[derive(Debug)]
pub struct Tun {
    device: OwnedFd,
}

impl Tun {
    /// Creates an interface of this name in the network namespace of this thread; it is down and
    /// has no address. Its packets are those of IP, without anything before them.
    ///
    /// # Errors
    /// `EPERM` without `CAP_NET_ADMIN`, `EBUSY` if there is one of this name, `EINVAL` if the name
    /// is too long, or the error of opening `/dev/net/tun`.
    pub fn create(name: &str) -> io::Result<Self> {
        let mut wanted = libc::ifreq {
            ifr_name: [0; libc::IFNAMSIZ],
            ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_flags: 0 },
        };
        // The last byte stays zero.
        if name.is_empty() || name.len() >= wanted.ifr_name.len() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        for (place, byte) in wanted.ifr_name.iter_mut().zip(name.bytes()) {
            *place = c_char::from_ne_bytes([byte]);
        }
        let flags = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_TUN_EXCL;
        // `IFF_TUN_EXCL` is the sign of a short.
        #[expect(clippy::cast_possible_truncation, reason = "the flags have 16 bits")]
        let flags = flags as libc::c_short;
        wanted.ifr_ifru.ifru_flags = flags;
        let opened = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let device = rustix::fs::open("/dev/net/tun", opened, Mode::empty())?;
        set_interface(&device, &mut wanted)?;
        Ok(Self { device })
    }

    /// Receives the next packet that is sent over the interface into `buffer`, and returns its size;
    /// `None` if there is none now.
    ///
    /// # Errors
    /// The error of `read(2)`, as when the interface was removed with its network namespace.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match rustix::io::read(&self.device, buffer) {
            Ok(count) => Ok(Some(count)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Has the interface receive a packet; returns whether it did: not while it is down, and not
    /// without memory.
    ///
    /// # Errors
    /// The error of `write(2)`, as when the interface was removed with its network namespace.
    pub fn send(&self, packet: &[u8]) -> io::Result<bool> {
        match rustix::io::write(&self.device, packet) {
            Ok(_) => Ok(true),
            Err(Errno::IO | Errno::NOMEM | Errno::NOBUFS | Errno::INVAL | Errno::AGAIN) => {
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Tun {
    /// Readable while a packet can be received.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

#[expect(unsafe_code, reason = "there is no safe wrapper")]
fn set_interface(device: &OwnedFd, wanted: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: the descriptor is open during the call, and the request reads and writes one `ifreq`,
    // which is borrowed until it returns.
    let status = unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF, &raw mut *wanted) };
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_no_interface_can_have_is_refused() {
        for name in ["", "sixteen-letters-"] {
            let refused = Tun::create(name).expect_err("the name is wrong");
            assert_eq!(refused.kind(), io::ErrorKind::InvalidInput, "{name}");
        }
    }
}
