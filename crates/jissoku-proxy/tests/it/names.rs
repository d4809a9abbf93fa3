//! A name whose addresses change while requests are under way.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier, OnceLock};
use std::thread;
use std::time::Duration;

use jissoku_os::clock;
use jissoku_os::driver::Backend;
use jissoku_proxy::{Gateway, Resolution, Target, Timeouts, UpstreamGroup, UpstreamOptions};
use jissoku_server::{Metrics, RunningServer, Service};

use crate::scene::{PATIENCE, connect, listen, read_to_end, settings, start};

const HOUR_NS: u64 = 3_600_000_000_000;

/// The ports that the name leads to, up to the first 0; without one it cannot be resolved.
static PORTS: [AtomicU16; 2] = [const { AtomicU16::new(0) }; 2];

static REPORTS: OnceLock<Sender<String>> = OnceLock::new();

fn look_up(_: &str) -> io::Result<Vec<SocketAddr>> {
    let ports = PORTS.iter().map(|port| port.load(Ordering::SeqCst));
    let ports: Vec<_> = ports.take_while(|port| *port != 0).collect();
    match ports[..] {
        [] => Err(io::Error::other("no such name")),
        _ => Ok(ports.iter().map(|port| (Ipv4Addr::LOCALHOST, *port).into()).collect()),
    }
}

fn lead_to(ports: &[u16]) {
    // The second one last, so that it does not stand alone for a moment.
    let [first, second] = [0, 1].map(|place| ports.get(place).copied().unwrap_or_default());
    PORTS[1].store(second, Ordering::SeqCst);
    PORTS[0].store(first, Ordering::SeqCst);
}

fn report(sentence: &str) {
    if let Some(reports) = REPORTS.get() {
        let _is_awaited = reports.send(sentence.to_owned());
    }
}

/// A server that responds with its name, to `/hold` when the barrier is reached.
struct Origin {
    port: u16,
    held: Receiver<()>,
    release: Arc<Barrier>,
    /// The ends of connections.
    ended: Receiver<()>,
    /// How many connections there were.
    accepted: Arc<AtomicUsize>,
}

impl Origin {
    fn start(name: &'static str) -> Self {
        let (listener, _) = listen();
        let port = listener.local_addr().expect("it is bound").port();
        let ((holding, held), (ending, ended)) = (channel(), channel());
        let release = Arc::new(Barrier::new(2));
        let barrier = Arc::clone(&release);
        let accepted = Arc::new(AtomicUsize::new(0));
        let accepting = Arc::clone(&accepted);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (holding, ending) = (holding.clone(), ending.clone());
                let barrier = Arc::clone(&barrier);
                let mut stream = stream.expect("a connection");
                accepting.fetch_add(1, Ordering::SeqCst);
                thread::spawn(move || {
                    let _outcome = respond(name, &mut stream, || {
                        let _is_awaited = holding.send(());
                        barrier.wait();
                    });
                    let _is_awaited = ending.send(());
                });
            }
        });
        Self { port, held, release, ended, accepted }
    }
}

/// Responds to all requests of a connection.
fn respond(name: &str, stream: &mut TcpStream, hold: impl Fn()) -> io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    while let Some(request) = lines.next().transpose()? {
        // Up to the empty line.
        while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
        if request.contains("/hold") {
            hold();
        }
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{name}")?;
    }
    Ok(())
}

fn proxy(resolution: Resolution) -> (RunningServer, String, Arc<Metrics>) {
    let target: Target = "http://localhost:9".parse().expect("every machine knows this name");
    let options = UpstreamOptions { resolution, ..UpstreamOptions::new(HOUR_NS) };
    let upstream = UpstreamGroup::unnamed(vec![target], options);
    let gateway = Gateway::of(vec![upstream], Timeouts::DEFAULT);
    let metrics = Metrics::new(None);
    gateway.report_to(&metrics);
    let (proxy, address) = start(settings(Backend::Auto), gateway);
    (proxy, address, metrics)
}

fn send(address: &str, path: &str) -> TcpStream {
    let mut client = connect(address);
    write!(client, "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("sent");
    client
}

/// The last line of a response: the name of a server, or an error.
fn receive(mut client: TcpStream) -> String {
    read_to_end(&mut client).lines().last().unwrap_or_default().to_owned()
}

fn get(address: &str) -> String {
    receive(send(address, "/"))
}

#[test]
fn requests_follow_a_name_and_nothing_under_way_is_lost() {
    let (one, other) = (Origin::start("o"), Origin::start("p"));
    let (reporting, reports) = channel();
    REPORTS.set(reporting).expect("there is one test");
    lead_to(&[one.port]);
    let resolution = Resolution { every_ns: 1_000_000, lookup: look_up, report };
    let (_proxy, address, metrics) = proxy(resolution);
    wait_for_server(&address, "o");

    // Each address is a server, for as long as the name has it.
    lead_to(&[one.port, other.port]);
    wait_for_server(&address, "p");
    wait_for_server(&address, "o");
    lead_to(&[one.port]);
    wait_for(&reports, &format!("now, not 127.0.0.1:{}", other.port));
    assert!((0..10).all(|_| get(&address) == "o"));
    other.ended.recv_timeout(PATIENCE).expect("the unused one is closed");
    assert_eq!(one.accepted.load(Ordering::SeqCst), 1, "the connection of the one that stayed");

    // One connection is busy and one is unused when the address changes.
    let waiting = send(&address, "/hold");
    one.held.recv_timeout(PATIENCE).expect("it was sent there");
    assert_eq!(get(&address), "o");
    lead_to(&[other.port]);
    let now = format!("is 127.0.0.1:{} now", other.port);
    wait_for(&reports, &now);
    wait_for_server(&address, "p");
    one.ended.recv_timeout(PATIENCE).expect("the unused one is closed");
    one.release.wait();
    assert_eq!(receive(waiting), "o");
    one.ended.recv_timeout(PATIENCE).expect("the busy one is not kept");
    assert!((0..10).all(|_| get(&address) == "p"));

    lead_to(&[]);
    wait_for(&reports, "cannot be resolved: no such name; still used: 127.0.0.1:");
    assert_eq!(get(&address), "p");
    let begin_ns = clock::monotonic_ns();
    while metrics.text().contains(",reason=\"dns_error\"} 0\n") {
        let waited = Duration::from_nanos(clock::monotonic_ns() - begin_ns);
        assert!(waited < PATIENCE, "no lookup was counted");
    }
}

/// Asks until this server responds.
fn wait_for_server(address: &str, name: &str) {
    let begin_ns = clock::monotonic_ns();
    while get(address) != name {
        let waited = Duration::from_nanos(clock::monotonic_ns() - begin_ns);
        assert!(waited < PATIENCE, "{name:?} has not responded");
    }
}

fn wait_for(reports: &Receiver<String>, expected: &str) {
    while !reports.recv_timeout(PATIENCE).expect("it is reported").contains(expected) {}
}
