//! Reload: every request is answered by the old or the new workers, and no idle connection is
//! closed.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use jissoku_lab::fixtures::SlowText;
use jissoku_os::inherited::Inherited;
use jissoku_os::socket::Endpoint;
use jissoku_server::{Fixed, Limits, Server, Settings, Sockets};

use crate::client::{Client, Running, Target, contract, free_port, fresh_path};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const LAST_GET: &str = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
const POST: &str = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";
const CHUNKED: &str = "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\
                       Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";

/// A service that responds with its number.
fn numbered(number: usize) -> Fixed {
    Fixed::new(&number.to_string())
}

/// A client that sends requests without a pause until `stop` is set. It panics if a response is
/// missing or a connection ends unannounced.
struct BusyClient {
    thread: JoinHandle<()>,
    answers: Arc<AtomicUsize>,
    /// The largest number that it has received.
    newest: Arc<AtomicUsize>,
}

impl BusyClient {
    fn start(endpoint: &Endpoint, request: &'static str, stop: &Arc<AtomicBool>) -> Self {
        let answers = Arc::<AtomicUsize>::default();
        let newest = Arc::<AtomicUsize>::default();
        let (endpoint, stop, counted) = (endpoint.clone(), Arc::clone(stop), Arc::clone(&answers));
        let seen = Arc::clone(&newest);
        let thread = thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let mut client = Client::connect(&endpoint).expect("it listens");
                let mut lives = true;
                while lives && !stop.load(Ordering::Relaxed) {
                    client.send(request);
                    let answer = client.answer();
                    let number: usize = answer.text().parse().expect("the number of a service");
                    seen.fetch_max(number, Ordering::Relaxed);
                    lives = answer.field("Connection") != Some("close");
                    counted.fetch_add(1, Ordering::Relaxed);
                }
                if !lives {
                    client.expect_end();
                }
            }
        });
        Self { thread, answers, newest }
    }

    /// Waits for a response of workers that a reload has started: for a moment, the previous ones
    /// accept connections, too.
    fn wait_for_a_reload(&self) {
        while self.newest.load(Ordering::Relaxed) == 0 && !self.thread.is_finished() {
            thread::yield_now();
        }
    }

    fn count(&self) -> usize {
        self.answers.load(Ordering::Relaxed)
    }

    /// Waits for another response; returns at once if the client has failed, which `join` reports.
    fn wait_for_an_answer(&self) {
        let before = self.count();
        while self.count() == before && !self.thread.is_finished() {
            thread::yield_now();
        }
    }
}

/// A server on TCP and on a Unix socket.
fn on_both() -> (Settings, Running) {
    let endpoints = vec![free_port(), Endpoint::Unix(fresh_path())];
    let mut settings = Settings { endpoints, workers: 2, ..Settings::new(free_port()) };
    settings.driver.backend = crate::driver();
    let server = Server::listen(settings.clone()).expect("the addresses are free");
    (settings, Running::start(server, numbered(0)))
}

/// More workers than before, every second of which has an unusable address.
fn with_unusable_addresses(settings: &Settings) -> Settings {
    let here = jissoku_os::affinity::allowed().expect("affinity can be read")[0];
    Settings { cores: vec![here, 4095], workers: 4, ..settings.clone() }
}

/// All requests are answered by the first workers.
fn check_undisturbed(running: &Running) {
    for endpoint in running.endpoints() {
        let mut client = Client::connect(&endpoint).expect("it listens");
        client.send(GET);
        let answer = client.answer();
        assert_eq!((answer.text(), answer.field("Connection")), ("0", None));
    }
}

/// The sockets of a server, as its successor receives them.
fn handed_over(running: &Running) -> Sockets {
    let sockets = running.sockets().into_iter();
    let inherited =
        sockets.map(|(name, fd)| Inherited { name, fd: fd.try_clone().expect("a descriptor") });
    Sockets::from_inherited(inherited.collect()).expect("they are listeners")
}

#[test]
fn no_request_is_lost_while_workers_are_replaced() {
    let (mut settings, mut running) = on_both();
    let occupant = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = Endpoint::Tcp(occupant.local_addr().expect("an address"));
    let stop = Arc::<AtomicBool>::default();
    let requests = [GET, LAST_GET, POST, CHUNKED];
    let clients: Vec<_> = running
        .endpoints()
        .iter()
        .flat_map(|endpoint| requests.map(|request| BusyClient::start(endpoint, request, &stop)))
        .collect();
    for (number, workers) in [1, 3, 2, 5, 1, 1, 4, 2].into_iter().cycle().take(64).enumerate() {
        let mut impossible = Settings { workers: 6, ..settings.clone() };
        impossible.endpoints.push(taken.clone());
        running.reload(&impossible, numbered(0), None).expect_err("the address is in use");
        settings.workers = workers;
        running.reload(&settings, numbered(number + 1), None).expect("new workers start");
        clients.iter().for_each(BusyClient::wait_for_an_answer);
    }
    clients.iter().for_each(BusyClient::wait_for_a_reload);
    stop.store(true, Ordering::Relaxed);
    let endings = clients.into_iter().map(|client| client.thread.join());
    assert_eq!(endings.filter(Result::is_err).count(), 0, "requests were lost");
}

#[test]
fn an_idle_connection_gets_one_more_response_with_connection_close() {
    let (settings, mut running) = on_both();
    let endpoints = running.endpoints();
    let connect = |number: usize| Client::connect(&endpoints[number % 2]).expect("a listener");
    let mut idle: Vec<_> = (0..40).map(connect).collect();
    for client in &mut idle {
        client.send(GET);
        assert_eq!(client.answer().field("Connection"), None);
    }
    for number in 1..4 {
        running.reload(&settings, numbered(number), None).expect("new workers start");
    }
    for client in &mut idle {
        // A worker that has not received the signal yet responds as before.
        let mut lives = true;
        while lives {
            client.send(POST);
            let answer = client.answer();
            assert_eq!(answer.status, 200);
            lives = answer.field("Connection").is_none();
        }
        client.expect_end();
    }
}

#[test]
fn the_drain_window_closes_idle_connections() {
    let limits = Limits { drain_idle_ns: 1, ..Limits::DEFAULT };
    let settings = Settings { limits, ..Settings::new(free_port()) };
    let mut target = Target::start(settings.clone(), numbered(0));
    let mut idle = target.connect();
    idle.send(GET);
    idle.answer();
    target.running.reload(&settings, numbered(1), None).expect("new workers start");
    idle.expect_end();
    assert_eq!(target.ask(GET).text(), "1");
}

#[test]
fn the_drain_timeout_closes_pending_requests() {
    let limits = Limits { drain_ns_max: 1, ..Limits::DEFAULT };
    let settings = Settings { limits, ..Settings::new(free_port()) };
    let mut target = Target::start(settings.clone(), contract());
    let mut client = target.connect();
    client.send("GET /delay?ms=60000 HTTP/1.1\r\nHost: a\r\n\r\n");
    // Its bytes are with the server when those of a later connection are answered.
    assert_eq!(target.ask(GET).status, 200);
    target.running.reload(&settings, numbered(1), None).expect("new workers start");
    client.expect_end();
}

#[test]
fn a_request_whose_delay_runs_is_answered_after_a_reload() {
    let settings = Settings::new(free_port());
    let delayed = SlowText::new("0", Duration::from_millis(200), 0);
    let mut target = Target::start(settings.clone(), delayed);
    let mut client = target.connect();
    client.send(GET);
    // Its bytes are with the server when those of a later connection are answered.
    assert_eq!(target.ask(GET).text(), "0");
    client.answer();
    client.send(GET);
    target.running.reload(&settings, numbered(1), None).expect("new workers start");
    // For a moment, both pools accept connections.
    while target.ask(GET).text() == "0" {}
    assert_eq!(client.answer().text(), "0");
}

#[test]
fn a_failed_reload_changes_nothing() {
    let (settings, mut running) = on_both();
    let (new, elsewhere) = (fresh_path(), fresh_path());
    let occupant = UnixListener::bind(&elsewhere).expect("a socket");
    let mut wishes = settings;
    wishes.workers = 5;
    wishes.endpoints.extend([Endpoint::Unix(new.clone()), Endpoint::Unix(elsewhere.clone())]);
    let refusal = running.reload(&wishes, numbered(1), None).expect_err("it is taken");
    assert!(refusal.contains("already in use"), "{refusal}");
    assert!(!new.exists(), "the unused socket is removed");
    check_undisturbed(&running);
    drop(occupant);
    std::fs::remove_file(elsewhere).expect("the socket can be removed");
}

#[test]
fn the_old_workers_continue_if_new_ones_cannot_start() {
    let (settings, mut running) = on_both();
    let stop = Arc::<AtomicBool>::default();
    let ask = |endpoint: &Endpoint| BusyClient::start(endpoint, LAST_GET, &stop);
    let clients: Vec<_> = running.endpoints().iter().cycle().take(4).map(ask).collect();
    let wishes = with_unusable_addresses(&settings);
    for number in 1..20 {
        let refusal =
            running.reload(&wishes, numbered(number), None).expect_err("there is no such core");
        assert!(refusal.starts_with("cannot start new workers"), "{refusal}");
        check_undisturbed(&running);
        clients.iter().for_each(BusyClient::wait_for_an_answer);
    }
    running.reload(&settings, numbered(20), None).expect("new workers start");
    clients.iter().for_each(BusyClient::wait_for_a_reload);
    stop.store(true, Ordering::Relaxed);
    let endings = clients.into_iter().map(|client| client.thread.join());
    assert_eq!(endings.filter(Result::is_err).count(), 0, "requests were lost");
    running.stop().expect("the workers are woken");
    running.join();
}

#[test]
fn a_successor_whose_workers_cannot_start_changes_nothing() {
    let (settings, mut running) = on_both();
    let mut wishes = with_unusable_addresses(&settings);
    let new = fresh_path();
    wishes.endpoints.push(Endpoint::Unix(new.clone()));
    let stop = Arc::<AtomicBool>::default();
    let ask = |endpoint: &Endpoint| BusyClient::start(endpoint, LAST_GET, &stop);
    let clients: Vec<_> = running.endpoints().iter().map(ask).collect();
    for _ in 0..20 {
        let sockets = handed_over(&running);
        let next = Server::listen_on(wishes.clone(), &sockets).expect("all of them are wanted");
        drop(sockets);
        next.start(numbered(1)).expect_err("there is no such core");
        assert!(!new.exists(), "the unused socket is removed");
        check_undisturbed(&running);
        clients.iter().for_each(BusyClient::wait_for_an_answer);
    }
    running.reload(&settings, numbered(2), None).expect("new workers start");
    clients.iter().for_each(BusyClient::wait_for_a_reload);
    stop.store(true, Ordering::Relaxed);
    let endings = clients.into_iter().map(|client| client.thread.join());
    assert_eq!(endings.filter(Result::is_err).count(), 0, "requests were lost");
}

#[test]
fn endpoints_are_added_and_removed() {
    let (mut settings, mut running) = on_both();
    let before = running.endpoints();
    let Endpoint::Unix(path) = before[1].clone() else {
        unreachable!("a Unix socket was asked for")
    };
    settings.endpoints[1] = free_port();
    running.reload(&settings, numbered(1), None).expect("new workers start");
    let after = running.endpoints();
    assert_eq!(after[0], before[0], "what is wanted still is where it was");
    assert!(!path.exists(), "the unconfigured socket is removed");
    for endpoint in &after {
        let mut client = Client::connect(endpoint).expect("it listens");
        client.send(GET);
        assert_eq!(client.answer().status, 200);
    }
    settings.endpoints.truncate(1);
    running.reload(&settings, numbered(2), None).expect("new workers start");
    while Client::connect(&after[1]).is_ok() {}
}

#[test]
fn stopping_ends_draining_workers() {
    let limits = Limits { stop_idle_ns: 1, ..Limits::DEFAULT };
    let settings = Settings { limits, ..Settings::new(free_port()) };
    let mut target = Target::start(settings.clone(), numbered(0));
    let mut idle = target.connect();
    idle.send(GET);
    idle.answer();
    target.running.reload(&settings, numbered(1), None).expect("new workers start");
    target.stop();
    idle.expect_end();
    target.running.join();
}

#[test]
fn another_server_continues_with_the_same_sockets() {
    let (settings, mut running) = on_both();
    let before = running.endpoints();
    let sockets = handed_over(&running);
    let next = Server::listen_on(settings, &sockets).expect("all of them are wanted");
    drop(sockets);
    let next = Running::start(next, numbered(1));
    assert_eq!(next.endpoints(), before, "port 0 is found again by its name");
    running.hand_over().expect("the workers are woken");
    // The socket's file is left.
    running.join();
    for endpoint in before {
        let mut client = Client::connect(&endpoint).expect("it listens");
        client.send(GET);
        assert_eq!(client.answer().text(), "1");
    }
}

#[test]
fn inherited_sockets_that_are_not_configured_are_rejected() {
    let hand_over = |fd: OwnedFd| Inherited { name: "web".to_owned(), fd };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let sockets =
        Sockets::from_inherited(vec![hand_over(listener.into())]).expect("it is a listener");
    let refusal = Server::listen_on(Settings::new(free_port()), &sockets).expect_err("not wanted");
    assert!(refusal.contains("not configured"), "{refusal}");
    let (stream, _other) = UnixStream::pair().expect("a pair");
    let refusal = Sockets::from_inherited(vec![hand_over(stream.into())]).expect_err("no listener");
    assert!(refusal.to_string().contains("not a listening stream socket"), "{refusal}");
}
