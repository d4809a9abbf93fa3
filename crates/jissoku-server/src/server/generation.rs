//! The workers that were started together, for one site and one set of settings.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use jissoku_os::driver::{self, Driver, Waker};

use super::Settings;
use super::doors::Post;
use crate::causes::Cause;
use crate::census::Census;
use crate::handler::Site;
use crate::limits::REFUSALS_MAX;
use crate::parting::Order;
use crate::worker::Worker;

/// What the workers of a generation have in common.
#[derive(Clone, Debug)]
pub(super) struct Served {
    pub(super) site: Arc<Site>,
    /// Everybody's connections, those of earlier generations too.
    pub(super) census: Arc<Census>,
}

/// Workers that began together and will end together.
#[derive(Debug)]
pub(super) struct Generation {
    order: Arc<Order>,
    wakers: Vec<Waker>,
    /// All of them but those that have failed.
    workers: Vec<Option<JoinHandle<io::Result<()>>>>,
    /// The number of every worker that ends comes here.
    ended: UnixStream,
    ending: UnixStream,
    left: usize,
    /// To tell every worker that it begins. It ends when that can never happen any more.
    beginnings: Vec<Sender<()>>,
    /// Every worker has one for as long as it takes connections; ours is for those to come.
    taking: Option<UnixStream>,
    /// Ends when the last of them does.
    taken: UnixStream,
}

impl Generation {
    /// Makes a worker for each of `posts`, and waits until each is ready to take connections. None takes
    /// one before [`Generation::begin`].
    ///
    /// # Errors
    /// The error of making a thread or what it needs. No worker is left then.
    pub(super) fn prepare(
        settings: &Settings,
        posts: Vec<Post>,
        served: &Served,
    ) -> io::Result<Self> {
        let (ended, ending) = UnixStream::pair()?;
        ended.set_nonblocking(true)?;
        let (taking, taken) = UnixStream::pair()?;
        let mut generation = Self {
            order: Arc::default(),
            wakers: Vec::new(),
            workers: Vec::new(),
            ended,
            ending,
            left: 0,
            beginnings: Vec::new(),
            taking: Some(taking),
            taken,
        };
        let (sender, receiver) = mpsc::channel();
        let mut outcome = Ok(());
        for (index, post) in posts.into_iter().enumerate() {
            match generation.make(index, settings, served, (post, sender.clone())) {
                Ok((waker, worker)) => {
                    generation.wakers.push(waker);
                    generation.workers.push(Some(worker));
                }
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
        }
        drop(sender);
        for _ in 0..generation.left {
            outcome = outcome.and(hear(&receiver));
        }
        match outcome {
            Ok(()) => Ok(generation),
            Err(error) => {
                generation.call_off();
                Err(error)
            }
        }
    }

    /// Lets the workers take connections.
    pub(super) fn begin(&mut self) {
        for beginning in self.beginnings.drain(..) {
            // A worker that has ended since is replaced like any other.
            let _told = beginning.send(());
        }
    }

    /// Ends workers that have not begun.
    pub(super) fn call_off(mut self) {
        self.beginnings.clear();
        // What they have failed with is known from when they were made.
        let _ended = self.join();
    }

    /// Waits for a worker that said that it ends, and returns what it ended with.
    pub(super) fn bury(&mut self, index: usize) -> io::Result<()> {
        self.workers[index].take().map_or(Ok(()), outcome_of)
    }

    /// Starts a worker in the place of one that has ended, and waits until it is ready.
    ///
    /// # Errors
    /// The error of making a thread or what it needs.
    pub(super) fn replace(
        &mut self,
        index: usize,
        settings: &Settings,
        post: Post,
        served: &Served,
    ) -> io::Result<()> {
        let (sender, receiver) = mpsc::channel();
        let (waker, worker) = self.make(index, settings, served, (post, sender))?;
        self.wakers[index] = waker;
        self.workers[index] = Some(worker);
        hear(&receiver)?;
        self.begin();
        Ok(())
    }

    fn make(
        &mut self,
        index: usize,
        settings: &Settings,
        served: &Served,
        (post, ready): (Post, Sender<io::Result<()>>),
    ) -> io::Result<(Waker, JoinHandle<io::Result<()>>)> {
        let waker = Waker::new()?;
        let taking = self.taking.as_ref().map(UnixStream::try_clone).transpose()?;
        let told = waker.clone();
        let number = u16::try_from(index).map_err(io::Error::other)?;
        let (beginning, begins) = mpsc::channel();
        let farewell = Farewell(self.ending.try_clone()?, number);
        let start = Start { post, farewell, ready, begins };
        let Served { site, census } = served;
        let mut worker = Worker::new(Arc::clone(site), Arc::clone(census), settings);
        worker.plant(&settings.causes)?;
        let order = Arc::clone(&self.order);
        // Who is over the ceiling is taken to be told so, up to a margin; the kernel keeps the others.
        let mut driver = settings.driver;
        driver.connections_max = settings.limits.connections_max.saturating_add(REFUSALS_MAX);
        if settings.causes.contains(&Cause::Herd) {
            // The only driver that has one.
            driver.choice = driver::Choice::Epoll;
        }
        let core = settings.cores.get(index % settings.cores.len().max(1)).copied();
        let thread = thread::Builder::new().name(format!("worker-{index}"));
        let worker = thread.spawn(move || {
            let Start { post, farewell: _said_at_the_end, ready, begins } = start;
            let prepare = || {
                core.map_or(Ok(()), |core| jissoku_os::core::pin(&[core]))?;
                // Otherwise the kernel makes every delay some 50 us longer than it has to be.
                jissoku_os::timer::wake_punctually()?;
                Driver::new(post.listeners, told, driver)
            };
            let (said, driver) = match prepare() {
                Ok(driver) => (Ok(()), Some(driver)),
                Err(error) => (Err(error), None),
            };
            // Whoever started us waits for it.
            let _heard = ready.send(said);
            drop(ready);
            let Some(driver) = driver else { return Ok(()) };
            match begins.recv() {
                Ok(()) => worker.at(post.places, taking).run(driver, &order),
                // Another was not ready, so none begins.
                Err(_) => Ok(()),
            }
        })?;
        self.left += 1;
        self.beginnings.push(beginning);
        Ok((waker, worker))
    }

    /// Orders the workers to leave the listeners to others, and to end once their clients have gone.
    pub(super) fn retire(&self) -> io::Result<()> {
        self.order.retire();
        self.wake()
    }

    /// Waits until no worker takes connections any more, but for no longer than `patience`.
    pub(super) fn wait_until_away(&mut self, patience: Duration) {
        self.taking = None;
        let patience = self.taken.set_read_timeout(Some(patience));
        // Nothing is ever sent: what comes is the end, or that of our patience.
        let _gone = patience.and_then(|()| self.taken.read(&mut [0]));
    }

    /// Orders the workers to take no more connections and to end once what is in flight is answered.
    pub(super) fn drain(&self) -> io::Result<()> {
        self.order.drain();
        self.wake()
    }

    /// Orders the workers to end at once.
    pub(super) fn leave(&self) -> io::Result<()> {
        self.order.leave();
        self.wake()
    }

    fn wake(&self) -> io::Result<()> {
        self.wakers.iter().try_for_each(Waker::wake)
    }

    /// Which workers have ended since the last call; does not wait.
    pub(super) fn take_ended(&mut self) -> Vec<usize> {
        // Each is written at once, so none is ever read in halves.
        let mut numbers = [0; 64];
        let size = (&self.ended).read(&mut numbers).unwrap_or(0);
        let number = |bytes: &[u8; 2]| usize::from(u16::from_ne_bytes(*bytes));
        let ended: Vec<usize> = numbers[..size].as_chunks().0.iter().map(number).collect();
        self.left -= ended.len();
        ended
    }

    /// Whether no worker is at work any more.
    pub(super) const fn is_over(&self) -> bool {
        self.left == 0
    }

    /// Waits for the workers to end.
    ///
    /// # Errors
    /// The first error that a worker ended with.
    pub(super) fn join(self) -> io::Result<()> {
        let mut outcome = Ok(());
        for worker in self.workers.into_iter().flatten() {
            outcome = outcome.and(outcome_of(worker));
        }
        outcome
    }
}

/// Waits until a worker says whether it is ready.
fn hear(receiver: &Receiver<io::Result<()>>) -> io::Result<()> {
    let said = receiver.recv();
    said.unwrap_or_else(|_| Err(io::Error::other("a worker did not begin")))
}

/// Waits for a worker to end, and returns what it ended with.
fn outcome_of(worker: JoinHandle<io::Result<()>>) -> io::Result<()> {
    worker.join().unwrap_or_else(|_| Err(io::Error::other("a fault in jissoku, told above")))
}

impl AsFd for Generation {
    /// Becomes readable when a worker ends.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }
}

/// Where a worker begins, when, and to whom it says that it can.
#[derive(Debug)]
struct Start {
    post: Post,
    farewell: Farewell,
    ready: Sender<io::Result<()>>,
    begins: Receiver<()>,
}

/// Tells whoever waits that a worker has ended, even if it panicked.
#[derive(Debug)]
struct Farewell(UnixStream, u16);

impl Drop for Farewell {
    fn drop(&mut self) {
        // If nobody listens for it any more, they know.
        let _told = self.0.write(&self.1.to_ne_bytes());
    }
}
