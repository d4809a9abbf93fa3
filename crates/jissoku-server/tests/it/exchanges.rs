//! Requests and responses: keep-alive, pipelining, HTTP/1.0, bodies, and the contract.

use std::io::Write;
use std::time::Duration;

use jissoku_lab::fixtures::{Contract, Echo, SlowText};
use jissoku_os::clock;
use jissoku_os::socket::Endpoint;
use jissoku_server::{Fixed, Settings};

use crate::client::{Running, Target, ask_all, contract, free_port, fresh_path};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn one_connection_takes_many_requests() {
    let target = Target::serve(contract());
    let mut client = target.connect();
    for _ in 0..100 {
        client.send(GET);
        let answer = client.answer();
        assert_eq!((answer.status, answer.text()), (200, "Hello, World!"));
        assert_eq!(answer.field("Content-Type"), Some("text/plain"));
        assert_eq!(answer.field("Connection"), None);
        let date = answer.field("Date").expect("an origin server with a clock sends Date");
        assert!(date.len() == 29 && date.ends_with(" GMT") && !date.contains(" 1970 "), "{date}");
    }
}

#[test]
fn a_pipeline_is_answered_in_its_order() {
    let target = Target::serve(contract());
    let mut client = target.connect();
    let paths = ["/", "/42", "/nothing", "/delay?ms=3"];
    for _ in 0..4 {
        let request = |path: &&str| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
        client.send(&paths.iter().map(request).collect::<String>());
    }
    for _ in 0..4 {
        let texts: Vec<_> = paths.iter().map(|_| client.answer().text().to_owned()).collect();
        assert_eq!(texts, ["Hello, World!", "42", "Not Found\n", "Hello, World!"]);
    }
}

#[test]
fn a_pipeline_larger_than_all_buffers_is_answered() {
    let target = Target::serve(contract());
    let mut client = target.connect();
    let count = 50_000;
    let mut writer = client.writer();
    let sending = std::thread::spawn(move || writer.write_all(GET.repeat(count).as_bytes()));
    for _ in 0..count {
        assert_eq!(client.answer().text(), "Hello, World!");
    }
    sending.join().expect("the thread ends").expect("all requests were received");
}

#[test]
fn the_bytes_of_forty_two_are_exact() {
    let target = Target::serve(contract());
    let mut client = target.connect();
    client.send("GET /42 HTTP/1.1\r\nHost: a\r\n\r\n");
    let answer = client.answer();
    let fields: Vec<_> = answer.fields.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    let expected = [
        ("Server", "bench"),
        ("Connection", "keep-alive"),
        ("Content-Type", "text/plain"),
        ("Content-Length", "2"),
    ];
    assert_eq!((answer.status, answer.text(), &fields[..]), (200, "42", &expected[..]));
    client.send("GET /42 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_eq!(client.answer().field("Connection"), Some("close"));
    client.expect_end();
}

#[test]
fn connection_close_is_answered_and_obeyed() {
    let target = Target::serve(contract());
    let mut client = target.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_eq!(client.answer().field("Connection"), Some("close"));
    client.expect_end();
}

#[test]
fn bytes_after_a_last_request_are_discarded() {
    let target = Target::serve(contract());
    let mut client = target.connect();
    client.send(&format!("GET /42 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n{GET}{GET}"));
    assert_eq!(client.answer().text(), "42");
    client.expect_end();
}

#[test]
fn http_10_is_closed_without_keep_alive() {
    let target = Target::serve(contract());
    let mut client = target.connect();
    client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    let answer = client.answer();
    assert_eq!((answer.text(), answer.field("Connection")), ("Hello, World!", Some("keep-alive")));
    client.send("GET / HTTP/1.0\r\n\r\n");
    assert_eq!(client.answer().field("Connection"), Some("close"));
    client.expect_end();
}

#[test]
fn head_is_answered_as_get_without_the_body() {
    let target = Target::serve(contract());
    for path in ["/", "/42", "/nothing"] {
        let mut client = target.connect();
        client.send(&format!("HEAD {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
        let head = client.head();
        client.expect_end();
        let mut client = target.connect();
        client.send(&format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
        let answer = client.answer();
        let kept = |fields: &[(String, String)]| -> Vec<_> {
            fields.iter().filter(|(name, _)| name != "Date").cloned().collect()
        };
        assert_eq!((head.status, kept(&head.fields)), (answer.status, kept(&answer.fields)));
    }
}

#[test]
fn bodies_are_read_to_their_end_however_they_are_split() {
    let target = Target::serve(Fixed::new("ok"));
    let mut client = target.connect();
    let length = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{}", "123456789");
    let chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
                   3\r\nabc\r\n5;x=y\r\ndefgh\r\n0\r\nT: u\r\n\r\n";
    let all = format!("{length}{chunked}{length}");
    for _ in 0..2 {
        client.send(&all);
        (0..3).for_each(|_| assert_eq!(client.answer().text(), "ok"));
    }
    for byte in all.bytes() {
        client.send_bytes(&[byte]);
    }
    (0..3).for_each(|_| assert_eq!(client.answer().text(), "ok"));
}

#[test]
fn a_body_of_the_limit_is_read() {
    let target = Target::serve(Fixed::new("ok"));
    let mut client = target.connect();
    let size = 1024 * 1024;
    client.send(&format!("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: {size}\r\n\r\n"));
    client.send_bytes(&vec![b'.'; size]);
    assert_eq!(client.answer().text(), "ok");
    client.send(GET);
    assert_eq!(client.answer().text(), "ok");
}

#[test]
fn expect_100_continue_is_answered() {
    let target = Target::serve(Echo::new());
    let mut client = target.connect();
    let expect = "Content-Length: 2\r\nExpect: 100-continue\r\n";
    client.send(&format!("POST / HTTP/1.1\r\nHost: a\r\n{expect}\r\n"));
    assert_eq!(client.head().status, 100);
    client.send("hi");
    assert_eq!(client.answer().text(), "hi");
}

#[test]
fn a_half_closed_client_gets_its_responses() {
    let target = Target::serve(contract());
    let mut client = target.connect();
    client.send(&format!("GET /delay?ms=20 HTTP/1.1\r\nHost: a\r\n\r\n{GET}"));
    client.finish();
    assert_eq!(client.answer().text(), "Hello, World!");
    assert_eq!(client.answer().text(), "Hello, World!");
    client.expect_end();
}

#[test]
fn a_delay_is_never_shorter_than_requested() {
    let delay = Duration::from_millis(20);
    let target = Target::serve(Contract::new(None, delay, 0));
    for path in ["/", "/delay?ms=20"] {
        let start_ns = clock::monotonic_ns();
        let answer = target.ask(&format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(answer.text(), "Hello, World!");
        assert!(clock::monotonic_ns() - start_ns >= 20_000_000);
    }
}

#[test]
fn delays_of_many_connections_run_concurrently() {
    let target = Target::serve(contract());
    let mut clients: Vec<_> = (0..50).map(|_| target.connect()).collect();
    for (client, number) in clients.iter_mut().zip(0..) {
        let ms = 100 - number % 7 * 10;
        client.send(&format!("GET /delay?ms={ms} HTTP/1.1\r\nHost: a\r\n\r\n"));
    }
    for client in &mut clients {
        assert_eq!(client.answer().text(), "Hello, World!");
    }
}

#[test]
fn busy_ns_uses_the_requested_cpu_time() {
    let target = Target::serve(SlowText::new("ok", Duration::ZERO, 3_000_000));
    let mut client = target.connect();
    let start_ns = clock::monotonic_ns();
    for _ in 0..10 {
        client.send(GET);
        assert_eq!(client.answer().text(), "ok");
    }
    // Ten busy loops of 3 ms; the calibration subtracts far less than a third.
    assert!(clock::monotonic_ns() - start_ns >= 20_000_000);
}

#[test]
fn a_unix_socket_serves_the_same() {
    let path = fresh_path();
    let settings = Settings { workers: 2, ..Settings::new(Endpoint::Unix(path.clone())) };
    let target = Target::start(settings, contract());
    let mut clients: Vec<_> = (0..20).map(|_| target.connect()).collect();
    for client in &mut clients {
        client.send(&GET.repeat(16));
    }
    for client in &mut clients {
        (0..16).for_each(|_| assert_eq!(client.answer().text(), "Hello, World!"));
    }
    drop(target);
    assert!(!path.exists(), "the socket is taken away");
}

#[test]
fn many_connections_over_several_workers_are_all_answered() {
    let settings = Settings { workers: 3, ..Settings::new(free_port()) };
    let target = Target::start(settings, contract());
    let mut clients: Vec<_> = (0..300).map(|_| target.connect()).collect();
    for _ in 0..3 {
        ask_all(&mut clients);
    }
}

#[test]
fn several_addresses_are_served() {
    let path = fresh_path();
    let mut settings = Settings { workers: 2, ..Settings::new(free_port()) };
    settings.endpoints.push(Endpoint::Unix(path));
    let server = jissoku_server::Server::listen(settings).expect("the addresses are free");
    let endpoints = server.endpoints();
    let running = Running::start(server, contract());
    let mut target = Target { running, endpoint: endpoints[0].clone() };
    assert_eq!(target.ask(GET).status, 200);
    target.endpoint = endpoints[1].clone();
    assert_eq!(target.ask(GET).status, 200);
}

#[test]
fn a_port_in_use_by_another_process_is_not_shared() {
    let settings = Settings { workers: 2, ..Settings::new(free_port()) };
    let target = Target::start(settings.clone(), contract());
    let second = Settings { endpoints: vec![target.endpoint], ..settings };
    let refusal = jissoku_server::Server::listen(second).expect_err("the port is taken");
    assert!(refusal.contains("already in use"), "{refusal}");
}
