//! Responses in parts that other threads write.
//!
//! A thread knows a number only, and finds by it what it shares with the worker. A write waits while
//! the client has not read what was written before. Once the worker's end is dropped, because the
//! client has left or the response has ended, nothing waits and nothing is taken.

#![expect(
    clippy::disallowed_types,
    reason = "a thread that writes waits for the worker; other responses are never locked"
)]

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Bytes that are written ahead of the client before a write waits.
pub(crate) const AHEAD_SIZE_MAX: usize = 256 * 1024;

static STREAMS: Mutex<Streams> = Mutex::new(Streams { open: BTreeMap::new(), is_closed: false });

/// The responses that threads may write to, by their tokens.
#[derive(Debug)]
struct Streams {
    open: BTreeMap<u64, Arc<Stream>>,
    /// The worker ends.
    is_closed: bool,
}

/// What a thread and the worker share.
#[derive(Debug)]
struct Stream {
    state: Mutex<State>,
    /// There is room, or the worker's end is dropped.
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// What the worker has not taken yet.
    written: Vec<u8>,
    /// Bytes that the worker has taken, and the client has not read.
    in_flight: usize,
    /// What may still be written, if that is known.
    left: Option<u64>,
    has_ended: bool,
    is_gone: bool,
    /// The worker knows that there is something to take.
    is_notified: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The worker's end of a response that threads write.
#[derive(Debug)]
pub(crate) struct WorkerEnd {
    token: u64,
    stream: Arc<Stream>,
}

impl WorkerEnd {
    /// Begins a response with a body of `size` bytes, if that is known. `None`: it has begun before,
    /// or the worker ends.
    pub(crate) fn begin(token: u64, size: Option<u64>) -> Option<Self> {
        let mut streams = lock(&STREAMS);
        if streams.is_closed || streams.open.contains_key(&token) {
            return None;
        }
        let state = State {
            written: Vec::new(),
            in_flight: 0,
            left: size,
            has_ended: false,
            is_gone: false,
            is_notified: false,
        };
        let stream = Arc::new(Stream { state: Mutex::new(state), changed: Condvar::new() });
        streams.open.insert(token, Arc::clone(&stream));
        Some(Self { token, stream })
    }

    /// Takes what is written, and whether that is all.
    pub(crate) fn take(&self) -> (Vec<u8>, bool) {
        let mut state = lock(&self.stream.state);
        state.is_notified = false;
        state.in_flight += state.written.len();
        (std::mem::take(&mut state.written), state.has_ended)
    }

    /// The client has not read this many bytes of what was taken.
    pub(crate) fn set_in_flight(&self, size: usize) {
        let mut state = lock(&self.stream.state);
        state.in_flight = size;
        if !state.is_full() {
            self.stream.changed.notify_all();
        }
    }
}

impl Drop for WorkerEnd {
    fn drop(&mut self) {
        let mut streams = lock(&STREAMS);
        if streams.open.get(&self.token).is_some_and(|it| Arc::ptr_eq(it, &self.stream)) {
            streams.open.remove(&self.token);
        }
        drop(streams);
        self.stream.close();
    }
}

impl Stream {
    fn close(&self) {
        lock(&self.state).is_gone = true;
        self.changed.notify_all();
    }

    /// Adds a part. `waits`: if there is no room, waits for it.
    fn write(&self, part: &[u8], waits: bool, notify: impl FnOnce()) -> bool {
        let mut state = lock(&self.state);
        while waits && state.is_full() && !state.is_over() {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.is_over() {
            return false;
        }
        state.written.extend_from_slice(part);
        if !std::mem::replace(&mut state.is_notified, true) {
            notify();
        }
        true
    }
}

impl State {
    const fn is_full(&self) -> bool {
        self.written.len() + self.in_flight >= AHEAD_SIZE_MAX
    }

    const fn is_over(&self) -> bool {
        self.is_gone || self.has_ended
    }

    /// Whether the body may have as many bytes more, which are counted.
    fn reserve(&mut self, size: usize) -> bool {
        let Some(left) = &mut self.left else { return true };
        let Some(rest) = left.checked_sub(size as u64) else { return false };
        *left = rest;
        true
    }
}

/// Writes to the response of `token`, and calls `notify` when the worker has to know. Waits for a client
/// that does not read, if `waits`. Returns whether the bytes are taken.
pub(crate) fn write(token: u64, bytes: &[u8], waits: bool, notify: impl Fn()) -> bool {
    let Some(stream) = lock(&STREAMS).open.get(&token).cloned() else { return false };
    if !lock(&stream.state).reserve(bytes.len()) {
        return false;
    }
    // At least one, so that the result says whether the client is there.
    let parts = bytes.chunks(AHEAD_SIZE_MAX).chain(bytes.is_empty().then_some(bytes));
    let mut written = parts.map(|part| stream.write(part, waits, &notify));
    written.all(|is_written| is_written)
}

/// Ends the response of `token`. Returns whether it had not ended, and is complete.
pub(crate) fn end(token: u64, notify: impl FnOnce()) -> bool {
    let Some(stream) = lock(&STREAMS).open.remove(&token) else { return false };
    let mut state = lock(&stream.state);
    if state.is_over() {
        return false;
    }
    state.has_ended = true;
    state.is_notified = true;
    stream.changed.notify_all();
    notify();
    state.left.unwrap_or(0) == 0
}

/// The worker ends: no thread waits from now on.
pub(crate) fn close_all() {
    let mut streams = lock(&STREAMS);
    streams.is_closed = true;
    for stream in std::mem::take(&mut streams.open).values() {
        stream.close();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::thread;

    use super::*;

    #[test]
    fn the_worker_is_notified_once_until_it_takes() {
        let notified = Cell::new(0);
        let notify = || notified.set(notified.get() + 1);
        let end_of_worker = WorkerEnd::begin(1001, None).expect("it is the first");
        assert!(WorkerEnd::begin(1001, None).is_none());
        assert!(write(1001, b"ab", true, notify) && write(1001, b"", true, notify));
        assert!(write(1001, b"c", true, notify));
        assert_eq!((notified.get(), end_of_worker.take()), (1, (b"abc".to_vec(), false)));
        assert!(write(1001, b"d", true, notify) && end(1001, notify) && !end(1001, notify));
        assert!(!write(1001, b"e", true, notify));
        assert_eq!((notified.get(), end_of_worker.take()), (3, (b"d".to_vec(), true)));
    }

    #[test]
    fn a_body_has_as_many_bytes_as_it_says() {
        let end_of_worker = WorkerEnd::begin(1002, Some(3)).expect("it is the first");
        assert!(write(1002, b"ab", true, || ()) && !write(1002, b"cd", true, || ()));
        assert!(!end(1002, || ()));
        assert_eq!(end_of_worker.take(), (b"ab".to_vec(), true));
    }

    #[test]
    fn a_write_waits_for_room_and_no_longer_than_for_the_worker() {
        let end_of_worker = WorkerEnd::begin(1003, None).expect("it is the first");
        let large = vec![0; 3 * AHEAD_SIZE_MAX];
        let writer = thread::spawn(move || {
            let is_written = write(1003, &large, true, || ());
            (is_written, write(1003, &large, true, || ()))
        });
        let mut sum = 0;
        while sum < 3 * AHEAD_SIZE_MAX {
            let (written, has_ended) = end_of_worker.take();
            assert!(written.len() <= AHEAD_SIZE_MAX && !has_ended);
            sum += written.len();
            end_of_worker.set_in_flight(0);
            thread::yield_now();
        }
        drop(end_of_worker);
        assert_eq!(writer.join().expect("it has not panicked"), (true, false));
        assert!(!write(1003, b"", false, || ()));
    }

    #[test]
    fn the_thread_of_the_worker_never_waits() {
        let end_of_worker = WorkerEnd::begin(1004, None).expect("it is the first");
        assert!(write(1004, &vec![0; 3 * AHEAD_SIZE_MAX], false, || ()));
        assert_eq!(end_of_worker.take().0.len(), 3 * AHEAD_SIZE_MAX);
    }
}
