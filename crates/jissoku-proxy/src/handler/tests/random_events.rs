//! Random orders of events, without sockets: the test is the driver, the clock, all clients and all
//! servers, and knows of each request what may be sent for it and received.
//!
//! Every byte of a body has the letter of its request, and every response its number: so it is seen
//! where each byte came from. What has to hold:
//! * each response goes to the request that caused it, whole or visibly incomplete;
//! * what must not be repeated is sent once;
//! * no time-out comes before its time, such as that of an unused connection during a request;
//! * a connection and its exchange refer to each other, has one timer, and a place at a server exactly
//!   as long as it serves an exchange;
//! * every request that is awaited ends, and nothing is left when all have.

mod clients;
mod servers;

use std::collections::{BTreeMap, HashMap};

use clients::Customer;
use servers::Line;

use super::*;
use crate::policy::configuration::{ClientEnd, Hedge};
use crate::policy::queue::QueuePolicy;
use crate::policy::retry::{BudgetPolicy, HedgeAfter, RetryPolicy};
use crate::server_set::{ServerEntry, UpstreamOptions};
use crate::transfer::ResponseSink;
use crate::upstream_connection::UpstreamConnection;

const MS: u64 = 1_000_000;
const HEAD_NS: u64 = 10 * SECOND_NS;
const TRY_NS: u64 = 2 * SECOND_NS;
const TIMEOUTS: Timeouts = Timeouts {
    connect_ns: SECOND_NS,
    head_ns: HEAD_NS,
    read_ns: 20 * SECOND_NS,
    idle_ns: 4 * SECOND_NS,
    tunnel_ns: 100 * SECOND_NS,
};

/// Clients, and connections to servers, at once at most.
const CLIENTS_MAX: usize = 8;

/// The letter of a request, which no frame of a chunk has.
fn letter(number: u64) -> u8 {
    b'g' + u8::try_from(number % 20).expect("it is small")
}

/// Whether bytes of a body, with frames of chunks or without, are those of a request.
fn are_of(bytes: &[u8], number: u64) -> bool {
    bytes.iter().all(|byte| {
        *byte == letter(number) || byte.is_ascii_hexdigit() || matches!(byte, b'\r' | b'\n')
    })
}

/// All of them, and the handler.
struct Town {
    handler: GatewayHandler,
    random: Random,
    now_ns: u64,
    numbers: u64,
    ids: u64,
    customers: Vec<Customer>,
    lines: Vec<Line>,
    /// How often the head of each request was sent that must not be repeated.
    unrepeatable: HashMap<u64, u32>,
    has_reloaded: bool,
    /// How often something happened, so that it is seen whether everything does.
    seen: BTreeMap<&'static str, u64>,
}

type Checked = Result<(), String>;

fn entries(ports: &[u16]) -> Vec<ServerEntry> {
    let entry = |port: &u16| ServerEntry {
        target: format!("http://127.0.0.1:{port}").parse().expect("an address"),
        weight: 1,
        in_flight_max: 3,
    };
    ports.iter().map(entry).collect()
}

impl Town {
    fn new(seed: u64) -> Self {
        let mut options = UpstreamOptions::new(TIMEOUTS.idle_ns);
        options.policy.queue = Some(QueuePolicy { size_max: 3, time_ns: SECOND_NS / 2 });
        options.policy.retry_statuses.insert(503..=503);
        options.policy.idle_min = u32::from(seed.is_multiple_of(4));
        let upstream = UpstreamGroup::new(("app", "app"), entries(&[1, 2]), options, None);
        let budget = BudgetPolicy { percent: 50, per_second_min: 100 };
        let hedge = Hedge { after: HedgeAfter::Time(50 * MS), budget };
        let mut gateway = Gateway::of(vec![upstream], TIMEOUTS);
        gateway.add_hedge(hedge);
        // Long after all servers began.
        let now_ns = 1 << 60;
        let mut handler = GatewayHandler::new(Arc::new(gateway), 0, seed);
        handler.spares_due_ns = Some(now_ns);
        Self {
            handler,
            random: Random::new(seed),
            now_ns,
            numbers: 0,
            ids: 0,
            customers: Vec::new(),
            lines: Vec::new(),
            unrepeatable: HashMap::new(),
            has_reloaded: false,
            seen: BTreeMap::new(),
        }
    }

    fn note(&mut self, what: &'static str, count: u64) {
        if count > 0 {
            *self.seen.entry(what).or_default() += count;
        }
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.random.below(limit as u64)).expect("it is small")
    }

    fn is_one_of(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    /// What a worker does in each wake-up.
    fn wake(&mut self) -> Checked {
        while let Some(id) = self.handler.next_ready(self.now_ns) {
            let id = id.token();
            if let Some(place) = self.lines.iter().position(|line| line.id == id) {
                let unsent = self.lines[place].unsent;
                self.event(place, UpstreamEventKind::Resumed { unsent })?;
            } else if let Some(place) = self.customers.iter().position(|it| it.number == id) {
                self.respond(place)?;
            }
        }
        while let Some(opening) = self.handler.next_opening() {
            self.ids += 1;
            let id = SERVER_SIDE + self.ids;
            self.handler.on_opening(opening.token, ConnectionId::from_token(id));
            self.lines.push(Line::new(opening.token, id));
        }
        let orphans = self.handler.orphans as u64;
        self.note("without client", orphans);
        let waits = u64::from(self.handler.servers[0].has_waiting());
        self.note("in the queue", waits);
        self.check()
    }

    /// What has to hold between two wake-ups.
    fn check(&self) -> Checked {
        let GatewayHandler { exchanges, upstreams, .. } = &self.handler;
        for (key, exchange) in exchanges.iter() {
            let served_by = exchange.connection().map(|connection| upstreams.get_ref(connection));
            if let Some(connection) = served_by
                && connection.and_then(UpstreamConnection::exchange) != Some(key)
            {
                return Err(format!("{key:?} refers to {connection:?}"));
            }
        }
        let (mut leases, mut timers) = (0, 0);
        for (key, connection) in upstreams.iter() {
            if let Some(exchange) = connection.exchange()
                && exchanges.get_ref(exchange).and_then(Exchange::connection) != Some(key)
            {
                return Err(format!("{connection:?} does not serve its exchange"));
            }
            leases += u32::from(connection.lease().is_some());
            timers += usize::from(connection.phase() != Phase::Closing);
        }
        if upstreams.timer_count() != timers {
            return Err(format!("{} timers instead of {timers}", upstreams.timer_count()));
        }
        if leases < self.in_flight() || (!self.has_reloaded && leases != self.in_flight()) {
            return Err(format!("{leases} places, and {} in flight", self.in_flight()));
        }
        Ok(())
    }

    fn in_flight(&self) -> u32 {
        let set = self.handler.service.upstreams[0].servers();
        set.fleet.servers().iter().map(|server| server.state().in_flight()).sum()
    }

    fn step(&mut self) -> Checked {
        let (kind, times) = (self.below(32), [MS, 20 * MS, 60 * MS, SECOND_NS / 2, SECOND_NS]);
        let open = self.line(true);
        match kind {
            0..4 => self.ask()?,
            4..7 => {
                if let Some(place) = self.customer() {
                    self.upload(place)?;
                }
            }
            7 => {
                if let Some(place) = self.customer() {
                    let Customer { client, side, .. } = &mut self.customers[place];
                    self.handler.on_hangup(client, side);
                }
            }
            8 => {
                if let Some(place) = self.customer() {
                    self.leave(place);
                }
            }
            9..12 => {
                if let Some(place) = self.customer().filter(|it| self.customers[*it].is_behind) {
                    self.respond(place)?;
                }
            }
            12..16 => {
                if let Some(place) = self.line(false) {
                    let fails = self.is_one_of(6);
                    self.connect(place, fails)?;
                }
            }
            16..18 => self.now_ns += times[self.below(times.len())],
            18 => self.now_ns += [3 * SECOND_NS, 21 * SECOND_NS][self.below(2)],
            19 if self.is_one_of(8) => self.reload(),
            _ => {
                let Some(place) = open else { return Ok(()) };
                match kind {
                    19 => self.intrude(place)?,
                    20 => self.end(place)?,
                    21 => self.close(place, Some(&io::ErrorKind::ConnectionReset.into())),
                    22 => self.flush(place)?,
                    _ => {
                        self.answer(place);
                        self.send(place, kind > 26)?;
                    }
                }
            }
        }
        // Several things may have happened until the next wake-up.
        if self.is_one_of(3) { Ok(()) } else { self.wake() }
    }

    /// Every request that is awaited ends, and then nothing is left.
    fn finish(&mut self) -> Checked {
        for round in 0..400 {
            self.wake()?;
            if self.customers.is_empty() {
                break;
            }
            for place in (0..self.customers.len()).rev() {
                if self.customers[place].is_tunnel {
                    self.leave(place);
                } else if self.customers[place].is_behind {
                    self.respond(place)?;
                } else {
                    self.upload(place)?;
                }
            }
            // From here on, servers are slow or do not respond at all.
            for place in (0..self.lines.len()).rev().filter(|_| round % 2 == 0) {
                match self.lines.get(place).map(|line| line.is_open) {
                    Some(false) => self.connect(place, false)?,
                    Some(true) => {
                        self.flush(place)?;
                        if place < self.lines.len() && place % 2 == 0 {
                            self.answer(place);
                            self.send(place, true)?;
                        }
                    }
                    None => {}
                }
            }
            self.now_ns += SECOND_NS / 4;
        }
        if let Some(customer) = self.customers.first() {
            return Err(format!("a request never ends: {customer:?}"));
        }
        self.handler.retire();
        for _ in 0..3 {
            self.now_ns += 101 * SECOND_NS;
            self.wake()?;
        }
        let handler = &self.handler;
        let left = [
            ("exchanges", handler.exchanges.iter().count()),
            ("connections", handler.upstreams.iter().count()),
            ("timers", handler.upstreams.timer_count()),
            ("retries", handler.retries.count()),
            ("copies", handler.hedges.count()),
            ("requests without clients", handler.orphans),
            ("lines", self.lines.len()),
            ("places", self.in_flight() as usize),
            ("in the queue", usize::from(handler.servers[0].has_waiting())),
        ];
        match left.into_iter().find(|(_, count)| *count != 0) {
            Some((what, count)) => Err(format!("{count} {what} are left")),
            None => Ok(()),
        }
    }
}

/// What happens among random events: without one of these, they would prove less.
const SEEN: [&str; 17] = [
    "client_gone",
    "complete",
    "connection_limit_reached",
    "connection_read_timeout",
    "connection_refused",
    "connection_terminated",
    "connection_timeout",
    "copies unused",
    "copies used",
    "http_protocol_error",
    "http_response_incomplete",
    "http_response_timeout",
    "in the queue",
    "reused connections",
    "several tries",
    "tunnels",
    "without client",
];

/// Events of one order.
const EVENTS: u64 = 400;

/// All of them, unless `RANDOM_EVENTS` says otherwise: a second.
const EVENTS_DEFAULT: u64 = 40_000;

#[test]
#[expect(clippy::disallowed_methods, reason = "the environment says how long a test runs")]
fn random_orders_of_events_leave_every_response_where_it_belongs() {
    let events = std::env::var("RANDOM_EVENTS").ok().and_then(|text| text.parse().ok());
    let orders = events.unwrap_or(EVENTS_DEFAULT).div_ceil(EVENTS);
    let mut seen = BTreeMap::<&str, u64>::new();
    for seed in 0..orders {
        let mut town = Town::new(seed);
        for event in 0..EVENTS {
            if let Err(what) = town.step() {
                panic!("seed {seed}, event {event}: {what}");
            }
        }
        if let Err(what) = town.finish() {
            panic!("seed {seed}, at the end: {what}");
        }
        for (what, count) in town.seen {
            *seen.entry(what).or_default() += count;
        }
    }
    for what in SEEN {
        assert!(seen.contains_key(what), "never: {what}");
    }
}
