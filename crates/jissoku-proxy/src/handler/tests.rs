//! A handler between clients and servers that are not there: the test is the driver.

mod random_events;

use crate::policy::configuration::{Configuration, RouteAction};
use crate::policy::routes::{Decision, Subject};
use jissoku_http::head::HeadReader;
use jissoku_http::{Head, Limits};

use super::*;
use crate::config::Timeouts;
use crate::exchange::Ending;
use crate::gather::GatherRoute;

const SECOND_NS: u64 = 1_000_000_000;
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// The ids of connections to servers begin here; those of clients are less.
const SERVER_SIDE: u64 = 1_000_000;

/// A worker, and what its driver knows.
struct World {
    handler: GatewayHandler,
    now_ns: u64,
    /// Tokens of the connections to servers by their ids, which are the places.
    opened: Vec<Option<u64>>,
    /// Those that are established.
    established: Vec<u64>,
    clients: u64,
    requests: Vec<ClientSide>,
    /// What is wrong, as soon as something is.
    wrong: Option<String>,
}

fn head() -> Head {
    let head = HeadReader::default().read(REQUEST, &Limits::DEFAULT);
    head.expect("it is in order").expect("it is whole")
}

impl World {
    fn new(timeouts: Timeouts) -> Self {
        let target = "http://127.0.0.1:9".parse().expect("an address");
        let handler = GatewayHandler::new(Arc::new(Gateway::new(target, timeouts)), 0, 1);
        let (opened, established, requests) = (Vec::new(), Vec::new(), Vec::new());
        let now_ns = SECOND_NS;
        Self { handler, now_ns, opened, established, clients: 0, requests, wrong: None }
    }

    /// A client has sent a request.
    fn request(&mut self) {
        self.clients += 1;
        let id = ConnectionId::from_token(self.clients);
        let mut client = Client::local(id);
        let head = head();
        let now_ns = self.now_ns;
        let request =
            RequestHead { head: &head, bytes: REQUEST, now_ns, identity: None, request_id: None };
        let mut request = self.handler.on_head(&mut client, &request);
        self.handler.step(&client, &mut request);
        self.requests.push(request);
    }

    /// Calls the handler until it has nothing more to do, as a driver does in each wake-up.
    fn run(&mut self) {
        while let Some(id) = self.handler.next_ready(self.now_ns) {
            if id.token() >= SERVER_SIDE {
                let place = usize::try_from(id.token() - SERVER_SIDE).expect("it is small");
                if let Some(token) = self.opened[place] {
                    self.event(token, UpstreamEventKind::Resumed { unsent: 0 });
                }
            }
        }
        while let Some(opening) = self.handler.next_opening() {
            let id = ConnectionId::from_token(SERVER_SIDE + self.opened.len() as u64);
            self.opened.push(Some(opening.token));
            self.handler.on_opening(opening.token, id);
        }
        self.check();
    }

    fn event(&mut self, token: u64, kind: UpstreamEventKind<'_>) {
        let event = UpstreamEvent { token, kind, now_ns: self.now_ns };
        let next = self.handler.on_event(event, &mut SendBuffer::default());
        if matches!(next, Action::Close | Action::Abort) {
            self.close(token, None);
        }
    }

    fn close(&mut self, token: u64, error: Option<&io::Error>) {
        self.opened.iter_mut().filter(|it| **it == Some(token)).for_each(|it| *it = None);
        self.established.retain(|other| *other != token);
        self.handler.on_close(token, error, self.now_ns);
    }

    fn connect(&mut self, is_refused: bool) {
        let waiting = self.opened.iter().flatten().find(|it| !self.established.contains(it));
        let Some(&token) = waiting else { return };
        if is_refused {
            return self.close(token, Some(&io::Error::from(io::ErrorKind::ConnectionRefused)));
        }
        self.established.push(token);
        self.event(token, UpstreamEventKind::Connected);
    }

    /// Bytes of a server, on one of the established connections.
    fn receive(&mut self, place: usize, bytes: &[u8]) {
        if let Some(&token) = self.established.get(place) {
            self.event(token, UpstreamEventKind::Data { bytes, unsent: 0 });
        }
    }

    /// What has to hold between two wake-ups.
    fn check(&mut self) {
        let Self { handler, requests, now_ns, .. } = self;
        let closing = handler.upstreams.values().filter(|it| it.phase() == Phase::Closing).count();
        let all = handler.upstreams.values().count();
        if handler.upstreams.timer_count() != all - closing {
            let count = handler.upstreams.timer_count();
            self.wrong = Some(format!("{count} timers of {all} connections, {closing} closing"));
        }
        let keys: Vec<Key> = requests.iter().filter_map(ClientSide::exchange).collect();
        if handler.exchanges.values().count() != keys.len() {
            self.wrong = Some("an exchange without a request".to_owned());
        }
        for exchange in keys.into_iter().filter_map(|key| handler.exchanges.get_ref(key)) {
            let waited_ns = now_ns.saturating_sub(exchange.begun_ns());
            let Some(Ending::Failed(_, error)) = exchange.ending() else { continue };
            let least_ns = match error {
                "http_response_timeout" => handler.service.timeouts.head_ns,
                "connection_timeout" => handler.service.timeouts.connect_ns,
                _ => 0,
            };
            if waited_ns < least_ns {
                self.wrong = Some(format!("{error} after {waited_ns} ns"));
            }
        }
    }

    fn end(&mut self, place: usize) {
        if place < self.requests.len() {
            let request = self.requests.remove(place);
            self.handler.abandon(&request);
        }
    }

    fn in_flight(&self) -> u32 {
        let set = self.handler.service.upstreams[0].servers();
        set.fleet.servers()[0].state().in_flight()
    }
}

/// A response was received completely, and its connection is unused.
fn with_idle_connection() -> World {
    let mut world = World::new(Timeouts::DEFAULT);
    world.request();
    world.run();
    world.connect(false);
    world.receive(0, RESPONSE);
    world.run();
    world.end(0);
    world.run();
    assert_eq!(world.handler.upstreams.spare_count(0, &endpoint(&world)), 1);
    world
}

fn endpoint(world: &World) -> Arc<jissoku_os::socket::Endpoint> {
    let mut serving = world.handler.servers[0].serving(world.now_ns);
    Arc::clone(serving.next().expect("there is a server"))
}

#[test]
fn a_request_has_its_own_time_on_a_connection_that_was_unused() {
    for pause_ns in [1, 2 * SECOND_NS, 4 * SECOND_NS - 1, 4 * SECOND_NS, 5 * SECOND_NS] {
        let mut world = with_idle_connection();
        world.now_ns += pause_ns;
        // The wake-up in which the request comes is the one in which the unused connection is late.
        world.request();
        world.run();
        world.connect(false);
        world.now_ns += 59 * SECOND_NS;
        world.run();
        let key = world.requests[0].exchange().expect("it was not refused");
        let exchange = world.handler.exchanges.get_ref(key).expect("it has not ended");
        assert_eq!((exchange.ending(), &world.wrong), (None, &None), "{pause_ns}");
        // Its own time is over at last.
        world.now_ns += SECOND_NS;
        world.run();
        let exchange = world.handler.exchanges.get_ref(key).expect("its client is there");
        let late = Some(Ending::Failed(504, "http_response_timeout"));
        assert_eq!((exchange.ending(), world.in_flight()), (late, 0), "{pause_ns}");
    }
}

#[test]
fn a_connection_has_one_timer_however_often_it_is_used() {
    let mut world = with_idle_connection();
    for _ in 0..1000 {
        world.now_ns += SECOND_NS;
        world.request();
        world.run();
        world.receive(0, RESPONSE);
        world.end(0);
        world.run();
        assert_eq!((world.handler.upstreams.timer_count(), &world.wrong), (1, &None));
    }
    assert_eq!(world.opened.len(), 1);
}

#[test]
fn a_request_that_is_forgotten_keeps_no_connection_and_no_place() {
    for steps in 0..4 {
        let mut world = World::new(Timeouts::DEFAULT);
        world.request();
        world.run();
        if steps > 0 {
            world.connect(false);
        }
        if steps > 1 {
            world.receive(0, &RESPONSE[..(steps - 1) * 15]);
        }
        assert_eq!(world.in_flight(), 1);
        // The server has replaced it by the next one of its client, say.
        world.requests.clear();
        world.run();
        assert_eq!((world.handler.exchanges.values().count(), world.in_flight()), (0, 0));
        let token = world.opened[0];
        assert!(token.is_none() || !world.established.contains(&token.unwrap_or(0)), "{steps}");
    }
}

#[test]
fn a_gathering_that_is_forgotten_keeps_no_connection_and_no_place() {
    let text = "[upstream.a]\nservers = ['h:1']\n[[route]]\npath = '/'\n\
        gather = { one = 'a:/1', two = 'a:/2' }\n";
    let configuration = Configuration::parse(text).expect("a right configuration");
    let RouteAction::Gather(plan) = &configuration.routes[0].action else {
        panic!("the route gathers");
    };
    let forwarding = Forwarding::new(0, SECOND_NS);
    let (plan, forwardings) = ((**plan).clone(), vec![forwarding; 2]);
    let route = Arc::new(GatherRoute { plan, forwardings, fields: FieldRules::default() });
    let mut world = World::new(Timeouts::DEFAULT);
    let (head, now_ns) = (head(), world.now_ns);
    let request =
        RequestHead { head: &head, bytes: REQUEST, now_ns, identity: None, request_id: None };
    let client = Client::local(ConnectionId::from_token(1));
    let subject = Subject { method: b"GET", host: None, path: b"/", is_secure: false };
    let Decision::Take { captures, .. } = configuration.rules.find(&subject) else {
        panic!("there is a route");
    };
    let gathering = world.handler.begin_gathering(&client, &request, (&route, &captures));
    let mut gathering = gathering.expect("its parts can be sent");
    world.handler.begin_parts(&mut gathering);
    world.handler.next_ready(now_ns);
    assert_eq!((world.handler.exchanges.values().count(), world.in_flight()), (2, 2));
    drop(gathering);
    world.run();
    assert_eq!((world.handler.exchanges.values().count(), world.in_flight()), (0, 0));
    assert_eq!(world.handler.upstreams.values().count(), 0);
}

#[test]
fn a_request_writes_to_no_count_that_other_workers_write_to() {
    let mut world = World::new(Timeouts::DEFAULT);
    let set = world.handler.service.upstreams[0].servers();
    let counts = |set: &Arc<crate::server_set::ServerSet>| {
        let endpoints: Vec<usize> = set.endpoints.iter().map(Arc::strong_count).collect();
        (Arc::strong_count(set), endpoints)
    };
    let before = counts(&set);
    world.request();
    world.run();
    assert_eq!((counts(&set), world.in_flight()), (before.clone(), 1), "while it is opened");
    world.connect(false);
    assert_eq!(counts(&set), before, "while it is served");
    world.receive(0, RESPONSE);
    world.end(0);
    world.run();
    assert_eq!((counts(&set), world.in_flight()), (before, 0), "afterwards");
    let shared = &set.endpoints[0];
    assert!(!Arc::ptr_eq(shared, &endpoint(&world)) && **shared == *endpoint(&world));
}
