//! Sends in the middle of a call of the handler: what a program writes has to be sent although the
//! program, which the handler has called, continues.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use super::send_buffer::{SendBuffer, Sent};
use crate::{clock, poll};

/// The socket of a connection, for as long as that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketNumber(RawFd);

impl SocketNumber {
    /// The number of `socket`.
    pub fn of(socket: BorrowedFd<'_>) -> Self {
        Self(socket.as_raw_fd())
    }
}

/// Sends `output` during a call of the handler for the connection of `socket`, all of whose earlier
/// output is sent. While the socket is full, calls `wait` with a function that waits for it, in sum
/// for at most `patience`; what is not sent then stays in `output`. Returns the size of what was sent.
///
/// # Errors
/// The connection has failed, or a file has changed.
#[expect(unsafe_code, reason = "a handler cannot keep the borrow of a socket")]
pub fn send_early(
    socket: SocketNumber,
    output: &mut SendBuffer,
    patience: Duration,
    wait: &mut dyn FnMut(&mut dyn FnMut()),
) -> io::Result<usize> {
    // SAFETY: the driver closes the socket of a connection after the last call of the handler for
    // it, and this is part of such a call.
    let socket = unsafe { BorrowedFd::borrow_raw(socket.0) };
    let before = output.size();
    let patience_ns = u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX);
    let mut end_ns = None;
    loop {
        match output.send(socket)? {
            Sent::All => break,
            Sent::BudgetSpent => {}
            Sent::WouldBlock => {
                let now_ns = clock::monotonic_ns();
                let end_ns = *end_ns.get_or_insert(now_ns.saturating_add(patience_ns));
                if now_ns >= end_ns {
                    break;
                }
                let left = Duration::from_nanos(end_ns - now_ns);
                let mut waited = Ok(false);
                wait(&mut || waited = poll::wait_writable(socket, left));
                waited?;
            }
        }
    }
    let sent = before - output.size();
    output.compact();
    Ok(sent)
}
