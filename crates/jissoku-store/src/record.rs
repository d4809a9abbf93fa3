//! The bytes of an entry: when it expires, which transaction has written it, and its value.

use std::io::{self, Write};

/// Bytes before the value.
pub(crate) const HEADER_SIZE: usize = 16;

/// What precedes a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Milliseconds since 1970; 0: never.
    pub(crate) expires_ms: u64,
    /// The number of the transaction. The later write has the higher one.
    pub(crate) written: u64,
}

/// An entry as it is in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub(crate) header: Header,
    pub(crate) value: &'a [u8],
}

impl Header {
    pub(crate) fn is_alive(self, now_ms: u64) -> bool {
        self.expires_ms == 0 || now_ms < self.expires_ms
    }

    /// Writes the bytes of an entry.
    pub(crate) fn write(self, value: &[u8], to: &mut impl Write) -> io::Result<()> {
        to.write_all(&self.expires_ms.to_le_bytes())?;
        to.write_all(&self.written.to_le_bytes())?;
        to.write_all(value)
    }
}

impl<'a> Record<'a> {
    /// `None`: the bytes are none of an entry.
    pub(crate) fn read(bytes: &'a [u8]) -> Option<Self> {
        let (expires, rest) = bytes.split_first_chunk::<8>()?;
        let (written, value) = rest.split_first_chunk::<8>()?;
        let header = Header {
            expires_ms: u64::from_le_bytes(*expires),
            written: u64::from_le_bytes(*written),
        };
        Some(Self { header, value })
    }
}
