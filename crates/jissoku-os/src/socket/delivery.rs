//! What the kernel knows of the bytes that were sent on a TCP connection (`TCP_INFO`, `tcp(7)`).

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// The places of fields in `struct tcp_info` (linux/tcp.h), which only ever grows at its end.
const STATE_AT: usize = 0;
const BYTES_ACKED_AT: usize = 120;
const BYTES_SENT_AT: usize = 200;
const BYTES_RETRANS_AT: usize = 208;

/// The size of the structure up to the last of them. Linux has it since 4.19.
const SIZE_MIN: usize = 216;

/// `TCP_CLOSE`.
const CLOSED: u8 = 7;

/// How far the bytes have come that were sent on a connection which this side has opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Nothing is sent or received any more. As long as this side has not shut down its own, only a
    /// reset, or giving up, leads to that.
    pub is_closed: bool,
    /// Bytes that have left this host, each counted once.
    pub transmitted: u64,
    /// Bytes that the peer's kernel has acknowledged. It may have received more:
    /// acknowledgements are delayed, and a reset brings none.
    pub acknowledged: u64,
}

/// How far the bytes have come that were sent on a TCP connection which this side has opened.
///
/// # Errors
/// The error of `getsockopt(2)`, for a Unix socket for example; `Unsupported` before Linux 4.19.
#[expect(unsafe_code, reason = "the option has no safe wrapper")]
pub fn delivery(socket: impl AsFd) -> io::Result<Delivery> {
    let mut info = [0_u8; 256];
    let mut size = libc::socklen_t::try_from(info.len()).unwrap_or(0);
    let descriptor = socket.as_fd().as_raw_fd();
    // SAFETY: `info` has the `size` bytes that the call may write, and both outlive it.
    let status = unsafe {
        libc::getsockopt(
            descriptor,
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut size,
        )
    };
    if status != 0 {
        return Err(io::Error::last_os_error());
    }
    if usize::try_from(size).unwrap_or(0) < SIZE_MIN {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let number = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&info[at..at + 8]);
        u64::from_ne_bytes(bytes)
    };
    Ok(Delivery {
        is_closed: info[STATE_AT] == CLOSED,
        transmitted: number(BYTES_SENT_AT).saturating_sub(number(BYTES_RETRANS_AT)),
        // The SYN counts as a byte here.
        acknowledged: number(BYTES_ACKED_AT).saturating_sub(1),
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::socket::set_linger_zero;

    /// A connection on which a request of ten bytes was answered.
    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it has an address");
        let mut client = TcpStream::connect(address).expect("it listens");
        let (mut server, _) = listener.accept().expect("it was connected");
        client.write_all(&[0; 10]).expect("room to send");
        server.read_exact(&mut [0; 10]).expect("it arrives");
        server.write_all(&[0; 3]).expect("room to send");
        client.read_exact(&mut [0; 3]).expect("it arrives");
        (client, server)
    }

    fn check(client: &TcpStream, is_closed: bool, transmitted: u64, acknowledged: u64) {
        let expected = Delivery { is_closed, transmitted, acknowledged };
        assert_eq!(delivery(client).expect("the option is read"), expected);
    }

    #[test]
    fn what_was_answered_was_acknowledged() {
        let (client, _server) = pair();
        check(&client, false, 10, 10);
    }

    #[test]
    fn what_comes_after_the_end_of_the_server_is_not_acknowledged() {
        let (mut client, server) = pair();
        drop(server);
        client.write_all(&[0; 20]).expect("room to send");
        // The end, and then a reset.
        assert_eq!(client.read(&mut [0]).expect("it ends"), 0);
        check(&client, true, 30, 10);
    }

    #[test]
    fn nothing_is_transmitted_on_a_connection_that_was_reset() {
        let (mut client, server) = pair();
        set_linger_zero(&server).expect("a socket has options");
        drop(server);
        client.write_all(&[0; 20]).expect_err("it was reset");
        check(&client, true, 10, 10);
    }

    #[test]
    fn what_a_server_has_read_before_a_reset_may_not_be_acknowledged() {
        let (mut client, mut server) = pair();
        client.write_all(&[0; 20]).expect("room to send");
        server.read_exact(&mut [0; 20]).expect("it arrives");
        set_linger_zero(&server).expect("a socket has options");
        drop(server);
        client.read(&mut [0]).expect_err("it was reset");
        let seen = delivery(&client).expect("the option is read");
        assert!(seen.is_closed && seen.transmitted == 30, "{seen:?}");
        // By the time until then: acknowledgements are delayed by 40 ms.
        assert!(matches!(seen.acknowledged, 10 | 30), "{seen:?}");
    }

    #[test]
    fn a_unix_socket_has_no_such_option() {
        let (one, _other) = UnixStream::pair().expect("a pair can be had");
        delivery(&one).expect_err("it is no TCP");
    }
}
