//! Connection limits.

use jissoku_server::{Limits, Settings};

use crate::client::{Client, Running, Target, ask_all, contract, free_port, fresh_path};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

fn serve(limits: Limits, workers: usize) -> Target {
    Target::start(Settings { limits, workers, ..Settings::new(free_port()) }, contract())
}

/// This many connections, all of them served.
fn fill(target: &Target, count: usize) -> Vec<Client> {
    let mut clients: Vec<_> = (0..count).map(|_| target.connect()).collect();
    ask_all(&mut clients);
    clients
}

fn expect_refusal(client: &mut Client) {
    let answer = client.answer();
    assert_eq!(answer.status, 503);
    assert_eq!(answer.field("Connection"), Some("close"));
    assert_eq!(answer.field("Retry-After"), Some("1"));
    client.expect_end();
}

/// Connects until a connection is accepted: a closed one is detected a moment later.
fn wait_for_room(target: &Target) -> Client {
    let mut clients = (0..100_000).map(|_| target.connect());
    let found = clients.find_map(|mut client| {
        client.send(GET);
        (client.answer().status == 200).then_some(client)
    });
    found.expect("a connection is accepted again")
}

#[test]
fn a_connection_over_the_limit_gets_a_503_at_once() {
    for workers in [1, 3] {
        let limits = Limits { connections_max: 20, ..Limits::DEFAULT };
        let target = serve(limits, workers);
        let mut clients = fill(&target, 20);
        // It has sent no request yet.
        expect_refusal(&mut target.connect());
        // It sends a request, and the response is not lost to a reset.
        let mut client = target.connect();
        client.send(GET);
        expect_refusal(&mut client);
        ask_all(&mut clients);
        drop(clients.pop());
        clients.push(wait_for_room(&target));
        ask_all(&mut clients);
    }
}

#[test]
fn connections_over_the_limit_do_not_affect_others() {
    // Rejected connections are not closed while the test runs, so the margin fills.
    let limits = Limits { connections_max: 5, linger_ns_max: u64::MAX, ..Limits::DEFAULT };
    let target = serve(limits, 2);
    let mut clients = fill(&target, 5);
    let mut excess: Vec<_> = (0..60).map(|_| target.connect()).collect();
    for client in &mut excess {
        assert_eq!(client.answer().status, 503);
    }
    ask_all(&mut clients);
    // Rejected connections that stay open do not count.
    drop(clients.pop());
    clients.push(wait_for_room(&target));
    ask_all(&mut clients);
    // More than the margin: the kernel queues them, and served connections are not affected.
    excess.extend((0..400).map(|_| target.connect()));
    ask_all(&mut clients);
    drop(excess);
    drop(clients.pop());
    clients.push(wait_for_room(&target));
    ask_all(&mut clients);
}

#[test]
fn each_address_has_its_own_limit() {
    let limits = Limits { connections_per_address_max: 3, ..Limits::DEFAULT };
    let mut settings = Settings { limits, workers: 2, ..Settings::new(free_port()) };
    settings.endpoints.push("[::1]:0".parse().expect("an address"));
    let server = match jissoku_server::Server::listen(settings) {
        Ok(server) => server,
        Err(error) => {
            return eprintln!("skipped: there is no IPv6 to have a second address by: {error}");
        }
    };
    let [near, far] = [0, 1].map(|index| server.endpoints()[index].clone());
    let running = Running::start(server, contract());
    let mut target = Target { running, endpoint: near.clone() };
    let mut clients = fill(&target, 3);
    expect_refusal(&mut target.connect());
    target.endpoint = far;
    let mut others = fill(&target, 3);
    expect_refusal(&mut target.connect());
    target.endpoint = near;
    drop(clients.pop());
    clients.push(wait_for_room(&target));
    ask_all(&mut clients);
    ask_all(&mut others);
}

#[test]
fn a_unix_socket_has_no_address_to_count() {
    let limits = Limits { connections_per_address_max: 1, ..Limits::DEFAULT };
    let endpoint = jissoku_os::socket::Endpoint::Unix(fresh_path());
    let target = Target::start(Settings { limits, ..Settings::new(endpoint) }, contract());
    fill(&target, 10);
}
