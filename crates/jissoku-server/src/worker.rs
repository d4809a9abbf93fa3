//! One thread with its own driver: it shares nothing with other workers but what is served.

use std::io;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use jissoku_os::driver::{Arrival, Driver, Due, Handler, Key, Next, Output, Turn};
use jissoku_os::socket;

use crate::causes::{Cause, Planted};
use crate::census::Census;
use crate::connection::Connection;
use crate::handler::{Service, Site};
use crate::limits::{Limits, REFUSALS_MAX};
use crate::link::Link;
use crate::metrics::Figure;
use crate::observer::Observer;
use crate::openings::Openings;
use crate::parting::{LEAVE, Order, Parting};
use crate::server::Settings;
use crate::timers::{Linear, Timers};
use crate::tls::{Session, Tls};

/// Everything a connection needs that is not its own.
#[derive(Debug)]
pub(crate) struct Desk {
    service: Service,
    limits: Limits,
    openings: Openings,
    timers: Timers,
    observer: Observer,
    /// Room for what is about to be encrypted.
    plain: Output,
    census: Arc<Census>,
    /// Connections over a ceiling that are still open here.
    refused: usize,
    planted: Option<Box<Planted>>,
    now_ns: u64,
    parting: Option<Parting>,
}

impl Desk {
    pub(crate) fn new(service: Service, census: Arc<Census>, limits: Limits, now_ns: u64) -> Self {
        Self {
            service,
            limits,
            openings: Openings::new(now_ns),
            timers: Timers::default(),
            observer: Observer::default(),
            plain: Output::default(),
            census,
            refused: 0,
            planted: None,
            now_ns,
            parting: None,
        }
    }

    /// Lets time pass.
    #[cfg(test)]
    pub(crate) const fn pass(&mut self, span_ns: u64) {
        self.now_ns += span_ns;
    }

    /// The time of this wake-up, on the monotonic clock.
    #[inline]
    pub(crate) const fn now_ns(&self) -> u64 {
        self.now_ns
    }

    #[inline]
    pub(crate) const fn limits(&self) -> &Limits {
        &self.limits
    }

    #[inline]
    pub(crate) const fn service(&self) -> &Service {
        &self.service
    }

    #[inline]
    pub(crate) const fn service_mut(&mut self) -> &mut Service {
        &mut self.service
    }

    #[inline]
    pub(crate) const fn openings(&self) -> &Openings {
        &self.openings
    }

    /// Whether a connection over a ceiling is waited for, so that it can read why.
    pub(crate) const fn waits_for_refused(&self) -> bool {
        self.refused <= REFUSALS_MAX
    }

    /// What makes us slow on purpose.
    #[inline]
    pub(crate) fn planted_mut(&mut self) -> Option<&mut Planted> {
        self.planted.as_deref_mut()
    }

    #[inline]
    pub(crate) const fn observer(&mut self) -> &mut Observer {
        &mut self.observer
    }

    /// An empty output with room.
    pub(crate) fn take_plain(&mut self) -> Output {
        std::mem::take(&mut self.plain)
    }

    /// Takes the room back; `plain` is empty.
    pub(crate) fn keep_plain(&mut self, plain: Output) {
        self.plain = plain;
    }

    pub(crate) fn call_at(&mut self, due_ns: u64, key: Key) {
        self.timers.add(due_ns, key);
    }

    #[inline]
    pub(crate) const fn is_stopping(&self) -> bool {
        self.parting.is_some()
    }

    /// Whether the time for answering what was in flight is over.
    pub(crate) const fn stop_is_over(&self) -> bool {
        match &self.parting {
            Some(parting) => parting.is_over(self.now_ns),
            None => false,
        }
    }

    /// Whether stopping has come so far that a connection idle for `idle_ns` can go.
    pub(crate) const fn lets_idle_go(&self, idle_ns: u64) -> bool {
        match &self.parting {
            Some(parting) => parting.lets_idle_go(idle_ns, self.now_ns),
            None => false,
        }
    }
}

/// The handler of one driver.
#[derive(Debug)]
pub(crate) struct Worker {
    desk: Desk,
    /// Connections over a ceiling, to be told so in this turn.
    turned_away: Vec<Key>,
    /// When everybody is to be looked at because we are stopping.
    looks_ns: Option<u64>,
    /// Which endpoint each of the driver's listeners belongs to.
    places: Vec<usize>,
    /// Open for as long as connections are taken.
    taking: Option<UnixStream>,
    /// What clients over TCP speak, if it is TLS.
    tls: Option<Tls>,
}

impl Worker {
    pub(crate) fn new(site: Arc<Site>, census: Arc<Census>, settings: &Settings) -> Self {
        let now_ns = jissoku_os::clock::monotonic_ns();
        let observer = settings.observation.observer();
        let service = Service::new(site, observer.tally());
        let mut desk = Desk::new(service, census, settings.limits, now_ns);
        desk.observer = observer;
        Self {
            desk,
            turned_away: Vec::new(),
            looks_ns: None,
            tls: settings.tls.clone(),
            places: Vec::new(),
            taking: None,
        }
    }

    /// Says which endpoint each of the driver's listeners belongs to, and gives it `taking` to drop when it
    /// takes no more connections.
    pub(crate) fn at(mut self, places: Vec<usize>, taking: Option<UnixStream>) -> Self {
        self.places = places;
        self.taking = taking;
        self
    }

    /// Makes it slow on purpose.
    ///
    /// # Errors
    /// The error of making what a cause needs.
    pub(crate) fn plant(&mut self, causes: &[Cause]) -> io::Result<()> {
        self.desk.planted = Planted::new(causes)?;
        if causes.contains(&Cause::LinearTimers) {
            self.desk.timers = Timers::Linear(Linear::default());
        }
        Ok(())
    }

    /// Runs until ordered to stop and done with that.
    ///
    /// # Errors
    /// The driver's: waiting itself has failed.
    pub(crate) fn run(mut self, mut driver: Driver<Self>, order: &Order) -> io::Result<()> {
        let ended = catch_unwind(AssertUnwindSafe(|| self.serve(&mut driver, order)));
        // Whoever is still connected is counted out, by a worker that has failed, too.
        driver.close_all(&mut self);
        ended.unwrap_or_else(|fault| resume_unwind(fault))
    }

    fn serve(&mut self, driver: &mut Driver<Self>, order: &Order) -> io::Result<()> {
        loop {
            let turn = driver.turn(self)?;
            if turn == Turn::Woken {
                match order.get() {
                    LEAVE => return Ok(()),
                    order => self.obey(order, driver)?,
                }
            }
            if self.desk.is_stopping() && driver.connections() == 0 {
                return Ok(());
            }
        }
    }

    /// Begins to part, or parts faster than before.
    fn obey(&mut self, order: u8, driver: &mut Driver<Self>) -> io::Result<()> {
        let given = self.desk.parting.map_or(0, |parting| parting.order);
        if order <= given {
            return Ok(());
        }
        if given == 0 {
            driver.stop_listening(self)?;
            self.taking = None;
        }
        let now_ns = self.desk.now_ns;
        self.desk.parting = Some(Parting::new(order, &self.desk.limits, now_ns));
        // Some can go at once, all others when they have had their time.
        self.looks_ns = Some(now_ns);
        Ok(())
    }
}

impl Handler for Worker {
    type Connection = Link;

    fn open(&mut self, arrival: &Arrival<'_>) -> Link {
        // From here on it is the endpoint that counts.
        let listener = self.places.get(arrival.listener).copied().unwrap_or_default();
        let arrival = &Arrival { listener, ..*arrival };
        let seat = self.desk.census.enter(arrival.socket);
        if seat.is_over {
            self.desk.refused += 1;
            self.turned_away.push(arrival.key);
        }
        let visit = self.desk.observer.open(arrival.socket);
        let connection = Connection::new(arrival.key, seat, self.desk.now_ns);
        let mut connection = connection.seen_by(visit);
        if let Some(planted) = &self.desk.planted {
            connection.burden(planted.open(arrival.socket));
        }
        match &self.tls {
            Some(tls) if socket::is_tcp(arrival.socket) => {
                Link::Secure(Box::new(Session::new(tls, connection, self.desk.now_ns)))
            }
            _ => Link::Plain(connection),
        }
    }

    #[inline]
    fn receive(&mut self, link: &mut Link, bytes: &[u8], output: &mut Output) -> Next {
        let before = output.size();
        let next = link.receive(bytes, &mut self.desk, output);
        self.desk.observer.count(Figure::ReceivedBytes, bytes.len() as u64);
        self.desk.observer.count(Figure::SentBytes, (output.size() - before) as u64);
        next
    }

    fn end(&mut self, link: &mut Link, output: &mut Output) -> Next {
        let before = output.size();
        let next = link.end(&mut self.desk, output);
        self.desk.observer.count(Figure::SentBytes, (output.size() - before) as u64);
        next
    }

    fn proceed(&mut self, link: &mut Link, unsent: usize, output: &mut Output) -> Next {
        let before = output.size();
        let next = link.proceed(unsent, &mut self.desk, output);
        self.desk.observer.count(Figure::SentBytes, (output.size() - before) as u64);
        next
    }

    fn close(&mut self, link: Link) {
        let connection = link.into_connection();
        let seat = connection.seat();
        self.desk.refused -= usize::from(seat.is_over);
        self.desk.census.leave(seat);
        self.desk.observer.close(connection.into_visit());
    }

    #[inline]
    fn wake(&mut self, now_ns: u64) {
        self.desk.now_ns = now_ns;
        self.desk.openings.refresh(now_ns);
        self.desk.observer.wake(now_ns);
    }

    #[inline]
    fn deadline_ns(&self) -> Option<u64> {
        let Desk { timers, observer, .. } = &self.desk;
        let deadlines = [timers.earliest_ns(), self.looks_ns, observer.deadline_ns()];
        deadlines.into_iter().flatten().min()
    }

    #[inline]
    fn due(&mut self) -> Option<Due> {
        let now_ns = self.desk.now_ns;
        if self.looks_ns.is_some_and(|looks_ns| looks_ns <= now_ns) {
            let end_ns = self.desk.parting.map(|parting| parting.idle_end_ns());
            // After the second look, the driver's ticks suffice.
            self.looks_ns = end_ns.filter(|&end_ns| end_ns > now_ns);
            return Some(Due::All);
        }
        let turned_away = self.turned_away.pop();
        turned_away.or_else(|| self.desk.timers.take_due(now_ns)).map(Due::One)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jissoku_os::socket::Endpoint;

    use super::*;
    use crate::handler::Contract;

    #[test]
    fn timers_are_a_list_only_where_that_is_planted() {
        let site = Arc::new(Site::Contract(Contract::new(None, Duration::ZERO, 0)));
        let census = Arc::new(Census::new(&Limits::DEFAULT));
        let nowhere = Endpoint::Tcp(([127, 0, 0, 1], 0).into());
        let mut worker = Worker::new(site, census, &Settings::new(nowhere));
        worker.plant(&[Cause::Split]).expect("nothing can fail");
        assert!(matches!(worker.desk.timers, Timers::Wheel(_)));
        worker.plant(&[Cause::LinearTimers]).expect("nothing can fail");
        assert!(matches!(worker.desk.timers, Timers::Linear(_)));
    }
}
