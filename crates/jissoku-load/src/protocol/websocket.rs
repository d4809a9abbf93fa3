//! The life of a WebSocket: the handshake before the first message, answers to pings, and the close
//! frame.

use jissoku_os::socket;

use crate::engine::connection::{ConnectionState, compact_index};
use crate::engine::error::RequestError;
use crate::engine::transport::Transport;
use crate::engine::worker::Worker;
use crate::protocol::message;
use crate::protocol::opening_handshake::OpeningHandshake;
use crate::protocol::upgrade::Upgrade;

impl<T: Transport> Worker<'_, T> {
    /// Starts the WebSocket handshake on an established connection.
    pub(crate) fn start_upgrade(&mut self, index: usize, handshake: &OpeningHandshake) {
        let now_ns = self.clock.now_ns();
        let connection = &mut self.connections[index];
        connection.state = ConnectionState::Upgrading;
        connection.since_ns = now_ns;
        let number = usize::from(connection.target);
        let request_sequence = &mut self.dispatcher.targets[number].request_sequence;
        let upgrade =
            Upgrade::new(handshake, [request_sequence.random(), request_sequence.random()]);
        self.connections.websockets.upgrades.insert(compact_index(index), upgrade);
        self.upgrade(index);
    }

    /// Continues a WebSocket handshake.
    pub(crate) fn upgrade(&mut self, index: usize) {
        let (websockets, connection) = self.connections.websockets_mut(index);
        let number = usize::from(connection.target);
        let Some(handshake) = self.dispatcher.targets[number].handshake else { return };
        match websockets.advance(index, handshake, connection) {
            Ok(None) => {}
            Ok(Some(early)) => {
                websockets.upgrades.remove(&compact_index(index));
                let now_ns = self.clock.now_ns();
                let handshake_ns = now_ns.saturating_sub(connection.since_ns);
                self.recorder.connecting[number].handshake.record(handshake_ns);
                self.on_upgraded(index, &early);
            }
            Err(error) => self.fail_to_connect(index, error),
        }
    }

    /// Marks a WebSocket as usable. The server may have sent control frames already.
    fn on_upgraded(&mut self, index: usize, early: &[u8]) {
        if !self.establish(index) {
            return;
        }
        let id = self.connections[index].id(index);
        let now_ns = self.clock.now_ns();
        self.on_bytes(index, early, now_ns);
        // Handling them may have replaced the connection.
        if self.connections[index].id(index) == id {
            self.send_first(index);
        }
    }

    /// Sends the answers to pings on all connections where no message is partly sent.
    #[inline]
    pub(crate) fn send_pongs(&mut self) {
        if !self.connections.websockets.pongs.is_empty() {
            self.send_all_pongs();
        }
    }

    #[cold]
    fn send_all_pongs(&mut self) {
        let pongs = std::mem::take(&mut self.connections.websockets.pongs);
        for (place, frame) in pongs {
            let index = place as usize;
            let connection = &self.connections[index];
            if connection.awaits_writable {
                self.connections.websockets.pongs.insert(place, frame);
                continue;
            }
            let Some(fd) = connection.readable() else { continue };
            let number = usize::from(connection.target);
            match socket::send(fd, &frame) {
                Ok(count) if count == frame.len() => {
                    self.recorder.counters[number].bytes_sent += count as u64;
                }
                // Nothing else is unsent, so the kernel accepts a few bytes, or something is wrong.
                Ok(_) | Err(_) => self.fail_connection(index, RequestError::Write),
            }
        }
    }

    /// Sends a close frame on a WebSocket that is about to be closed.
    pub(crate) fn send_close_frame(&mut self, index: usize) {
        let connection = &self.connections[index];
        let target = &mut self.dispatcher.targets[usize::from(connection.target)];
        let is_idle = connection.unsent == 0 && !connection.awaits_writable;
        if target.handshake.is_some()
            && is_idle
            && let Some(fd) = connection.readable()
        {
            // The error is ignored: the server may have closed the connection.
            let _sent = socket::send(fd, &message::close(target.request_sequence.random()));
        }
    }
}
