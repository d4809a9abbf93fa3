//! Bytes on their way to one peer: copied ones, and large ones that are only referred to.

use std::io::{self, IoSlice};
use std::iter;
use std::os::fd::AsFd;
use std::sync::Arc;

use crate::socket;

/// Slices in one send; the kernel takes 1,024, and more than a few are rare.
const SLICES_MAX: usize = 64;

/// What a handler answers with, in order.
#[derive(Debug, Default)]
pub struct Output {
    bytes: Vec<u8>,
    /// Shared bytes, each after so many of `bytes`; ascending.
    shared: Vec<(usize, Arc<[u8]>)>,
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
        self.size += bytes.len();
        self.shared.push((self.bytes.len(), bytes));
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

    /// Sends what the kernel will take, in as few calls as that needs, and says whether that was all.
    pub(super) fn send(&mut self, socket: impl AsFd) -> io::Result<bool> {
        while !self.is_empty() {
            let (sent, offered) = if self.shared.is_empty() {
                let rest = &self.bytes[self.sent..];
                (socket::send(&socket, rest)?, rest.len())
            } else {
                let slices = self.slices();
                let offered = slices.iter().map(|slice| slice.len()).sum();
                (socket::send_slices(&socket, &slices)?, offered)
            };
            self.sent += sent;
            if sent < offered {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The first slices of what is not sent.
    fn slices(&self) -> Vec<IoSlice<'_>> {
        let mut skip = self.sent;
        let unsent = self.pieces().filter_map(|piece| {
            let skipped = skip.min(piece.len());
            skip -= skipped;
            (skipped < piece.len()).then(|| IoSlice::new(&piece[skipped..]))
        });
        unsent.take(SLICES_MAX).collect()
    }

    /// Everything in order, sent or not.
    fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let starts = iter::once(0).chain(self.shared.iter().map(|&(after, _)| after));
        let ends = self.shared.iter().map(|&(after, _)| after).chain([self.bytes.len()]);
        let shared = self.shared.iter().map(|(_, bytes)| &**bytes).chain([&[][..]]);
        starts
            .zip(ends)
            .zip(shared)
            .flat_map(|((start, end), shared)| [&self.bytes[start..end], shared])
    }

    /// Moves everything from `other` to the end of this.
    pub(super) fn append_all(&mut self, other: &mut Self) {
        let mut start = 0;
        for (after, bytes) in other.shared.drain(..) {
            self.append(&other.bytes[start..after]);
            self.share(bytes);
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
        for (after, bytes) in self.shared.drain(..) {
            let copied = &self.bytes[start..after];
            let skipped = skip.min(copied.len());
            skip -= skipped;
            unsent.append(&copied[skipped..]);
            if skip < bytes.len() {
                // A shared piece is kept whole; what was sent of it is at the very front.
                unsent.share(bytes);
                unsent.sent += skip;
                skip = 0;
            } else {
                skip -= bytes.len();
            }
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
        self.shared.clear();
        self.size = 0;
        self.sent = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unsent(output: &Output) -> Vec<u8> {
        let all: Vec<u8> = output.pieces().flatten().copied().collect();
        all[output.sent..].to_vec()
    }

    fn sample() -> Output {
        let mut output = Output::default();
        output.share(Arc::from(*b"01"));
        output.append(b"23");
        output.append(b"4");
        output.share(Arc::from(*b"567"));
        output.share(Arc::from(*b"8"));
        output.append(b"9");
        output
    }

    #[test]
    fn pieces_keep_their_order() {
        assert_eq!(unsent(&sample()), b"0123456789");
        assert_eq!(sample().size(), 10);
        assert_eq!(sample().copied_size(), 4);
    }

    #[test]
    fn whatever_was_sent_the_rest_is_the_rest() {
        for sent in 0..=10 {
            let mut output = sample();
            output.sent = sent;
            let offered: Vec<u8> = output.slices().iter().flat_map(|s| s.to_vec()).collect();
            assert_eq!(offered, b"0123456789"[sent..]);
            let rest = output.take_unsent();
            assert_eq!(unsent(&rest), b"0123456789"[sent..], "after {sent} bytes");
            assert_eq!(rest.size(), 10 - sent);
            assert!(output.is_empty());
        }
    }
}
