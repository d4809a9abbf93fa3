//! How much the kernel holds back for a connection: what came, what is to go, and small segments.

use std::io;
use std::os::fd::AsFd;

use rustix::net::sockopt;

/// What a connection asks of the kernel; by default what suits a load generator, and the kernel's sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buffering {
    /// Lets a small segment wait for the acknowledgement of the one before (Nagle); else it leaves at once.
    pub collects: bool,
    /// Room for what has come and was not read (`SO_RCVBUF`); the kernel doubles it. Else it chooses.
    pub receive_size: Option<usize>,
    /// Room for what was sent and not acknowledged (`SO_SNDBUF`).
    pub send_size: Option<usize>,
}

impl Buffering {
    /// Sets the sizes, which has to come before connecting: the window's scale is agreed on then (`tcp(7)`).
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
    use crate::socket::{Endpoint, Sharing, connect_from, listen, local_endpoint};

    #[test]
    fn a_connection_has_the_room_that_was_asked_for() {
        let endpoint: Endpoint = "127.0.0.1:0".parse().expect("it is an address");
        let listener = listen(&endpoint, Sharing::Alone).expect("a port is free");
        let endpoint = local_endpoint(&listener).expect("it has a name");
        let asked =
            Buffering { collects: true, receive_size: Some(8192), send_size: Some(16 * 1024) };
        let socket = connect_from(&endpoint, None, asked).expect("somebody listens");
        // The kernel doubles what it is asked for, as room for its own notes (socket(7)).
        assert_eq!(sockopt::socket_recv_buffer_size(&socket).expect("it is told"), 2 * 8192);
        assert_eq!(sockopt::socket_send_buffer_size(&socket).expect("it is told"), 32 * 1024);
        assert!(!sockopt::tcp_nodelay(&socket).expect("it is told"));
        let usual = connect_from(&endpoint, None, Buffering::default()).expect("somebody listens");
        assert!(sockopt::tcp_nodelay(&usual).expect("it is told"));
    }
}
