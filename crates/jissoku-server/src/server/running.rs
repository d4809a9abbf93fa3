//! A server at work: the present generation of workers, and those that are still answering their last
//! clients.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use jissoku_os::epoll::{Epoll, Interest, no_event};
use jissoku_os::socket::Endpoint;

use super::doors::{Doors, ListenError};
use super::generation::{Generation, Served};
use super::words::{Event, Words};
use super::{Settings, Site};
use crate::census::Census;

/// So many workers that fail are replaced within [`FAULTS_NS`].
const FAULTS_MAX: usize = 5;
const FAULTS_NS: u64 = 60_000_000_000;

/// How long a reload waits for the workers of before to take no more connections.
const AWAY_MAX: Duration = Duration::from_secs(1);

/// Why a server goes on as it was.
#[derive(Debug)]
pub enum ReloadError {
    /// An endpoint cannot be had.
    Listen(ListenError),
    /// Workers cannot be started.
    Work(io::Error),
}

impl std::fmt::Display for ReloadError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Listen(error) => error.fmt(formatter),
            Self::Work(error) => write!(formatter, "cannot start new workers: {error}"),
        }
    }
}

impl std::error::Error for ReloadError {}

/// A server at work.
#[derive(Debug)]
pub struct Running {
    settings: Settings,
    doors: Doors,
    served: Served,
    current: Generation,
    retired: Vec<Generation>,
    faults: Faults,
    phase: Phase,
    interrupts: usize,
    /// The first error that a worker ended with.
    outcome: io::Result<()>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Serving,
    /// Stopping, and the owner does not know.
    Stopping,
    /// Stopping, and the owner knows.
    Ending,
}

impl Running {
    /// Starts the first generation.
    pub(super) fn start(settings: &Settings, doors: Doors, site: Site) -> io::Result<Self> {
        let posts = doors.deal(settings.dealing())?;
        let census = Arc::new(Census::new(&settings.limits));
        settings.observation.metrics.iter().for_each(|metrics| site.tell(metrics));
        let served = Served { site: Arc::new(site), census };
        let mut current = Generation::prepare(settings, posts, &served)?;
        if let Err(error) = doors.listen() {
            current.call_off();
            return Err(io::Error::other(error));
        }
        current.begin();
        Ok(Self {
            settings: settings.clone(),
            doors,
            served,
            current,
            retired: Vec::new(),
            faults: Faults::default(),
            phase: Phase::Serving,
            interrupts: 0,
            outcome: Ok(()),
        })
    }

    /// Where the server listens, with the ports the kernel chose.
    #[must_use]
    pub fn endpoints(&self) -> Vec<Endpoint> {
        self.doors.endpoints()
    }

    /// Every listener under its name, for a successor.
    #[must_use]
    pub fn sockets(&self) -> Vec<(String, Arc<OwnedFd>)> {
        self.doors.sockets()
    }

    /// Serves `site` with new workers, and retires the old ones once all of the new are ready.
    ///
    /// Endpoints that are wanted still keep their sockets, so nobody who connects meanwhile is refused. The
    /// old workers answer who is connected to them, say that the connection ends with that answer, and wait
    /// for the idle as `limits.drain_idle_ns` says.
    ///
    /// # Errors
    /// What of the new is impossible. The old go on, as if nothing had been asked.
    pub fn reload(&mut self, settings: &Settings, site: Site) -> Result<(), ReloadError> {
        let doors = self.doors.open(settings).map_err(ReloadError::Listen)?;
        let started = self.start_beside(settings, &doors, site);
        let (new, served) = started.inspect_err(|_| doors.remove_files(&self.doors))?;
        (self.settings, self.served) = (settings.clone(), served);
        let old_doors = std::mem::replace(&mut self.doors, doors);
        let mut old = std::mem::replace(&mut self.current, new);
        let told = old.retire();
        // Whoever connects from now on is served what is new. A worker that is busy for longer does no harm.
        old.wait_until_away(AWAY_MAX);
        self.retired.push(old);
        old_doors.remove_files(&self.doors);
        told.map_err(ReloadError::Work)
    }

    /// Starts workers beside those of now.
    fn start_beside(
        &self,
        settings: &Settings,
        doors: &Doors,
        site: Site,
    ) -> Result<(Generation, Served), ReloadError> {
        let posts = doors.deal(settings.dealing()).map_err(ReloadError::Work)?;
        let census = match &self.served.census {
            census if census.is_for(&settings.limits) => Arc::clone(census),
            // Whoever is connected now is counted out with the workers of before.
            _ => Arc::new(Census::new(&settings.limits)),
        };
        settings.observation.metrics.iter().for_each(|metrics| site.tell(metrics));
        let served = Served { site: Arc::new(site), census };
        let mut new = Generation::prepare(settings, posts, &served).map_err(ReloadError::Work)?;
        // Last, because clients come to new sockets at once, and would be lost if these closed again.
        if let Err(error) = doors.listen() {
            new.call_off();
            return Err(ReloadError::Listen(error));
        }
        new.begin();
        Ok((new, served))
    }

    /// Orders the workers to take no more connections and to end once what is in flight is answered.
    ///
    /// # Errors
    /// The error of waking a worker.
    pub fn stop(&mut self) -> io::Result<()> {
        self.doors.remove_files(&Doors::default());
        // A listener is closed when the last who has it open closes it, and that is to be a worker.
        self.doors = Doors::default();
        self.begin_to_stop();
        self.generations().try_for_each(Generation::drain)
    }

    /// Leaves everything that comes from now on to another process that listens on the same sockets.
    ///
    /// # Errors
    /// The error of waking a worker.
    pub fn hand_over(&mut self) -> io::Result<()> {
        self.doors = Doors::default();
        self.begin_to_stop();
        self.generations().try_for_each(Generation::retire)
    }

    /// Orders the workers to end at once.
    ///
    /// # Errors
    /// The error of waking a worker.
    pub fn abandon(&mut self) -> io::Result<()> {
        self.doors.remove_files(&Doors::default());
        self.doors = Doors::default();
        self.begin_to_stop();
        self.generations().try_for_each(Generation::leave)
    }

    fn begin_to_stop(&mut self) {
        if self.phase == Phase::Serving {
            self.phase = Phase::Stopping;
        }
    }

    fn generations(&self) -> impl Iterator<Item = &Generation> {
        self.retired.iter().chain([&self.current])
    }

    /// Waits until there is something for the owner to do, and obeys the words to stop meanwhile.
    /// `other` is watched too, for so long at most, and so are the workers of the server `beside` this one,
    /// which obeys no words.
    ///
    /// # Errors
    /// The error of waiting, or of waking a worker.
    pub fn wait(
        &mut self,
        words: &mut Words,
        other: Option<(BorrowedFd<'_>, Duration)>,
        mut beside: Option<&mut Self>,
    ) -> io::Result<Event> {
        let deadline_ns =
            other.map(|(_, patience)| jissoku_os::clock::monotonic_ns() + nanoseconds(patience));
        loop {
            if let Some(event) = self.take_event(words)? {
                return Ok(event);
            }
            if let Some(event) = beside.as_deref_mut().map_or(Ok(None), Self::take_event_beside)? {
                return Ok(event);
            }
            let epoll = Epoll::new()?;
            let Words { terminate, interrupt, reload, replace, reopen } = &*words;
            let signals = [terminate, interrupt, reload, replace, reopen];
            signals.into_iter().try_for_each(|signal| epoll.add(signal, 0, Interest::IN))?;
            let beside = beside.iter().flat_map(|running| running.generations());
            let mut generations = self.generations().chain(beside);
            generations.try_for_each(|workers| epoll.add(workers, 0, Interest::IN))?;
            if let Some((other, _)) = other {
                epoll.add(other, 1, Interest::IN)?;
            }
            let now_ns = jissoku_os::clock::monotonic_ns();
            let left = deadline_ns.map(|end_ns| end_ns.saturating_sub(now_ns));
            let mut events = [no_event(); 8];
            let count = epoll.wait(&mut events, left.map(Duration::from_nanos))?;
            if events[..count].iter().any(|event| event.data.u64() == 1) {
                return Ok(Event::Other);
            }
            if count == 0 && left == Some(0) {
                return Ok(Event::Nothing);
            }
        }
    }

    /// What has happened since the last call; does not wait.
    fn take_event(&mut self, words: &mut Words) -> io::Result<Option<Event>> {
        let interrupts = words.interrupt.count();
        self.interrupts += interrupts;
        if self.interrupts > 1 {
            self.abandon()?;
        } else if interrupts + words.terminate.count() > 0 {
            self.stop()?;
        }
        if let Some(event) = self.look_after()? {
            return Ok(Some(event));
        }
        if words.reopen.count() > 0 {
            return Ok(Some(Event::Reopen));
        }
        let (reloads, replacements) = (words.reload.count(), words.replace.count());
        Ok(match self.phase {
            Phase::Stopping => {
                self.phase = Phase::Ending;
                Some(Event::Stopping)
            }
            Phase::Ending if self.generations().all(Generation::is_over) => Some(Event::Ended),
            Phase::Serving if replacements > 0 => Some(Event::Replace),
            Phase::Serving if reloads > 0 => Some(Event::Reload),
            _ => None,
        })
    }

    /// As [`Running::take_event`], for a server that somebody else's owner waits for.
    fn take_event_beside(&mut self) -> io::Result<Option<Event>> {
        Ok(match self.look_after()? {
            Some(Event::Replaced(index, why)) => Some(Event::ReplacedBeside(index, why)),
            None if self.phase == Phase::Stopping
                && self.generations().all(Generation::is_over) =>
            {
                self.phase = Phase::Ending;
                Some(Event::EndedBeside)
            }
            _ => None,
        })
    }

    /// Buries who has ended, and sees to it that those who ended unasked are replaced.
    fn look_after(&mut self) -> io::Result<Option<Event>> {
        let ended = self.current.take_ended();
        if self.phase == Phase::Serving {
            self.faults.lost.extend(ended);
        }
        for mut generation in std::mem::take(&mut self.retired) {
            generation.take_ended();
            if generation.is_over() {
                let ended = generation.join();
                self.note(ended);
            } else {
                self.retired.push(generation);
            }
        }
        match self.faults.lost.pop() {
            Some(index) => self.replace(index),
            None => Ok(None),
        }
    }

    /// Puts another worker in the place of one that has ended unasked. Its listeners stand all the while, so
    /// that nobody who connects is lost. Faults that come again and again are not hidden like that: then the
    /// others stop in good order, and whoever supervises the process decides.
    fn replace(&mut self, index: usize) -> io::Result<Option<Event>> {
        let fault = self.current.bury(index);
        if self.phase != Phase::Serving {
            self.note(fault);
            return Ok(None);
        }
        let why = fault.err().map_or("no reason".to_owned(), |error| error.to_string());
        let replaced = if self.faults.are_too_many(jissoku_os::clock::monotonic_ns()) {
            Err(io::Error::other(format!("worker {index} has failed once too often: {why}")))
        } else {
            self.doors.deal(self.settings.dealing()).and_then(|mut posts| {
                let post = posts.swap_remove(index);
                self.current.replace(index, &self.settings, post, &self.served)
            })
        };
        match replaced {
            Ok(()) => Ok(Some(Event::Replaced(index, why))),
            Err(error) => {
                self.note(Err(error));
                self.stop().map(|()| None)
            }
        }
    }

    fn note(&mut self, ended: io::Result<()>) {
        self.outcome = std::mem::replace(&mut self.outcome, Ok(())).and(ended);
    }

    /// Waits for the workers to end.
    ///
    /// # Errors
    /// The first error that a worker ended with.
    pub fn join(self) -> io::Result<()> {
        let mut outcome = self.outcome;
        for generation in self.retired.into_iter().chain([self.current]) {
            outcome = outcome.and(generation.join());
        }
        outcome
    }
}

/// Workers that have ended unasked.
#[derive(Debug, Default)]
struct Faults {
    /// Those in whose place there is nobody yet.
    lost: Vec<usize>,
    /// When the last ones were noticed, on the monotonic clock.
    noticed_ns: Vec<u64>,
}

impl Faults {
    /// Takes note of one more, and says whether another worker would be no remedy.
    fn are_too_many(&mut self, now_ns: u64) -> bool {
        self.noticed_ns.retain(|then_ns| now_ns - then_ns < FAULTS_NS);
        self.noticed_ns.push(now_ns);
        self.noticed_ns.len() > FAULTS_MAX
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 2)
}
