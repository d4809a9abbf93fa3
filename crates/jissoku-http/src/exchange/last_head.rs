//! The head that was parsed last. Many clients repeat theirs, which need not be parsed again then.

use crate::head::Head;

/// Maximum size of a head that is kept.
const SIZE_MAX: usize = 1024;

/// The head that was parsed last, on any of the connections that share it.
#[derive(Debug, Default)]
pub struct LastHead {
    bytes: Vec<u8>,
    /// The result of parsing `bytes`.
    head: Option<Head>,
}

impl LastHead {
    /// The head at the start of `bytes`, if it is this one. Parsing depends on nothing but the bytes
    /// of a head, up to its end, and the limits.
    #[inline]
    pub(super) fn at_start_of(&self, bytes: &[u8]) -> Option<Head> {
        self.head.filter(|_| bytes.starts_with(&self.bytes))
    }

    /// Keeps a head at the start of `bytes`.
    #[inline]
    pub(super) fn set(&mut self, head: Head, bytes: &[u8]) {
        let own = bytes.get(..head.size as usize).filter(|own| own.len() <= SIZE_MAX);
        let Some(own) = own else { return };
        self.bytes.clear();
        self.bytes.extend_from_slice(own);
        self.head = Some(head);
    }
}
