//! Parts of an output that are not copied into it.

use std::ops::Range;
use std::sync::Arc;

use crate::file::File;

/// Bytes that are kept elsewhere.
#[derive(Debug)]
pub(super) enum Piece {
    Shared(Arc<[u8]>, Range<usize>),
    File(Arc<File>, Range<u64>),
}

/// Bytes of an output where they are.
#[derive(Debug)]
pub(super) enum Place<'a> {
    Memory(&'a [u8]),
    File(&'a File, Range<u64>),
}

impl Piece {
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Shared(_, range) => range.len(),
            Self::File(_, range) => length(range),
        }
    }

    pub(super) fn place(&self) -> Place<'_> {
        match self {
            Self::Shared(bytes, range) => Place::Memory(&bytes[range.clone()]),
            Self::File(file, range) => Place::File(file, range.clone()),
        }
    }

    /// Takes `count` bytes off the front.
    pub(super) fn skip(&mut self, count: usize) {
        match self {
            Self::Shared(_, range) => range.start += count,
            Self::File(_, range) => range.start += count as u64,
        }
    }
}

impl Place<'_> {
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Memory(bytes) => bytes.len(),
            Self::File(_, range) => length(range),
        }
    }

    /// The rest of it after `count` bytes.
    pub(super) fn after(self, count: usize) -> Self {
        match self {
            Self::Memory(bytes) => Self::Memory(&bytes[count..]),
            Self::File(file, range) => Self::File(file, range.start + count as u64..range.end),
        }
    }
}

/// The bytes in a range of a file; one that does not fit into memory's counting is sent in parts.
pub(super) fn length(range: &Range<u64>) -> usize {
    usize::try_from(range.end - range.start).unwrap_or(usize::MAX)
}
