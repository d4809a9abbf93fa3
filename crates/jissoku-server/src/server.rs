//! Listeners, threads, and the order to stop.

use std::fmt;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use jissoku_os::driver::{self, Driver, Listener, Waker};
use jissoku_os::epoll::{Epoll, Interest, no_event};
use jissoku_os::signal::{self, Signals};
use jissoku_os::socket::{self, Endpoint, Sharing};

use crate::census::Census;
use crate::handler::Site;
use crate::limits::{Limits, REFUSALS_MAX};
use crate::worker::{Order, Worker};

/// How a server is set up.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where to listen; port 0 lets the kernel choose.
    pub endpoints: Vec<Endpoint>,
    /// Threads, each with its own driver; at least one.
    pub workers: usize,
    /// Cores to keep the workers on, in turn; empty to leave that to the kernel.
    pub cores: Vec<usize>,
    /// What clients may do.
    pub limits: Limits,
    /// What the drivers may do, but for the number of connections: that is [`Limits::connections_max`].
    pub driver: driver::Settings,
}

impl Settings {
    /// One worker on `endpoint`, with the usual limits.
    #[must_use]
    pub fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoints: vec![endpoint],
            workers: 1,
            cores: Vec::new(),
            limits: Limits::DEFAULT,
            driver: driver::Settings::default(),
        }
    }
}

/// A place that cannot be listened on.
#[derive(Debug)]
pub struct ListenError {
    endpoint: Endpoint,
    error: io::Error,
}

impl fmt::Display for ListenError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.error.kind() == io::ErrorKind::AddrInUse {
            return write!(formatter, "{} is taken: somebody listens there already", self.endpoint);
        }
        write!(formatter, "cannot listen on {}: {}", self.endpoint, self.error)
    }
}

impl std::error::Error for ListenError {}

/// A server whose listeners stand. Connections wait in the kernel until [`Server::start`].
#[derive(Debug)]
pub struct Server {
    settings: Settings,
    endpoints: Vec<Endpoint>,
    /// For each worker, its listeners.
    listeners: Vec<Vec<Listener>>,
}

impl Server {
    /// Opens all listeners.
    ///
    /// # Errors
    /// The first endpoint that cannot be had, and why.
    pub fn listen(settings: Settings) -> Result<Self, ListenError> {
        let mut endpoints = Vec::new();
        let mut listeners: Vec<Vec<Listener>> = (0..settings.workers).map(|_| Vec::new()).collect();
        for endpoint in &settings.endpoints {
            let bound = open(endpoint, &mut listeners)
                .map_err(|error| ListenError { endpoint: endpoint.clone(), error })?;
            endpoints.push(bound);
        }
        Ok(Self { settings, endpoints, listeners })
    }

    /// Where the server listens, with the ports the kernel chose.
    #[must_use]
    pub fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    /// Starts the workers.
    ///
    /// # Errors
    /// The error of making a thread or what it needs.
    pub fn start(self, site: Site) -> io::Result<Running> {
        let (ended, ending) = UnixStream::pair()?;
        let mut running = Running {
            order: Arc::default(),
            wakers: Vec::new(),
            workers: Vec::new(),
            ended,
            ending,
            sockets: self.endpoints.into_iter().filter_map(path_of).collect(),
        };
        let site = Arc::new(site);
        let census = Arc::new(Census::new(&self.settings.limits));
        for (index, listeners) in self.listeners.into_iter().enumerate() {
            if let Err(error) =
                running.add_worker(index, &self.settings, listeners, (&site, &census))
            {
                // This failure is the one to tell.
                let _ended = running.abandon().and_then(|()| running.join());
                return Err(error);
            }
        }
        Ok(running)
    }
}

fn path_of(endpoint: Endpoint) -> Option<PathBuf> {
    match endpoint {
        Endpoint::Unix(path) => Some(path),
        Endpoint::Tcp(_) => None,
    }
}

/// Opens one endpoint for every worker, and returns it with the port that it got.
fn open(endpoint: &Endpoint, listeners: &mut [Vec<Listener>]) -> io::Result<Endpoint> {
    let sharing = match endpoint {
        Endpoint::Tcp(_) if listeners.len() > 1 => Sharing::Reuseport,
        _ => Sharing::Alone,
    };
    socket::claim(endpoint)?;
    let first = socket::listen(endpoint, sharing)?;
    let bound = socket::local_endpoint(&first)?;
    for (index, listeners) in listeners.iter_mut().enumerate() {
        listeners.push(match (&bound, index) {
            (Endpoint::Unix(_), _) => Listener::Shared(first.try_clone()?),
            (Endpoint::Tcp(_), 0) => Listener::Own(first.try_clone()?),
            (Endpoint::Tcp(_), _) => Listener::Own(socket::listen(&bound, sharing)?),
        });
    }
    Ok(bound)
}

/// Tells whoever waits that a worker has ended, even if it panicked.
#[derive(Debug)]
struct Farewell(UnixStream);

impl Drop for Farewell {
    fn drop(&mut self) {
        // If nobody listens for it any more, they know.
        let _told = self.0.write(&[1]);
    }
}

/// A server at work.
#[derive(Debug)]
pub struct Running {
    order: Arc<Order>,
    wakers: Vec<Waker>,
    workers: Vec<JoinHandle<io::Result<()>>>,
    /// Becomes readable when a worker ends.
    ended: UnixStream,
    ending: UnixStream,
    sockets: Vec<PathBuf>,
}

/// What a person or a supervisor says to the process.
#[derive(Debug)]
pub struct Words {
    /// Asks to stop; said again it changes nothing.
    pub terminate: Signals,
    /// Asks to stop; said again it means at once.
    pub interrupt: Signals,
}

impl Words {
    /// Listens to `SIGTERM` and `SIGINT`, for the whole process and for good.
    ///
    /// # Errors
    /// The error of catching a signal.
    pub fn listen() -> io::Result<Self> {
        let terminate = Signals::catch(&[signal::SIGTERM])?;
        Ok(Self { terminate, interrupt: Signals::catch(&[signal::SIGINT])? })
    }
}

impl Running {
    fn add_worker(
        &mut self,
        index: usize,
        settings: &Settings,
        listeners: Vec<Listener>,
        (site, census): (&Arc<Site>, &Arc<Census>),
    ) -> io::Result<()> {
        let waker = Waker::new()?;
        self.wakers.push(waker.clone());
        let worker = Worker::new(Arc::clone(site), Arc::clone(census), settings.limits);
        let order = Arc::clone(&self.order);
        let farewell = Farewell(self.ending.try_clone()?);
        // Who is over the ceiling is taken to be told so, up to a margin; the kernel keeps the others.
        let mut driver = settings.driver;
        driver.connections_max = settings.limits.connections_max.saturating_add(REFUSALS_MAX);
        let core = settings.cores.get(index % settings.cores.len().max(1)).copied();
        let thread = thread::Builder::new().name(format!("worker-{index}"));
        self.workers.push(thread.spawn(move || {
            let _said_at_the_end = farewell;
            core.map_or(Ok(()), |core| jissoku_os::core::pin(&[core]))?;
            // Otherwise the kernel makes every delay some 50 us longer than it has to be.
            jissoku_os::timer::wake_punctually()?;
            worker.run(Driver::new(listeners, waker, driver)?, &order)
        })?);
        Ok(())
    }

    /// Orders the workers to take no more connections and to end once what is in flight is answered.
    ///
    /// # Errors
    /// The error of waking a worker.
    pub fn stop(&self) -> io::Result<()> {
        self.order.drain();
        self.wakers.iter().try_for_each(Waker::wake)
    }

    /// Orders the workers to end at once.
    ///
    /// # Errors
    /// The error of waking a worker.
    pub fn abandon(&self) -> io::Result<()> {
        self.order.leave();
        self.wakers.iter().try_for_each(Waker::wake)
    }

    /// Waits for a word to stop, and then for the workers to end.
    ///
    /// # Errors
    /// The first error that a worker ended with.
    pub fn wait_for_word(self, mut words: Words) -> io::Result<()> {
        let epoll = Epoll::new()?;
        epoll.add(&words.terminate, 0, Interest::IN)?;
        epoll.add(&words.interrupt, 0, Interest::IN)?;
        epoll.add(&self.ended, 0, Interest::IN)?;
        self.ended.set_nonblocking(true)?;
        let mut workers_left = self.workers.len();
        let mut interrupts = 0;
        while workers_left > 0 {
            epoll.wait(&mut [no_event(); 3], None)?;
            interrupts += words.interrupt.count();
            let ended = (&self.ended).read(&mut [0; 64]).unwrap_or(0);
            workers_left -= ended.min(workers_left);
            if interrupts > 1 {
                self.abandon()?;
            } else if interrupts + words.terminate.count() + ended > 0 {
                // A worker that ended unasked takes the others along: half a server helps nobody.
                self.stop()?;
            }
        }
        self.join()
    }

    /// Waits for the workers to end.
    ///
    /// # Errors
    /// The first error that a worker ended with.
    pub fn join(self) -> io::Result<()> {
        let mut outcome = Ok(());
        for worker in self.workers {
            let ended =
                worker.join().unwrap_or_else(|_| Err(io::Error::other("a worker panicked")));
            outcome = outcome.and(ended);
        }
        for path in self.sockets {
            // Somebody may have taken the path over, or away.
            let _gone = std::fs::remove_file(path);
        }
        outcome
    }
}
