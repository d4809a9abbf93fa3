//! Requests that wait for a place at a server: first in, first out, few, and not for long.

use std::collections::VecDeque;

/// The limits of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuePolicy {
    /// Requests that wait at most.
    pub size_max: usize,
    /// For how long one waits at most.
    pub time_ns: u64,
}

/// One worker's queue in front of one upstream.
#[derive(Debug)]
pub struct WaitQueue<T> {
    policy: QueuePolicy,
    /// With the time at which each is given up; in this order, since all may wait as long.
    waiting: VecDeque<(u64, T)>,
}

impl<T: PartialEq> WaitQueue<T> {
    /// An empty queue.
    pub const fn new(policy: QueuePolicy) -> Self {
        Self { policy, waiting: VecDeque::new() }
    }

    /// Adds a request; the time at which it is given up.
    ///
    /// # Errors
    ///
    /// The request, if the queue is full: 503.
    pub fn push(&mut self, request: T, now_ns: u64) -> Result<u64, T> {
        if self.waiting.len() >= self.policy.size_max {
            return Err(request);
        }
        let until_ns = now_ns.saturating_add(self.policy.time_ns);
        self.waiting.push_back((until_ns, request));
        Ok(until_ns)
    }

    /// The next request, which stays in the queue. [`expired`](Self::expired) must have removed
    /// those that waited too long.
    pub fn first(&self) -> Option<&T> {
        self.waiting.front().map(|(_, request)| request)
    }

    /// The next request that waited too long: 503.
    pub fn expired(&mut self, now_ns: u64) -> Option<T> {
        let is_expired = self.waiting.front().is_some_and(|(until_ns, _)| *until_ns <= now_ns);
        if is_expired { self.waiting.pop_front().map(|(_, request)| request) } else { None }
    }

    /// Takes out a request whose client has gone; whether it was there.
    pub fn remove(&mut self, request: &T) -> bool {
        let place = self.waiting.iter().position(|(_, other)| other == request);
        place.and_then(|place| self.waiting.remove(place)).is_some()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn requests_leave_in_order_and_late_ones_are_given_up() {
        let mut queue = WaitQueue::new(QueuePolicy { size_max: 3, time_ns: 10 });
        assert_eq!(
            [queue.push('a', 0), queue.push('b', 5), queue.push('c', 6)],
            [Ok(10), Ok(15), Ok(16)]
        );
        assert_eq!(queue.push('d', 6), Err('d'));
        assert_eq!(queue.expired(9), None);
        assert_eq!(queue.expired(10), Some('a'));
        assert_eq!(queue.expired(10), None);
        assert_eq!(queue.first(), Some(&'b'));
        assert!(
            queue.remove(&'b') && queue.remove(&'c') && !queue.remove(&'c') && queue.is_empty()
        );
    }

    proptest! {
        #[test]
        fn each_request_leaves_once(steps in proptest::collection::vec((0..3_u8, 0..6_u64), 0..200)) {
            let mut queue = WaitQueue::new(QueuePolicy { size_max: 5, time_ns: 10 });
            let (mut now, mut entered, mut left) = (0, Vec::new(), Vec::new());
            for (number, (step, wait)) in steps.into_iter().enumerate() {
                now += wait;
                match step {
                    0 => entered.extend(queue.push(number, now).is_ok().then_some(number)),
                    1 => left.extend(queue.expired(now)),
                    _ => left.extend(entered.last().filter(|last| queue.remove(last)).copied()),
                }
                prop_assert_eq!(queue.waiting.len() + left.len(), entered.len());
                prop_assert!(queue.waiting.len() <= 5);
            }
            while let Some(late) = queue.expired(u64::MAX) {
                left.push(late);
            }
            left.sort_unstable();
            prop_assert_eq!(left, entered);
        }
    }
}
