//! What is to be sent to a client.

use jissoku_http::forward::ClientFraming;

/// Output for a client above which its server is not received from.
const OUTPUT_SIZE_HIGH: usize = 32 * 1024;

/// What a head is usually longer by than that of the server, with the frame of a chunk.
const ADDED_SIZE: usize = 64;

/// More memory than this is not kept until the end of a response.
const REUSED_SIZE_MAX: usize = 4096;

/// Makes room for a response of which `size` bytes were received with its head, in the memory of its
/// `request` if that suffices: it is not sent again.
pub(super) fn prepare(output: &mut Vec<u8>, request: Vec<u8>, size: usize) {
    if output.capacity() == 0 && request.capacity() <= REUSED_SIZE_MAX {
        *output = request;
        output.clear();
    }
    output.reserve(size + ADDED_SIZE);
}

/// What is to be sent to the client.
#[derive(Debug, Default)]
pub(crate) struct Output {
    pub(crate) bytes: Vec<u8>,
    /// Behind the status line of the final response, if that is in `bytes`.
    pub(crate) fields_at: Option<usize>,
    pub(crate) has_date: bool,
    /// An interim response was written.
    pub(crate) has_interim: bool,
    /// 0 until the final head was received.
    pub(crate) status: u16,
    pub(crate) body_size: u64,
    pub(crate) framing: Option<ClientFraming>,
}

impl Output {
    /// Adds bytes of a tunnel.
    pub(crate) fn write_raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.body_size += bytes.len() as u64;
    }

    /// Adds header lines to the final head, behind its others. It was just written.
    pub(crate) fn add_fields(&mut self, lines: &str) {
        let Some(fields_at) = self.fields_at else { return };
        let from = fields_at - 2;
        let end = self.bytes[from..].windows(4).position(|four| four == b"\r\n\r\n");
        if let Some(end) = end {
            let at = from + end + 2;
            self.bytes.splice(at..at, lines.bytes());
        }
    }

    pub(crate) const fn is_high(&self) -> bool {
        self.bytes.len() >= OUTPUT_SIZE_HIGH
    }
}
