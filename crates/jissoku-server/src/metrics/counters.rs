//! What one worker counts. Only that worker writes; whoever reads may find a number a moment old.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Something that is counted. The order is that of `text::FAMILIES`, which has one row for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Figure {
    Status1,
    Status2,
    Status3,
    Status4,
    Status5,
    Accepted,
    Closed,
    Refused,
    ReceivedBytes,
    SentBytes,
    HandshakeDeadline,
    HeadDeadline,
    BodyDeadline,
    WriteDeadline,
    IdleDeadline,
    LingerDeadline,
    HandshakesDone,
    HandshakesFailed,
    CacheHits,
    CacheConfirmed,
    CacheMisses,
    CacheEvictions,
}

impl Figure {
    /// How many there are.
    pub(super) const COUNT: usize = Self::CacheEvictions as usize + 1;

    /// The figure that an answer of `status` counts for.
    pub(crate) const fn of_status(status: u16) -> Self {
        match status {
            ..200 => Self::Status1,
            200..300 => Self::Status2,
            300..400 => Self::Status3,
            400..500 => Self::Status4,
            500.. => Self::Status5,
        }
    }
}

/// The counters of one worker, on cache lines that are nobody else's.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Counters([AtomicU64; Figure::COUNT]);

/// A place for a worker to count at. A worker that ends leaves its numbers to the next, so that no sum
/// ever goes down.
#[derive(Debug, Default)]
pub(super) struct Seat {
    counters: Counters,
    is_taken: AtomicBool,
    next: OnceLock<Arc<Self>>,
}

impl Seat {
    #[inline]
    fn add(&self, figure: Figure, size: u64) {
        // Nobody but one worker writes here, so this needs no locked instruction.
        let counter = &self.counters.0[figure as usize];
        counter.store(counter.load(Ordering::Relaxed).wrapping_add(size), Ordering::Relaxed);
    }
}

impl Seat {
    fn try_take(&self) -> bool {
        self.is_taken.compare_exchange(false, true, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

/// All seats, one behind the other.
#[derive(Debug, Default)]
pub(super) struct Seats {
    first: OnceLock<Arc<Seat>>,
}

impl Seats {
    /// Takes the first free seat.
    pub(super) fn take(&self) -> Counting {
        let mut place = &self.first;
        loop {
            let seat = place.get_or_init(Arc::default);
            if seat.try_take() {
                return Counting { seat: Arc::clone(seat) };
            }
            place = &seat.next;
        }
    }

    fn iter(&self) -> impl Iterator<Item = &Arc<Seat>> {
        std::iter::successors(self.first.get(), |seat| seat.next.get())
    }

    /// What all workers have counted together, those that have ended too.
    pub(super) fn sum(&self, figure: Figure) -> u64 {
        let at = |seat: &Arc<Seat>| seat.counters.0[figure as usize].load(Ordering::Relaxed);
        self.iter().map(at).sum()
    }

    /// How many workers count now.
    pub(super) fn taken(&self) -> usize {
        self.iter().filter(|seat| seat.is_taken.load(Ordering::Relaxed)).count()
    }
}

/// A worker's way to its counters.
#[derive(Debug)]
pub(crate) struct Counting {
    seat: Arc<Seat>,
}

impl Counting {
    /// Counts `size` more of `figure`.
    #[inline]
    pub(crate) fn add(&self, figure: Figure, size: u64) {
        self.seat.add(figure, size);
    }

    /// Another way to the same counters, for the same worker.
    pub(crate) fn tally(&self) -> Tally {
        Tally(Some(Arc::clone(&self.seat)))
    }
}

/// A second way of a worker to its counters, or to none.
#[derive(Debug, Default)]
pub(crate) struct Tally(Option<Arc<Seat>>);

impl Tally {
    /// Counts `size` more of `figure`.
    #[inline]
    pub(crate) fn add(&self, figure: Figure, size: u64) {
        if let Some(seat) = &self.0 {
            seat.add(figure, size);
        }
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        self.seat.is_taken.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_ends_leaves_its_numbers() {
        let seats = Seats::default();
        let (first, second) = (seats.take(), seats.take());
        first.add(Figure::Accepted, 3);
        second.add(Figure::Accepted, 4);
        assert_eq!((seats.sum(Figure::Accepted), seats.taken()), (7, 2));
        drop(first);
        assert_eq!((seats.sum(Figure::Accepted), seats.taken()), (7, 1));
        let third = seats.take();
        third.add(Figure::Accepted, 1);
        assert_eq!((seats.sum(Figure::Accepted), seats.taken()), (8, 2));
        assert_eq!(seats.iter().count(), 2);
    }

    #[test]
    fn a_status_has_its_class() {
        assert_eq!(Figure::of_status(101), Figure::Status1);
        assert_eq!(Figure::of_status(206), Figure::Status2);
        assert_eq!(Figure::of_status(499), Figure::Status4);
        assert_eq!(Figure::of_status(505), Figure::Status5);
    }
}
