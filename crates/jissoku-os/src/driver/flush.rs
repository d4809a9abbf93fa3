//! Sends of [`Action::Flush`](super::Action::Flush): output in the middle of a response, while the thread
//! belongs to its connection.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use super::send_buffer::Sent;
use super::{EventHandler, SendBuffer, UNSENT_MAX};
use crate::poll;

/// Time until the handler is called although the socket is full, so that it can apply time limits.
/// It must be well below any limit for a worker that does not return to its event loop.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// Whether a peer has shut down its side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PeerSide {
    Open,
    Shut,
}

/// Sends `output`, and waits for the socket if too much is left. Without output, asks for the state
/// of the peer, which no send would detect.
///
/// # Errors
/// The connection has failed, or a file has changed.
pub(super) fn flush<H: EventHandler>(
    handler: &mut H,
    socket: BorrowedFd<'_>,
    output: &mut SendBuffer,
) -> io::Result<PeerSide> {
    if output.is_empty() {
        let is_shut = poll::is_shut_by_peer(socket)?;
        return Ok(if is_shut { PeerSide::Shut } else { PeerSide::Open });
    }
    match output.send(socket)? {
        Sent::All => output.clear(),
        Sent::BudgetSpent => output.compact(),
        Sent::WouldBlock => {
            output.compact();
            if output.size() > UNSENT_MAX {
                let mut waited = Ok(false);
                handler.wait(&mut || waited = poll::wait_writable(socket, WAIT_MAX));
                waited?;
            }
        }
    }
    Ok(PeerSide::Open)
}
