//! One request to several scripted servers.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use jissoku_os::driver::Backend;
use jissoku_os::socket::set_linger_zero;
use jissoku_proxy::policy::configuration::{Configuration, RouteAction};
use jissoku_proxy::policy::fields::FieldRules;
use jissoku_proxy::{Content, Forwarding, Gateway, GatherRoute, RouteContent, Target, Timeouts};
use jissoku_server::RunningServer;

use crate::scene::{
    PATIENCE, backends, connect, listen, read_head, read_to_end, read_until, settings, start,
};

const SECOND_NS: u64 = 1_000_000_000;

/// A body that is larger than a part may be.
const LARGE: usize = 300 * 1024;

/// Of a body of `MOST`: less than a worker holds, and more than half of it.
const MOST_OF_IT: usize = 48 * 1024 * 1024;
const MOST: usize = 52 * 1024 * 1024;

/// A server for all parts, which does what the path of a request says.
struct Servers {
    address: String,
    /// The path of each request to `/hang/...`, and again with `-` when its connection has ended.
    events: Receiver<String>,
    /// A byte releases a request to `/wait`.
    release: UnixStream,
}

impl Servers {
    fn start() -> Self {
        let (listener, address) = listen();
        let (sender, events) = channel();
        let (release, released) = UnixStream::pair().expect("a pair can be had");
        released.set_read_timeout(Some(PATIENCE)).expect("a socket has options");
        thread::spawn(move || {
            for stream in listener.incoming() {
                let sender = sender.clone();
                let released = released.try_clone().expect("a descriptor is free");
                let stream = stream.expect("the proxy connects");
                thread::spawn(move || serve(stream, &sender, released));
            }
        });
        Self { address, events, release }
    }

    fn release(&self) {
        (&self.release).write_all(b"r").expect("room to send");
    }

    fn event(&self) -> String {
        self.events.recv_timeout(PATIENCE).expect("the event happens")
    }
}

/// Serves the requests of one connection.
fn serve(mut stream: TcpStream, events: &Sender<String>, mut released: UnixStream) {
    while let Some(path) = read_path(&mut stream) {
        let (status, kind, body) = match path.split('/').nth(1) {
            Some("ok") => ("200 OK", "application/json", format!("{{\"path\":{path:?}}}")),
            Some("fail") => ("500 Oops", "text/plain", "oops".to_owned()),
            Some("large") => ("200 OK", "text/plain", "x".repeat(LARGE)),
            Some("text") => ("200 OK", "text/plain", "y".repeat(200 * 1024)),
            Some("wait") => {
                released.read_exact(&mut [0]).expect("it is released");
                ("200 OK", "text/plain", "late".to_owned())
            }
            Some("most") => {
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {MOST}\r\n\r\n");
                // The proxy may close the connection.
                let mut send = |bytes: &[u8]| stream.write_all(bytes).is_ok();
                if send(head.as_bytes()) && send(&vec![b'z'; MOST_OF_IT]) {
                    let _ended = stream.read_exact(&mut [0]);
                }
                return;
            }
            Some("reset") => {
                set_linger_zero(&stream).expect("a socket has options");
                return;
            }
            _ => {
                // The test may have ended.
                let _sent = events.send(path.clone());
                // As opposed to `read`, this goes on after a signal, which the end of a ring sends.
                let _ended = stream.read_exact(&mut [0]);
                let _sent = events.send(format!("{path}-"));
                return;
            }
        };
        let size = body.len();
        let head =
            format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {size}\r\n");
        // The proxy may have closed the connection.
        if stream.write_all(format!("{head}\r\n{body}").as_bytes()).is_err() {
            return;
        }
    }
}

/// Reads the head of a request; `None` at the end of the connection.
fn read_path(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).expect("it is text");
    assert!(
        head.contains("\r\nHost: h\r\n") && head.contains("\r\nVia: 1.1 jissoku\r\n"),
        "{head}"
    );
    Some(head.split(' ').nth(1).expect("a target").to_owned())
}

/// A proxy with one route, and its servers.
struct Scene {
    servers: Servers,
    address: String,
    _proxy: RunningServer,
}

impl Scene {
    /// `parts` are the paths of the parts, which are named by their numbers; `keys` are further keys
    /// of the route.
    fn new(backend: Backend, parts: &[&str], keys: &str) -> Self {
        let servers = Servers::start();
        let parts: Vec<String> =
            parts.iter().enumerate().map(|(id, path)| format!("{id} = \"all:{path}\"")).collect();
        let text = format!(
            "[upstream.all]\nservers = [\"{}\"]\n[[route]]\npath = \"/{{id}}\"\n\
             gather = {{ {} }}\n{keys}\n",
            servers.address,
            parts.join(", ")
        );
        let configuration = Configuration::parse(&text).expect("a right configuration");
        let RouteAction::Gather(plan) = &configuration.routes[0].action else {
            unreachable!("the route gathers")
        };
        let target: Target = format!("http://{}", servers.address).parse().expect("an address");
        let mut gateway =
            Gateway::new(target, Timeouts { idle_ns: SECOND_NS, ..Timeouts::DEFAULT });
        gateway.via_name = "jissoku".into();
        let forwarding = Forwarding::new(0, 60 * SECOND_NS);
        let forwardings = vec![forwarding; plan.parts.len()];
        let fields = FieldRules::default();
        let route = GatherRoute { plan: (**plan).clone(), forwardings, fields };
        let rule = configuration.rules.rules()[0].clone();
        let content = RouteContent::single(rule, Content::Gather(Arc::new(route)), gateway, 0);
        let service = Arc::new(content).without_app();
        let (proxy, address) = start(settings(backend), service);
        Self { servers, address, _proxy: proxy }
    }

    /// Sends a request and returns the connection.
    fn ask(&self, accept: &str) -> TcpStream {
        let mut client = connect(&self.address);
        let request = format!(
            "GET /7?q HTTP/1.1\r\nHost: h\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"
        );
        client.write_all(request.as_bytes()).expect("room to send");
        client
    }

    /// The whole response to a request.
    fn get(&self, accept: &str) -> String {
        read_to_end(&mut self.ask(accept))
    }
}

/// Plays `scene` with every driver.
fn play(parts: &[&str], keys: &str, scene: impl Fn(&Scene)) {
    for backend in backends() {
        scene(&Scene::new(backend, parts, keys));
    }
}

#[test]
fn all_parts_are_in_one_response() {
    play(&["/ok/{id}", "/ok/b?c=d"], "", |scene| {
        let text = scene.get("*/*");
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
        assert!(text.contains("\r\nContent-Type: application/json\r\n"), "{text}");
        assert!(text.contains("\r\nGather-Complete: ?1\r\n"), "{text}");
        assert!(text.contains("\"headers\":{\"content-type\":\"application/json\"}"), "{text}");
        let first = text.find("\"body\":{\"path\":\"/ok/7\"}").expect("the first part");
        let second = text.find("\"body\":{\"path\":\"/ok/b?c=d\"}").expect("the second part");
        assert!(first < second && text.contains("\"complete\":true"), "{text}");
    });
}

#[test]
fn of_32_parts_one_hangs_and_the_others_are_answered() {
    let mut parts = vec!["/ok/{id}"; 32];
    parts[17] = "/hang/{id}";
    parts[31] = "/wait/a";
    // Due as soon as 31 parts have succeeded, however long that takes.
    let keys = "quorum = 31\ndeadline = \"1h\"\nsoft-deadline = \"1ms\"";
    play(&parts, keys, |scene| {
        let mut client = scene.ask("*/*");
        assert_eq!(scene.servers.event(), "/hang/7");
        // The last of the others is answered after that.
        scene.servers.release();
        let text = read_to_end(&mut client);
        assert!(text.contains("\r\nGather-Complete: ?0\r\n"), "{text}");
        assert_eq!(text.matches("\"status\":200").count(), 31, "{text}");
        assert!(text.contains("{\"id\":\"17\",\"error\":\"http_response_timeout\""), "{text}");
        assert_eq!(scene.servers.event(), "/hang/7-");
    });
}

#[test]
fn a_response_without_enough_parts_at_the_deadline_is_504() {
    let keys = "required = [\"0\"]\ndeadline = \"200ms\"";
    play(&["/hang/a", "/hang/b"], keys, |scene| {
        let text = scene.get("*/*");
        assert!(text.starts_with("HTTP/1.1 504 "), "{text}");
        assert_eq!(text.matches("http_response_timeout").count(), 2, "{text}");
    });
}

#[test]
fn failures_are_reported_part_by_part() {
    let parts = ["/fail/a", "/reset/b", "/ok/c", "/large/d"];
    play(&parts, "deadline = \"1h\"", |scene| {
        let text = scene.get("*/*");
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
        assert!(text.contains("{\"id\":\"0\",\"status\":500,"), "{text}");
        assert!(text.contains("{\"id\":\"1\",\"error\":\"connection_terminated\""), "{text}");
        assert!(text.contains("{\"id\":\"2\",\"status\":200,"), "{text}");
        assert!(text.contains("{\"id\":\"3\",\"error\":\"http_response_body_size\""), "{text}");
    });
    let keys = "deadline = \"1h\"\npartial = \"refuse\"";
    play(&["/ok/a", "/reset/b"], keys, |scene| {
        assert!(scene.get("*/*").starts_with("HTTP/1.1 502 "));
    });
}

#[test]
fn lines_are_sent_as_parts_end() {
    play(&["/wait/a", "/ok/b"], "deadline = \"1h\"", |scene| {
        let mut client = scene.ask("application/x-ndjson");
        let start = read_until(&mut client, |text| text.ends_with("\"path\":\"/ok/b\"}}\n"));
        assert!(start.contains("\r\nTransfer-Encoding: chunked\r\n"), "{start}");
        assert!(!start.contains("\"id\":\"0\""), "{start}");
        // The other part is answered after its line was read.
        scene.servers.release();
        let rest = read_to_end(&mut client);
        let second = rest.find("{\"id\":\"0\",\"status\":200").expect("the other part");
        let end = rest.find("{\"complete\":true").expect("the last line");
        assert!(second < end && rest.ends_with("\r\n0\r\n\r\n"), "{rest}");
    });
}

#[test]
fn the_route_says_the_form_if_the_client_does_not() {
    play(&["/ok/a"], "form = \"ndjson\"", |scene| {
        assert!(scene.get("*/*").contains("\r\nContent-Type: application/x-ndjson\r\n"));
        let text = scene.get("application/json");
        assert!(text.contains("\r\nContent-Type: application/json\r\n"), "{text}");
    });
}

#[test]
fn a_slow_reader_gets_every_part() {
    // More than an answer may hold at once.
    let parts = vec!["/text/a"; 40];
    play(&parts, "deadline = \"1h\"\nparallel = 4", |scene| {
        check_slow_reader(&mut scene.ask("application/x-ndjson"));
    });
}

fn check_slow_reader(client: &mut TcpStream) {
    let mut text = Vec::new();
    while Read::by_ref(client).take(10_000).read_to_end(&mut text).expect("it ends in order") > 0 {
        thread::yield_now();
    }
    let text = String::from_utf8(text).expect("it is text");
    assert_eq!(text.matches("\"status\":200").count(), 40);
    assert_eq!(text.matches(&"y".repeat(200 * 1024)).count(), 40);
    assert!(text.contains("{\"complete\":true"));
}

#[test]
fn parts_end_with_their_client() {
    play(&["/hang/a", "/ok/b"], "deadline = \"1h\"", |scene| {
        let client = scene.ask("application/x-ndjson");
        assert_eq!(scene.servers.event(), "/hang/a");
        set_linger_zero(&client).expect("a socket has options");
        drop(client);
        assert_eq!(scene.servers.event(), "/hang/a-");
    });
}

#[test]
fn only_get_and_head_are_gathered() {
    play(&["/ok/a"], "", |scene| {
        let mut client = connect(&scene.address);
        client
            .write_all(b"HEAD /7 HTTP/1.1\r\nHost: h\r\n\r\nPOST /7 HTTP/1.1\r\nHost: h\r\n\r\n")
            .expect("room to send");
        let head = read_head(&mut client);
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        let next = read_head(&mut client);
        assert!(next.starts_with("HTTP/1.1 405 "), "{next}");
        assert!(next.contains("\r\nAllow: GET, HEAD\r\n"), "{next}");
    });
}

#[test]
fn of_two_parts_that_a_worker_cannot_hold_together_one_fails() {
    let keys = "part-size-max = \"60MiB\"\nanswer-size-max = \"60MiB\"\ndeadline = \"1h\"";
    play(&["/most/a"], keys, |scene| {
        // In two languages, so that they are two requests in any case.
        let languages = ["en", "ja"];
        let clients = languages.map(|it| scene.ask(&format!("*/*\r\nAccept-Language: {it}")));
        let (sender, texts) = channel();
        thread::scope(|scope| {
            for mut client in &clients {
                let sender = sender.clone();
                scope.spawn(move || {
                    let mut text = String::new();
                    client.read_to_string(&mut text).expect("it ends in order");
                    sender.send(text).expect("the test waits");
                });
            }
            let text = texts.recv_timeout(PATIENCE).expect("one fails");
            assert!(text.starts_with("HTTP/1.1 503 "), "{text}");
            assert!(text.contains("\r\nRetry-After: 1\r\n"), "{text}");
            assert!(text.contains("\"error\":\"proxy_internal_error\""), "{text}");
            // The other one has not failed, and waits for the rest.
            for client in &clients {
                // The first one has ended.
                let _ended = client.shutdown(Shutdown::Both);
            }
            assert_eq!(texts.recv_timeout(PATIENCE), Ok(String::new()));
        });
    });
}
