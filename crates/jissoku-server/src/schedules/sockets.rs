//! The same over real sockets: fewer cases, and the schedule is that of the machine.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use jissoku_os::driver::Backend;
use jissoku_os::socket::Endpoint;
use jissoku_os::uring;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use rustls::ClientConnection;

use super::client::{self, Ending};
use super::plan::{Choices, End, Plan, config};
use super::scripted::ScriptedService;
use super::simulation::Wire;
use crate::server::Server;
use crate::settings::Settings;
use crate::tls_session::tests::CertificateFiles;

/// Cases of each driver, and how many cases without sockets one of these replaces.
const CASES: u32 = 60;
const COST: u32 = 50;

/// A limit that no case reaches; it turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(30);

fn check(wire: Wire, backend: Backend) {
    let certificate = CertificateFiles::new();
    let mut settings = Settings::new(Endpoint::Tcp(([127, 0, 0, 1], 0).into()));
    settings.driver.backend = backend;
    settings.tls = (wire == Wire::Tls).then(|| certificate.load());
    let server = Server::listen(settings).expect("the address is free");
    let Endpoint::Tcp(address) = server.endpoints()[0] else { unreachable!("it was given a port") };
    let mut running = server.start(ScriptedService).expect("a worker starts");
    let cases = prop::collection::vec(any::<u8>(), 8..200);
    let outcome = TestRunner::new(config(CASES, COST)).run(&cases, |bytes| {
        let tls = (wire == Wire::Tls).then(|| certificate.client());
        run(address, tls, &mut Choices::new(&bytes)).map_err(TestCaseError::fail)
    });
    outcome.expect("each request gets its own response");
    running.abandon().expect("the worker is woken");
    running.join().expect("the worker ends without an error");
}

/// One case on a connection of its own.
fn run(
    address: SocketAddr,
    tls: Option<ClientConnection>,
    choices: &mut Choices<'_>,
) -> Result<(), String> {
    let mut plans = Vec::new();
    for id in 0..=choices.below(6) {
        let plan = Plan::new(id, choices);
        let is_close = matches!(plan.end, End::Close | End::Last);
        plans.push(plan);
        if is_close {
            // What arrives after a close resets the connection, and the response may be lost.
            break;
        }
    }
    let texts: Vec<_> = plans.iter().map(|plan| plan.encode(choices)).collect();
    let upgrade = plans.iter().position(|plan| plan.end == End::Upgrade);
    let behind = upgrade.map_or(Vec::new(), |place| texts[place + 1..].concat());
    // The same holds for a `close_notify`.
    let notifies = !plans.iter().any(|plan| matches!(plan.end, End::Close | End::Last));
    let outcome = exchange(address, tls, &texts, notifies, choices);
    let (received, was_reset) = outcome.map_err(|error| error.to_string())?;
    let ending = if was_reset { Ending::Reset } else { Ending::Whole };
    client::check(&plans, &received, &behind, ending).map(drop)
}

/// Sends everything in segments that are chosen, shuts down, with a `close_notify` if it
/// `notifies`, and returns what comes back, and whether the connection was reset.
fn exchange(
    address: SocketAddr,
    mut tls: Option<ClientConnection>,
    texts: &[Vec<u8>],
    notifies: bool,
    choices: &mut Choices<'_>,
) -> io::Result<(Vec<u8>, bool)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    let bytes = match &mut tls {
        None => texts.concat(),
        Some(tls) => {
            while tls.is_handshaking() {
                tls.complete_io(&mut stream)?;
            }
            let mut bytes = Vec::new();
            for text in texts {
                tls.writer().write_all(text)?;
                tls.write_tls(&mut bytes)?;
            }
            if notifies {
                tls.send_close_notify();
                tls.write_tls(&mut bytes)?;
            }
            bytes
        }
    };
    let mut rest = &bytes[..];
    let mut sent = Ok(());
    while !rest.is_empty() && sent.is_ok() {
        let (segment, next) = rest.split_at(choices.size(rest.len()));
        sent = stream.write_all(segment);
        rest = next;
    }
    // A reset is reported once; what was received before it is still there.
    let was_reset = sent.and_then(|()| stream.shutdown(Shutdown::Write)).is_err();
    let mut received = Vec::new();
    let outcome = match &mut tls {
        None => stream.read_to_end(&mut received),
        Some(tls) => rustls::Stream::new(tls, &mut stream).read_to_end(&mut received),
    };
    match outcome {
        Ok(_) => Ok((received, was_reset)),
        Err(error) => match error.kind() {
            // An end without notice is that of a reset TLS session.
            io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof => Ok((received, true)),
            _ => Err(error),
        },
    }
}

fn check_uring(wire: Wire) {
    if uring::is_available() {
        check(wire, Backend::Uring);
    } else {
        eprintln!("skipped: this kernel lacks io_uring, or keeps it from us");
    }
}

#[test]
fn responses_belong_to_their_requests_on_sockets_with_epoll() {
    check(Wire::Plain, Backend::Epoll);
}

#[test]
fn responses_belong_to_their_requests_on_tls_sockets_with_epoll() {
    check(Wire::Tls, Backend::Epoll);
}

#[test]
fn responses_belong_to_their_requests_on_sockets_with_io_uring() {
    check_uring(Wire::Plain);
}

#[test]
fn responses_belong_to_their_requests_on_tls_sockets_with_io_uring() {
    check_uring(Wire::Tls);
}
