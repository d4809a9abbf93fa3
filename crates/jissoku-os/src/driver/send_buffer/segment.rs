//! Segments of a send buffer that are not copied.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use crate::file::File;

/// Memory of another owner, which is dropped when it is sent.
pub trait LentBytes: AsRef<[u8]> + Debug + Send + Sync {}

impl<T: AsRef<[u8]> + Debug + Send + Sync> LentBytes for T {}

/// Memory that was handed over, or a reference to shared memory or a file.
#[derive(Debug)]
pub(super) enum Segment {
    /// The bytes from a position on.
    Owned(Vec<u8>, usize),
    Shared(Arc<[u8]>, Range<usize>),
    File(Arc<File>, Range<u64>),
    /// As `Owned`, of another owner.
    Lent(Box<dyn LentBytes>, usize),
}

/// A borrowed segment.
#[derive(Debug)]
pub(super) enum SegmentRef<'a> {
    Memory(&'a [u8]),
    File(&'a File, Range<u64>),
}

impl Segment {
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Owned(bytes, start) => bytes.len() - start,
            Self::Shared(_, range) => range.len(),
            Self::File(_, range) => length(range),
            Self::Lent(bytes, start) => (**bytes).as_ref().len() - start,
        }
    }

    pub(super) fn segment_ref(&self) -> SegmentRef<'_> {
        match self {
            Self::Owned(bytes, start) => SegmentRef::Memory(&bytes[*start..]),
            Self::Shared(bytes, range) => SegmentRef::Memory(&bytes[range.clone()]),
            Self::File(file, range) => SegmentRef::File(file, range.clone()),
            Self::Lent(bytes, start) => SegmentRef::Memory(&(**bytes).as_ref()[*start..]),
        }
    }

    /// Skips `count` bytes.
    pub(super) fn skip(&mut self, count: usize) {
        match self {
            Self::Owned(_, start) | Self::Lent(_, start) => *start += count,
            Self::Shared(_, range) => range.start += count,
            Self::File(_, range) => range.start += count as u64,
        }
    }
}

impl SegmentRef<'_> {
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Memory(bytes) => bytes.len(),
            Self::File(_, range) => length(range),
        }
    }

    /// The rest after `count` bytes.
    pub(super) fn after(self, count: usize) -> Self {
        match self {
            Self::Memory(bytes) => Self::Memory(&bytes[count..]),
            Self::File(file, range) => Self::File(file, range.start + count as u64..range.end),
        }
    }
}

/// The length of a range, saturated to `usize`.
pub(super) fn length(range: &Range<u64>) -> usize {
    usize::try_from(range.end - range.start).unwrap_or(usize::MAX)
}
