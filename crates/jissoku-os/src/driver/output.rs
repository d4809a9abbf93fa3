//! Bytes on their way to one peer: copied ones, and large ones that are only referred to.

mod piece;
mod take;

use std::io::{self, IoSlice};
use std::iter;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;

use crate::file::File;
use crate::socket;
use crate::uring::Bytes;
use piece::{Piece, Place, length};

/// Slices in one send; the kernel takes 1,024, and more than a few are rare.
const SLICES_MAX: usize = 64;

/// The most that is sent to one peer at a stretch. Others wait meanwhile, and a peer that reads as fast as
/// we send could keep us for as long as a file is large.
const TURN_SIZE_MAX: usize = 2 * 1024 * 1024;

/// How far a send has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    All,
    /// The rest has to wait for the peer.
    NoRoom,
    /// There may be room for more, but it is the turn of others.
    Enough,
}

/// What a handler answers with, in order.
#[derive(Debug, Default)]
pub struct Output {
    bytes: Vec<u8>,
    /// Pieces from elsewhere, each after so many of `bytes`; ascending.
    pieces: Vec<(usize, Piece)>,
    size: usize,
    sent: usize,
}

impl Output {
    /// Has room for `size` bytes before it has to grow.
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

    /// Appends `bytes` without a copy.
    pub fn share(&mut self, bytes: Arc<[u8]>) {
        let range = 0..bytes.len();
        self.share_part(bytes, range);
    }

    /// Appends the `range` of `bytes` without a copy.
    pub fn share_part(&mut self, bytes: Arc<[u8]>, range: Range<usize>) {
        self.push(Piece::Shared(bytes, range));
    }

    /// Appends the bytes in `range` of `file` without a copy. If the file turns out to have changed since
    /// it was opened, the connection ends rather than have a mixture of two states sent as one.
    pub fn file(&mut self, file: Arc<File>, range: Range<u64>) {
        self.push(Piece::File(file, range));
    }

    fn push(&mut self, piece: Piece) {
        if piece.size() > 0 {
            self.size += piece.size();
            self.pieces.push((self.bytes.len(), piece));
        }
    }

    /// How many bytes are still to be sent.
    #[must_use]
    #[inline]
    pub fn size(&self) -> usize {
        self.size - self.sent
    }

    /// Whether nothing is to be sent.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.size == self.sent
    }

    /// How many bytes are held here rather than shared.
    #[must_use]
    pub fn copied_size(&self) -> usize {
        self.bytes.len()
    }

    /// How many bytes can be copied here without growing.
    pub(super) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Whether any of it is in a file.
    #[inline]
    pub(super) fn has_file(&self) -> bool {
        self.pieces.iter().any(|(_, piece)| matches!(piece, Piece::File(..)))
    }

    /// What one call can send, for an output without files.
    #[inline]
    pub(super) fn offer(&self) -> Bytes<'_, impl Iterator<Item = &[u8]>> {
        if self.pieces.is_empty() {
            let rest = &self.bytes[self.sent..];
            Bytes::One(&rest[..rest.len().min(TURN_SIZE_MAX)])
        } else {
            Bytes::Many(self.memory())
        }
    }

    /// Whether one call can send it all.
    #[inline]
    pub(super) fn is_one_offer(&self) -> bool {
        2 * self.pieces.len() < SLICES_MAX && self.size() <= TURN_SIZE_MAX
    }

    /// Takes note that so many bytes have gone.
    #[inline]
    pub(super) fn note_sent(&mut self, count: usize) {
        self.sent += count;
    }

    /// Sends what the kernel will take, up to a limit, in as few calls as that needs.
    ///
    /// # Errors
    /// The error of the sending call, or `InvalidData` for a file that has changed.
    pub(super) fn send(&mut self, socket: impl AsFd) -> io::Result<Sent> {
        let mut turn_size = 0;
        while !self.is_empty() {
            if turn_size >= TURN_SIZE_MAX {
                return Ok(Sent::Enough);
            }
            let (sent, offered) = if self.pieces.is_empty() {
                let rest = &self.bytes[self.sent..];
                (socket::send(&socket, rest)?, rest.len())
            } else {
                self.send_next(&socket)?
            };
            self.sent += sent;
            turn_size += sent;
            if sent < offered {
                return Ok(Sent::NoRoom);
            }
        }
        Ok(Sent::All)
    }

    /// Sends the first places that one call can send; how much went, and how much might have gone.
    fn send_next(&self, socket: impl AsFd) -> io::Result<(usize, usize)> {
        let mut room = [IoSlice::new(&[]); SLICES_MAX];
        let places = room.iter_mut().zip(self.memory());
        let count = places.map(|(slice, bytes)| *slice = IoSlice::new(bytes)).count();
        let slices = &room[..count];
        if !slices.is_empty() {
            let offered = slices.iter().map(|slice| slice.len()).sum();
            // A head and the beginning of its file may share a segment.
            let is_all = offered == self.size();
            let more = if is_all { socket::More::No } else { socket::More::Follows };
            return Ok((socket::send_slices(&socket, slices, more)?, offered));
        }
        match self.unsent().next() {
            Some(Place::File(file, range)) => {
                if !file.is_unchanged() {
                    return Err(io::ErrorKind::InvalidData.into());
                }
                let offered = length(&range).min(TURN_SIZE_MAX);
                let sent = socket::send_file(&socket, file, range.start, offered)?;
                Ok((sent, offered))
            }
            _ => Ok((0, 0)),
        }
    }

    /// The first places of what is not sent, up to a file: what one call can send.
    fn memory(&self) -> impl Iterator<Item = &[u8]> {
        let mut room = TURN_SIZE_MAX;
        let memory = self.unsent().map_while(move |place| match place {
            Place::Memory(bytes) if room > 0 => {
                let size = bytes.len().min(room);
                room -= size;
                Some(&bytes[..size])
            }
            Place::Memory(_) | Place::File(..) => None,
        });
        memory.take(SLICES_MAX)
    }

    /// What is not sent, in order.
    fn unsent(&self) -> impl Iterator<Item = Place<'_>> {
        let mut skip = self.sent;
        self.places().filter_map(move |place| {
            let skipped = skip.min(place.size());
            skip -= skipped;
            (skipped < place.size()).then(|| place.after(skipped))
        })
    }

    /// Everything in order, sent or not.
    fn places(&self) -> impl Iterator<Item = Place<'_>> {
        let starts = iter::once(0).chain(self.pieces.iter().map(|&(after, _)| after));
        let ends = self.pieces.iter().map(|&(after, _)| after).chain([self.bytes.len()]);
        let pieces = self.pieces.iter().map(|(_, piece)| Some(piece)).chain([None]);
        starts.zip(ends).zip(pieces).flat_map(|((start, end), piece)| {
            let copied = Place::Memory(&self.bytes[start..end]);
            iter::once(copied).chain(piece.map(Piece::place))
        })
    }

    /// Moves everything from `other` to the end of this.
    pub(super) fn append_all(&mut self, other: &mut Self) {
        let mut start = 0;
        for (after, piece) in other.pieces.drain(..) {
            self.append(&other.bytes[start..after]);
            self.push(piece);
            start = after;
        }
        self.append(&other.bytes[start..]);
        other.clear();
    }

    /// Takes what is not sent out into an output of its own, no larger than it has to be, and forgets it
    /// here.
    pub(super) fn take_unsent(&mut self) -> Self {
        let mut unsent = Self::default();
        let mut skip = self.sent;
        let mut start = 0;
        for (after, mut piece) in self.pieces.drain(..) {
            let copied = &self.bytes[start..after];
            let skipped = skip.min(copied.len());
            skip -= skipped;
            unsent.append(&copied[skipped..]);
            let skipped = skip.min(piece.size());
            skip -= skipped;
            piece.skip(skipped);
            unsent.push(piece);
            start = after;
        }
        unsent.append(&self.bytes[start + skip..]);
        self.clear();
        unsent
    }

    /// Forgets everything and keeps the room.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.pieces.clear();
        self.size = 0;
        self.sent = 0;
    }
}

#[cfg(test)]
mod tests;
