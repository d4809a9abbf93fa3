//! Passing an open connection to another process, with `SCM_RIGHTS` (`unix(7)`).
//!
//! Bytes that were not received yet, and bytes that were not delivered yet, are part of the kernel's
//! socket, and so of what is passed.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::cmsg_space;
use rustix::io::Errno;
use rustix::net::{
    self, AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

/// What a message consists of besides the descriptor; an empty one would look like the end.
const CONTENT: [u8; 1] = [b'c'];

/// Both ends of a queue of connections: one to receive from, one to send to.
///
/// # Errors
/// The error of `socketpair(2)`.
pub fn connection_queue() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

/// Sends a connection. The caller still has it, too, and has to close it.
///
/// # Errors
/// `WouldBlock` when the queue is full, and the error of `sendmsg(2)`.
pub fn send_connection(queue: impl AsFd, connection: impl AsFd) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [connection.as_fd()];
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    net::sendmsg(queue, &[IoSlice::new(&CONTENT)], &mut control, flags)?;
    Ok(())
}

/// Receives a connection; `None` when none is queued.
///
/// # Errors
/// The error of `recvmsg(2)`.
pub fn receive_connection(queue: impl AsFd) -> io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut content = CONTENT;
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    match net::recvmsg(queue, &mut [IoSliceMut::new(&mut content)], &mut control, flags) {
        Ok(_) => {}
        Err(Errno::AGAIN) => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    let mut messages = control.drain();
    Ok(messages.find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    }))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_connection_arrives_with_its_unread_bytes() {
        let (receiver, sender) = connection_queue().expect("a pair can be had");
        assert!(receive_connection(&receiver).expect("it is open").is_none());
        let (mut client, server) = UnixStream::pair().expect("a pair can be had");
        client.write_all(b"before").expect("room to send");
        send_connection(&sender, &server).expect("room to send");
        drop(server);
        client.write_all(b" and after").expect("it is still open");
        let moved = receive_connection(&receiver).expect("it is open").expect("it was sent");
        let mut text = [0; 16];
        UnixStream::from(moved).read_exact(&mut text).expect("it was sent");
        assert_eq!(&text, b"before and after");
    }

    #[test]
    fn a_full_queue_refuses() {
        let (_receiver, sender) = connection_queue().expect("a pair can be had");
        let (client, _server) = UnixStream::pair().expect("a pair can be had");
        let refusal = (0..100_000).find_map(|_| send_connection(&sender, &client).err());
        assert_eq!(refusal.map(|error| error.kind()), Some(io::ErrorKind::WouldBlock));
    }

    #[test]
    fn without_a_receiver_nothing_is_sent() {
        let (receiver, sender) = connection_queue().expect("a pair can be had");
        drop(receiver);
        let (client, _server) = UnixStream::pair().expect("a pair can be had");
        let refusal = send_connection(&sender, &client).expect_err("there is no receiver");
        assert_eq!(refusal.kind(), io::ErrorKind::BrokenPipe);
    }
}
