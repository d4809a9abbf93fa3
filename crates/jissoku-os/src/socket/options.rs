//! Socket options of client connections: Nagle and buffer sizes.

use std::io;
use std::os::fd::AsFd;

use rustix::net::sockopt;

/// Options of a connection. Default: no Nagle, and the buffer sizes of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketOptions {
    /// Enables Nagle's algorithm; else `TCP_NODELAY` is set.
    pub nagle: bool,
    /// Receive buffer size in bytes (`SO_RCVBUF`), which the kernel doubles. Default: by the
    /// kernel.
    pub receive_size: Option<usize>,
    /// Send buffer size in bytes (`SO_SNDBUF`), likewise.
    pub send_size: Option<usize>,
}

impl SocketOptions {
    /// Sets the buffer sizes. Must be called before connecting, when the window scale is negotiated
    /// (`tcp(7)`).
    pub(crate) fn set_sizes(self, socket: impl AsFd) -> io::Result<()> {
        if let Some(size) = self.receive_size {
            sockopt::set_socket_recv_buffer_size(&socket, size)?;
        }
        if let Some(size) = self.send_size {
            sockopt::set_socket_send_buffer_size(&socket, size)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::{Endpoint, Sharing, bind_and_listen, connect_from, local_endpoint};

    #[test]
    fn a_connection_has_the_room_that_was_asked_for() {
        let endpoint: Endpoint = "127.0.0.1:0".parse().expect("it is an address");
        let listener = bind_and_listen(&endpoint, Sharing::Alone).expect("a port is free");
        let endpoint = local_endpoint(&listener).expect("it has a name");
        let asked =
            SocketOptions { nagle: true, receive_size: Some(8192), send_size: Some(16 * 1024) };
        let socket = connect_from(&endpoint, None, asked).expect("it listens");
        // The kernel doubles the size for bookkeeping (socket(7)).
        assert_eq!(
            sockopt::socket_recv_buffer_size(&socket).expect("the option is read"),
            2 * 8192
        );
        assert_eq!(
            sockopt::socket_send_buffer_size(&socket).expect("the option is read"),
            32 * 1024
        );
        assert!(!sockopt::tcp_nodelay(&socket).expect("the option is read"));
        let usual = connect_from(&endpoint, None, SocketOptions::default()).expect("it listens");
        assert!(sockopt::tcp_nodelay(&usual).expect("the option is read"));
    }
}
