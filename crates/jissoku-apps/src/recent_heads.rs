//! A cache of environs by header section.
//!
//! Clients and proxies repeat their header fields. The environ is cached, and copied for the next
//! request with its request line and client, so that no field is converted again. A header section
//! is inserted when it is received for the second time: one with a value that changes, such as a
//! token of each request, never is.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::hash::{Hasher, slot};

/// Maximum number of environs, a power of two. Each takes up to about 6 KiB.
const HEADS_MAX: usize = 128;

/// Maximum size of a cached header section.
const FIELDS_SIZE_MAX: usize = 2 * 1024;

/// The environ of a request with this header section.
#[derive(Debug)]
pub(crate) struct RecentHead {
    pub(crate) listener: usize,
    /// The header lines as received.
    pub(crate) fields: Box<[u8]>,
    /// The request line that `environ` has at present.
    pub(crate) line: Vec<u8>,
    pub(crate) host: Py<PyString>,
    pub(crate) port: Option<Py<PyString>>,
    /// The environ of the last request; applications get copies.
    pub(crate) environ: Py<PyDict>,
    /// A copy that an application has not changed, for the next request.
    pub(crate) unused: Option<Py<PyDict>>,
    /// The number of the request for which `environ` was changed last.
    pub(crate) changed: u64,
}

/// An entry, and the hash of the last header section that was looked up here without success.
#[derive(Debug, Default)]
struct Slot {
    missed: u64,
    head: Option<Box<RecentHead>>,
}

/// The permission to insert a header section, which was received for the second time, and its slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admission(usize);

/// The use of an entry by a request: its slot, and the number of the request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeadUse {
    slot: usize,
    pub(crate) request: u64,
}

/// The header sections that were received recently. Each has one possible slot.
#[derive(Debug)]
pub(crate) struct RecentHeads {
    hasher: Hasher,
    slots: Box<[Slot]>,
    /// The number of the last request.
    request: u64,
}

impl RecentHeads {
    pub(crate) fn new(hasher: Hasher) -> Self {
        Self { hasher, slots: (0..HEADS_MAX).map(|_| Slot::default()).collect(), request: 0 }
    }

    /// Finds the entry of a header section. If there is none, it may be inserted.
    #[inline]
    pub(crate) fn find(
        &mut self,
        listener: usize,
        fields: &[u8],
    ) -> (Option<(&mut RecentHead, HeadUse)>, Option<Admission>) {
        self.request += 1;
        if fields.len() > FIELDS_SIZE_MAX {
            return (None, None);
        }
        let hash = self.hasher.hash(fields);
        let index = slot(hash, HEADS_MAX);
        let Some(slot) = self.slots.get_mut(index) else { return (None, None) };
        match &mut slot.head {
            Some(head) if *head.fields == *fields && head.listener == listener => {
                (Some((head, HeadUse { slot: index, request: self.request })), None)
            }
            _ => {
                let is_second = std::mem::replace(&mut slot.missed, hash) == hash;
                (None, is_second.then_some(Admission(index)))
            }
        }
    }

    pub(crate) fn insert(&mut self, Admission(index): Admission, head: RecentHead) {
        if let Some(slot) = self.slots.get_mut(index) {
            slot.head = Some(Box::new(RecentHead { changed: self.request, ..head }));
        }
    }

    /// Keeps a copy of the environ of an entry, which was made for the request of `used`, unless
    /// the entry is another one now.
    #[inline]
    pub(crate) fn put_back(&mut self, used: HeadUse, environ: Py<PyDict>) {
        if let Some(Slot { head: Some(head), .. }) = self.slots.get_mut(used.slot)
            && head.changed <= used.request
        {
            head.unused = Some(environ);
        }
    }
}
