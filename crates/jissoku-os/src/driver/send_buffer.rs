//! Output for one connection: bytes that are copied or handed over, and references to shared memory
//! and files.

mod read;
mod segment;

use std::io::{self, IoSlice};
use std::iter;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;

use crate::file::File;
use crate::socket;
use crate::uring::SendData;
pub use segment::LentBytes;
use segment::{Segment, SegmentRef, length};

/// Maximum number of slices per `sendmsg(2)`; the kernel allows 1,024.
const SLICES_MAX: usize = 64;

/// Maximum size sent to one peer before other connections, which a fast reader of a large file
/// would block.
const SEND_SIZE_MAX: usize = 2 * 1024 * 1024;

/// The result of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    All,
    /// The socket is full.
    WouldBlock,
    /// The socket may be writable, but the budget is spent or a file was sent in part.
    BudgetSpent,
}

/// The output of a handler, in order.
#[derive(Debug, Default)]
pub struct SendBuffer {
    bytes: Vec<u8>,
    /// Referenced segments, each with its position in `bytes`; ascending.
    segments: Vec<(usize, Segment)>,
    size: usize,
    sent: usize,
}

impl SendBuffer {
    /// Creates a buffer with a capacity of `size` bytes.
    #[must_use]
    pub fn with_capacity(size: usize) -> Self {
        Self { bytes: Vec::with_capacity(size), ..Self::default() }
    }

    /// Appends a copy of `bytes`.
    #[inline]
    pub fn append(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.size += bytes.len();
    }

    /// Appends the bytes from `start` on without a copy.
    pub fn append_owned(&mut self, bytes: Vec<u8>, start: usize) {
        self.push(Segment::Owned(bytes, start));
    }

    /// Appends memory of another owner without a copy; it is dropped when it is sent.
    pub fn append_lent(&mut self, bytes: Box<dyn LentBytes>) {
        self.push(Segment::Lent(bytes, 0));
    }

    /// Appends `bytes` without a copy.
    pub fn append_shared(&mut self, bytes: Arc<[u8]>) {
        let range = 0..bytes.len();
        self.append_shared_part(bytes, range);
    }

    /// Appends the `range` of `bytes` without a copy.
    pub fn append_shared_part(&mut self, bytes: Arc<[u8]>, range: Range<usize>) {
        self.push(Segment::Shared(bytes, range));
    }

    /// Appends the bytes in `range` of `file` without a copy. A file may grow, and its mode, name
    /// and links may change, while it is sent; if it has become shorter than `range`, the
    /// connection is closed.
    pub fn append_file(&mut self, file: Arc<File>, range: Range<u64>) {
        self.push(Segment::File(file, range));
    }

    fn push(&mut self, segment: Segment) {
        if segment.size() > 0 {
            self.size += segment.size();
            self.segments.push((self.bytes.len(), segment));
        }
    }

    /// The number of unsent bytes.
    #[inline]
    pub fn size(&self) -> usize {
        self.size - self.sent
    }

    /// Whether everything is sent.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.size == self.sent
    }

    /// The number of copied bytes.
    pub fn copied_size(&self) -> usize {
        self.bytes.len()
    }

    /// The capacity for copied bytes.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Whether it contains a file segment.
    #[inline]
    pub(super) fn has_file(&self) -> bool {
        self.segments.iter().any(|(_, segment)| matches!(segment, Segment::File(..)))
    }

    /// The data for one send call, for a buffer without files.
    #[inline]
    pub(super) fn sendable(&self) -> SendData<'_, impl Iterator<Item = &[u8]>> {
        if self.segments.is_empty() {
            let rest = &self.bytes[self.sent..];
            SendData::One(&rest[..rest.len().min(SEND_SIZE_MAX)])
        } else {
            SendData::Many(self.memory())
        }
    }

    /// Whether one call can send everything.
    #[inline]
    pub(super) fn fits_one_send(&self) -> bool {
        2 * self.segments.len() < SLICES_MAX && self.size() <= SEND_SIZE_MAX
    }

    /// Records that `count` bytes were sent.
    #[inline]
    pub(super) fn advance(&mut self, count: usize) {
        self.sent += count;
    }

    /// Sends until the socket is full or the budget is spent.
    ///
    /// # Errors
    /// The error of the sending call, or `UnexpectedEof` for a file that has become shorter.
    pub(super) fn send(&mut self, socket: impl AsFd) -> io::Result<Sent> {
        let mut sent_size = 0;
        while !self.is_empty() {
            if sent_size >= SEND_SIZE_MAX {
                return Ok(Sent::BudgetSpent);
            }
            let (sent, offered, short) = if self.segments.is_empty() {
                let rest = &self.bytes[self.sent..];
                (socket::send(&socket, rest)?, rest.len(), Sent::WouldBlock)
            } else {
                self.send_next(&socket)?
            };
            self.sent += sent;
            sent_size += sent;
            if sent < offered {
                return Ok(short);
            }
        }
        Ok(Sent::All)
    }

    /// Sends the next segments with one call. Returns the sent size, the offered size, and the
    /// result if the send was short.
    fn send_next(&self, socket: impl AsFd) -> io::Result<(usize, usize, Sent)> {
        let mut room = [IoSlice::new(&[]); SLICES_MAX];
        let segment_refs = room.iter_mut().zip(self.memory());
        let count = segment_refs.map(|(slice, bytes)| *slice = IoSlice::new(bytes)).count();
        let slices = &room[..count];
        if !slices.is_empty() {
            let offered = slices.iter().map(|slice| slice.len()).sum();
            // A head and the beginning of its file may share a TCP segment.
            let is_all = offered == self.size();
            let more = if is_all { socket::More::No } else { socket::More::Follows };
            return Ok((socket::send_slices(&socket, slices, more)?, offered, Sent::WouldBlock));
        }
        match self.unsent().next() {
            Some(SegmentRef::File(file, range)) => {
                let offered = length(&range).min(SEND_SIZE_MAX);
                let sent = socket::send_file(&socket, file, range.start, offered)?;
                // `sendfile(2)` may stop early with a writable socket, for which no event would
                // follow.
                let short = if sent > 0 { Sent::BudgetSpent } else { Sent::WouldBlock };
                Ok((sent, offered, short))
            }
            _ => Ok((0, 0, Sent::All)),
        }
    }

    /// The unsent slices up to a file, for one call.
    fn memory(&self) -> impl Iterator<Item = &[u8]> {
        let mut room = SEND_SIZE_MAX;
        let memory = self.unsent().map_while(move |segment_ref| match segment_ref {
            SegmentRef::Memory(bytes) if room > 0 => {
                let size = bytes.len().min(room);
                room -= size;
                Some(&bytes[..size])
            }
            SegmentRef::Memory(_) | SegmentRef::File(..) => None,
        });
        memory.take(SLICES_MAX)
    }

    /// The unsent segments, in order.
    fn unsent(&self) -> impl Iterator<Item = SegmentRef<'_>> {
        let mut skip = self.sent;
        self.segment_refs().filter_map(move |segment_ref| {
            let skipped = skip.min(segment_ref.size());
            skip -= skipped;
            (skipped < segment_ref.size()).then(|| segment_ref.after(skipped))
        })
    }

    /// All segments in order, sent or not.
    fn segment_refs(&self) -> impl Iterator<Item = SegmentRef<'_>> {
        let starts = iter::once(0).chain(self.segments.iter().map(|&(after, _)| after));
        let ends = self.segments.iter().map(|&(after, _)| after).chain([self.bytes.len()]);
        let segments = self.segments.iter().map(|(_, segment)| Some(segment)).chain([None]);
        starts.zip(ends).zip(segments).flat_map(|((start, end), segment)| {
            let copied = SegmentRef::Memory(&self.bytes[start..end]);
            iter::once(copied).chain(segment.map(Segment::segment_ref))
        })
    }

    /// The unsent bytes up to a file: what the next calls send.
    pub fn unsent_bytes(&self) -> Vec<u8> {
        self.memory().flatten().copied().collect()
    }

    /// Appends the content of `other`.
    pub fn append_all(&mut self, other: &mut Self) {
        let mut start = 0;
        for (after, segment) in other.segments.drain(..) {
            self.append(&other.bytes[start..after]);
            self.push(segment);
            start = after;
        }
        self.append(&other.bytes[start..]);
        other.clear();
    }

    /// Drops what is sent.
    pub(super) fn compact(&mut self) {
        *self = self.take_unsent();
    }

    /// Moves the unsent data to a new buffer of minimal size, and clears this one.
    pub(super) fn take_unsent(&mut self) -> Self {
        let mut unsent = Self::default();
        let mut skip = self.sent;
        let mut start = 0;
        for (after, mut segment) in self.segments.drain(..) {
            let copied = &self.bytes[start..after];
            let skipped = skip.min(copied.len());
            skip -= skipped;
            unsent.append(&copied[skipped..]);
            let skipped = skip.min(segment.size());
            skip -= skipped;
            segment.skip(skipped);
            unsent.push(segment);
            start = after;
        }
        unsent.append(&self.bytes[start + skip..]);
        self.clear();
        unsent
    }

    /// Clears the buffer and keeps its capacity.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.segments.clear();
        self.size = 0;
        self.sent = 0;
    }
}

#[cfg(test)]
mod tests;
