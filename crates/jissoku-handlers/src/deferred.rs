//! Responses that another thread gives later.
//!
//! A thread knows a number only, which means nothing once its request has ended: the worker, which
//! has the requests, looks the number up.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, ThreadId};

use jissoku_os::driver::{ConnectionId, Waker};

use crate::reply::Reply;
use crate::stream::{self, WorkerEnd};

/// Where all threads of the process send responses to; it has one worker.
static MAILBOX: OnceLock<Mailbox> = OnceLock::new();

#[derive(Debug)]
struct Mailbox {
    sender: Sender<Message>,
    waker: Waker,
    worker: ThreadId,
}

/// What another thread says about a request.
#[derive(Debug)]
struct Message {
    token: u64,
    what: What,
}

#[derive(Debug)]
enum What {
    Answer(Answer),
    /// Another part of its response is written.
    Written,
    /// Its body, which is paused, goes on.
    Resumed,
}

/// A response of another thread.
#[derive(Debug)]
pub(crate) enum Answer {
    Whole(Reply),
    /// One that has begun, and where its parts come from.
    Parts(Reply, WorkerEnd),
}

/// A number for a request that waits; 0 is none.
pub(crate) fn new_token() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

/// Sends a response to the worker. Returns whether there is one.
pub(crate) fn finish(token: u64, reply: Reply) -> bool {
    MAILBOX.get().is_some_and(|mailbox| mailbox.send(token, What::Answer(Answer::Whole(reply))))
}

/// Begins a response with a body of `size` bytes, if that is known. Returns whether there is a worker,
/// and it has not begun before.
pub(crate) fn begin(token: u64, reply: Reply, size: Option<u64>) -> bool {
    let (Some(mailbox), Some(end)) = (MAILBOX.get(), WorkerEnd::begin(token, size)) else {
        return false;
    };
    mailbox.send(token, What::Answer(Answer::Parts(reply, end)))
}

/// Writes the next part of a response, and waits for a client that does not read; the thread of the
/// worker does not wait. Returns whether the part is taken.
pub(crate) fn write(token: u64, part: &[u8]) -> bool {
    let Some(mailbox) = MAILBOX.get() else { return false };
    let waits = thread::current().id() != mailbox.worker;
    stream::write(token, part, waits, || mailbox.notify(token))
}

/// Ends a response in parts. Returns whether it had not ended, and is complete.
pub(crate) fn end(token: u64) -> bool {
    MAILBOX.get().is_some_and(|mailbox| stream::end(token, || mailbox.notify(token)))
}

/// Has the worker go on with a body that is paused. Returns whether there is a worker.
pub(crate) fn resume_body(token: u64) -> bool {
    MAILBOX.get().is_some_and(|mailbox| mailbox.send(token, What::Resumed))
}

impl Mailbox {
    fn send(&self, token: u64, what: What) -> bool {
        self.sender.send(Message { token, what }).is_ok() && self.waker.wake().is_ok()
    }

    fn notify(&self, token: u64) {
        // Without a worker the other end of the response is dropped, which the thread sees.
        let _is_there = self.send(token, What::Written);
    }
}

/// The requests of a worker that wait for other threads.
#[derive(Debug)]
pub(crate) struct Deferred {
    receiver: Receiver<Message>,
    waker: Waker,
    /// By token.
    requests: HashMap<u64, Waiter>,
    /// Connections whose response is there, or a part of it.
    ready: VecDeque<ConnectionId>,
    /// Connections whose bodies are paused, by when they go on by themselves, and the token.
    paused: BTreeMap<(u64, u64), ConnectionId>,
}

/// A request that waits.
#[derive(Debug)]
struct Waiter {
    connection: ConnectionId,
    /// The response, from when it is there until it is taken.
    answer: Option<Answer>,
    is_answered: bool,
    /// Its body goes on.
    is_resumed: bool,
    /// When its body goes on by itself.
    due_ns: Option<u64>,
}

impl Deferred {
    /// Makes the worker the one that gets the responses of all threads.
    ///
    /// # Errors
    /// There is a worker already, or descriptors are exhausted.
    pub(crate) fn begin() -> io::Result<Self> {
        let (deferred, sender) = Self::new()?;
        let worker = thread::current().id();
        let mailbox = Mailbox { sender, waker: deferred.waker.clone(), worker };
        let set = MAILBOX.set(mailbox);
        set.map_err(|_| io::Error::other("a process has one worker of handlers"))?;
        Ok(deferred)
    }

    fn new() -> io::Result<(Self, Sender<Message>)> {
        let (sender, receiver) = mpsc::channel();
        let (requests, ready, paused) = (HashMap::new(), VecDeque::new(), BTreeMap::new());
        Ok((Self { receiver, waker: Waker::new()?, requests, ready, paused }, sender))
    }

    /// The request of `token` waits on `connection`.
    pub(crate) fn add(&mut self, token: u64, connection: ConnectionId) {
        self.waiter(token, connection);
    }

    /// The body of the request of `token` is paused until then, on the monotonic clock.
    pub(crate) fn add_pause(&mut self, token: u64, due_ns: u64, connection: ConnectionId) {
        self.waiter(token, connection).due_ns = Some(due_ns);
        self.paused.insert((due_ns, token), connection);
    }

    fn waiter(&mut self, token: u64, connection: ConnectionId) -> &mut Waiter {
        self.requests.entry(token).or_insert_with(|| Waiter {
            connection,
            answer: None,
            is_answered: false,
            is_resumed: false,
            due_ns: None,
        })
    }

    /// When the next body goes on by itself.
    pub(crate) fn deadline_ns(&self) -> Option<u64> {
        self.paused.first_key_value().map(|((due_ns, _), _)| *due_ns)
    }

    /// Receives what other threads have sent.
    pub(crate) fn receive(&mut self) {
        self.waker.take();
        while let Ok(Message { token, what }) = self.receiver.try_recv() {
            let Some(waiter) = self.requests.get_mut(&token) else { continue };
            match what {
                What::Answer(answer) if !waiter.is_answered => {
                    (waiter.answer, waiter.is_answered) = (Some(answer), true);
                    self.ready.push_back(waiter.connection);
                }
                // The first one counts.
                What::Answer(_) => {}
                What::Written => self.ready.push_back(waiter.connection),
                What::Resumed => {
                    waiter.is_resumed = true;
                    self.ready.push_back(waiter.connection);
                }
            }
        }
    }

    /// The next connection whose response is there, or whose body goes on.
    pub(crate) fn next_ready(&mut self, now_ns: u64) -> Option<ConnectionId> {
        if let Some(first) = self.paused.first_entry()
            && first.key().0 <= now_ns
        {
            return Some(first.remove());
        }
        self.ready.pop_front()
    }

    /// Takes the response of a request, if it is there.
    pub(crate) fn take(&mut self, token: u64) -> Option<Answer> {
        self.requests.get_mut(&token)?.answer.take()
    }

    /// Whether the body of a request goes on that was paused.
    pub(crate) fn is_resumed(&self, token: u64) -> bool {
        self.requests.get(&token).is_some_and(|waiter| waiter.is_resumed)
    }

    /// The request of `token` has ended.
    pub(crate) fn remove(&mut self, token: u64) {
        if let Some(due_ns) = self.requests.remove(&token).and_then(|waiter| waiter.due_ns) {
            self.paused.remove(&(due_ns, token));
        }
    }
}

impl AsFd for Deferred {
    /// Readable when there is something to receive.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_response_of_a_request_that_waits_counts() {
        let (mut deferred, sender) = Deferred::new().expect("there are descriptors");
        let connection = ConnectionId::default();
        let token = new_token();
        assert_ne!(token, new_token());
        deferred.add(token, connection);
        assert!(deferred.take(token).is_none());
        for (token, status) in [(token, 200), (token, 201), (u64::MAX, 202)] {
            let mut reply = Reply::default();
            assert!(reply.set_copied(status, b""));
            let what = What::Answer(Answer::Whole(reply));
            let sent = sender.send(Message { token, what });
            sent.expect("the worker is there");
        }
        deferred.receive();
        assert_eq!((deferred.next_ready(0), deferred.next_ready(0)), (Some(connection), None));
        let Some(Answer::Whole(reply)) = deferred.take(token) else { panic!("it is there") };
        assert_eq!(reply.status(), 200);
        deferred.remove(token);
        assert!(deferred.take(token).is_none() && deferred.requests.is_empty());
    }

    #[test]
    fn a_body_that_is_paused_goes_on_when_its_token_is_known() {
        let (mut deferred, sender) = Deferred::new().expect("there are descriptors");
        let (token, other) = (new_token(), new_token());
        deferred.add_pause(token, 7, ConnectionId::default());
        assert!(!deferred.is_resumed(token));
        for token in [token, other] {
            let sent = sender.send(Message { token, what: What::Resumed });
            sent.expect("the worker is there");
        }
        deferred.receive();
        assert_eq!(deferred.next_ready(6), Some(ConnectionId::default()));
        assert!(deferred.is_resumed(token) && !deferred.is_resumed(other));
        assert_eq!((deferred.next_ready(6), deferred.deadline_ns()), (None, Some(7)));
        deferred.remove(token);
        assert_eq!((deferred.next_ready(9), deferred.deadline_ns()), (None, None));
    }

    #[test]
    fn a_body_that_is_paused_goes_on_at_its_time() {
        let (mut deferred, _) = Deferred::new().expect("there are descriptors");
        for due_ns in [9, 7] {
            deferred.add_pause(new_token(), due_ns, ConnectionId::default());
        }
        assert_eq!((deferred.deadline_ns(), deferred.next_ready(6)), (Some(7), None));
        assert_eq!(deferred.next_ready(8), Some(ConnectionId::default()));
        assert_eq!((deferred.next_ready(8), deferred.deadline_ns()), (None, Some(9)));
    }
}
