//! What a client sends while its request is being forwarded: the rest of a body that is not
//! collected, or its side of a tunnel.

/// Bytes for a server above which its client is not received from.
const SIZE_HIGH: usize = 64 * 1024;

/// Bytes of a client on their way to a server.
#[derive(Debug)]
pub(crate) struct Upload {
    /// What was not handed to the driver yet.
    bytes: Vec<u8>,
    framing: UploadFraming,
    /// The client has sent everything.
    is_ended: bool,
    /// The server does not want the rest.
    is_stopped: bool,
    /// The server has not asked for the body yet, which the client waits for.
    pub(crate) awaits_continue: bool,
}

/// How the bytes are delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UploadFraming {
    /// As they are.
    Raw,
    /// In the chunked transfer coding.
    Chunked,
}

impl Upload {
    pub(crate) const fn new(framing: UploadFraming, awaits_continue: bool) -> Self {
        let bytes = Vec::new();
        Self { bytes, framing, is_ended: false, is_stopped: false, awaits_continue }
    }

    /// Adds a part.
    pub(crate) fn push(&mut self, part: &[u8]) {
        self.awaits_continue = false;
        if !self.is_receiving() || part.is_empty() {
            return;
        }
        if self.framing == UploadFraming::Chunked {
            self.bytes.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
            self.bytes.extend_from_slice(part);
            self.bytes.extend_from_slice(b"\r\n");
        } else {
            self.bytes.extend_from_slice(part);
        }
    }

    /// The client has sent everything.
    pub(crate) fn end(&mut self) {
        if self.is_receiving() && self.framing == UploadFraming::Chunked {
            self.bytes.extend_from_slice(b"0\r\n\r\n");
        }
        self.is_ended = true;
    }

    /// Drops the rest, if there is any: the server has responded without it.
    pub(crate) fn stop(&mut self) {
        if !self.is_done() {
            self.bytes = Vec::new();
            self.is_stopped = true;
        }
    }

    /// Takes what is to be sent.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Whether nothing waits to be sent.
    pub(crate) const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Whether the client is not received from, because the server is slower or has responded.
    pub(crate) const fn is_held(&self) -> bool {
        self.bytes.len() >= SIZE_HIGH || self.is_stopped
    }

    /// Whether more is expected from the client.
    pub(crate) const fn is_receiving(&self) -> bool {
        !self.is_ended && !self.is_stopped
    }

    /// Whether the client has sent everything, wanted or not.
    pub(crate) const fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Whether the client has not sent everything, and the server does not want the rest.
    pub(crate) const fn is_cut_off(&self) -> bool {
        self.is_stopped && !self.is_ended
    }

    /// Whether everything was handed to the driver.
    pub(crate) const fn is_done(&self) -> bool {
        self.bytes.is_empty() && self.is_ended && !self.is_stopped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_become_chunks_and_an_end() {
        let mut upload = Upload::new(UploadFraming::Chunked, true);
        upload.push(b"");
        upload.push(b"hello world");
        assert!(!upload.awaits_continue);
        assert_eq!(upload.take(), b"b\r\nhello world\r\n");
        assert!(upload.is_empty() && upload.is_receiving() && !upload.is_done());
        upload.end();
        upload.end();
        assert!(!upload.is_done());
        assert_eq!(upload.take(), b"0\r\n\r\n");
        assert!(upload.is_done() && upload.is_ended());
        upload.stop();
        assert!(upload.is_done());
    }

    #[test]
    fn a_stopped_upload_gets_no_end() {
        let mut upload = Upload::new(UploadFraming::Raw, false);
        upload.push(&vec![0; SIZE_HIGH - 1]);
        assert!(!upload.is_held());
        upload.push(b"x");
        assert!(upload.is_held());
        upload.stop();
        upload.push(b"x");
        upload.end();
        assert_eq!(upload.take(), b"");
        assert!(upload.is_held() && upload.is_ended() && !upload.is_done());
    }
}
