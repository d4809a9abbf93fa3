//! The output of one iteration, which is submitted with the next wait.

use std::io;

use crate::driver::{ConnectionId, SendBuffer};

/// Larger buffers are not reused.
const SPARE_SIZE_MAX: usize = 64 * 1024;

/// Maximum number of spare buffers.
const SPARE_COUNT_MAX: usize = 512;

/// The output of one connection in this iteration.
#[derive(Debug)]
pub(super) struct PendingSend {
    pub(super) id: ConnectionId,
    pub(super) output: SendBuffer,
    /// It contains a file, which the ring cannot send.
    has_file: bool,
    /// The result of a short or failed send.
    pub(super) short: Option<io::Result<usize>>,
}

/// All sends of one iteration.
#[derive(Debug, Default)]
pub(super) struct SendQueue {
    pub(super) sends: Vec<PendingSend>,
    /// Buffer for the next call of a connection without a queued send.
    pub(super) scratch: SendBuffer,
    /// Indices of sends with files.
    pub(super) files: Vec<usize>,
    /// A connection has to continue after the sends, even if there is no event.
    pub(super) is_urgent: bool,
    spare: Vec<SendBuffer>,
}

impl SendQueue {
    /// Queues the content of `scratch` and returns its index.
    pub(super) fn enqueue(&mut self, id: ConnectionId) -> usize {
        let output = std::mem::replace(&mut self.scratch, self.spare.pop().unwrap_or_default());
        self.sends.push(PendingSend { id, output, has_file: false, short: None });
        self.sends.len() - 1
    }

    /// Updates the flags of a send after output was appended.
    pub(super) fn check(&mut self, place: usize) {
        let send = &mut self.sends[place];
        self.is_urgent |= !send.output.fits_one_send();
        if send.output.has_file() && !std::mem::replace(&mut send.has_file, true) {
            self.files.push(place);
        }
    }

    /// The buffer for the next call of a connection, given the index of its queued send.
    pub(super) fn output(&mut self, send: Option<usize>) -> &mut SendBuffer {
        match send.and_then(|place| self.sends.get_mut(place)) {
            Some(send) => &mut send.output,
            None => &mut self.scratch,
        }
    }

    /// Recycles a buffer.
    pub(super) fn recycle(&mut self, mut output: SendBuffer) {
        if output.capacity() <= SPARE_SIZE_MAX && self.spare.len() < SPARE_COUNT_MAX {
            output.clear();
            self.spare.push(output);
        }
    }
}
