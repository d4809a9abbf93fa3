//! The proxy between a client and a scripted server, over real sockets.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

use jissoku_gateway::{Gateway, Target, Timeouts};
use jissoku_os::driver::Backend;
use jissoku_server::{RunningServer, Server, Settings};

/// Longer than anything here takes; it turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(30);

/// The server's side of one connection.
struct Upstream {
    stream: TcpStream,
}

impl Upstream {
    /// Reads a request without a body and returns it.
    fn request(&mut self) -> String {
        read_until(&mut self.stream, |text| text.ends_with("\r\n\r\n"))
    }

    fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).expect("room to send");
    }
}

fn read_until(stream: &mut TcpStream, is_enough: impl Fn(&str) -> bool) -> String {
    let mut text = String::new();
    while !is_enough(&text) {
        let mut byte = [0];
        // As opposed to `read`, this goes on after a signal, which the end of a ring sends.
        let outcome = stream.read_exact(&mut byte);
        assert!(outcome.is_ok(), "{outcome:?} after {text:?}");
        text.push(char::from(byte[0]));
    }
    text
}

/// A proxy, and a client of it.
struct Scene {
    client: TcpStream,
    address: String,
    _proxy: RunningServer,
}

impl Scene {
    fn new(target: &str, backend: Backend, timeouts: Timeouts) -> Self {
        let target: Target = target.parse().expect("an address");
        let mut settings = Settings::new("127.0.0.1:0".parse().expect("an address"));
        settings.driver.backend = backend;
        let server = Server::listen(settings).expect("a place to listen");
        let address = server.endpoints()[0].to_string();
        let proxy = server.start(Gateway::new(target, timeouts, false)).expect("workers start");
        let client = TcpStream::connect(&address).expect("it listens");
        client.set_read_timeout(Some(PATIENCE)).expect("a socket has options");
        Self { client, address, _proxy: proxy }
    }

    fn send(&mut self, text: &str) {
        self.client.write_all(text.as_bytes()).expect("room to send");
    }

    fn get(&mut self, method: &str) {
        self.send(&format!("{method} / HTTP/1.1\r\nHost: h\r\n\r\n"));
    }

    /// The status of a response with a body of `size` bytes, and that body.
    fn response(&mut self, size: usize) -> (String, String) {
        let head = read_until(&mut self.client, |text| text.ends_with("\r\n\r\n"));
        let body = read_until(&mut self.client, |text| text.len() == size);
        (head[9..12].to_owned(), body)
    }

    fn rest(&mut self) -> String {
        let mut bytes = Vec::new();
        self.client.read_to_end(&mut bytes).expect("it ends in order");
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Plays `scene` with every driver. `upstream` gets the connections of a server.
fn play(upstream: fn(&mut dyn FnMut() -> Upstream), scene: fn(&mut Scene)) {
    for backend in [Backend::Epoll, Backend::Uring] {
        if backend == Backend::Uring && !jissoku_os::uring::is_available() {
            continue;
        }
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it has an address");
        let server: JoinHandle<()> = std::thread::spawn(move || {
            upstream(&mut || {
                let (stream, _) = listener.accept().expect("the proxy connects");
                stream.set_read_timeout(Some(PATIENCE)).expect("a socket has options");
                Upstream { stream }
            });
        });
        let target = format!("http://{address}");
        scene(&mut Scene::new(&target, backend, Timeouts::DEFAULT));
        server.join().expect("the script is played to its end");
    }
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[test]
fn requests_share_a_connection_to_the_server() {
    play(
        |accept| {
            let mut server = accept();
            for _ in 0..3 {
                let request = server.request();
                assert!(request.starts_with("GET / HTTP/1.1\r\nHost: h\r\n"), "{request}");
                assert!(request.contains("\r\nX-Forwarded-For: 127.0.0.1\r\n"), "{request}");
                server.send(OK);
            }
        },
        |scene| {
            for _ in 0..3 {
                scene.get("GET");
                assert_eq!(scene.response(2), ("200".to_owned(), "ok".to_owned()));
            }
        },
    );
}

#[test]
fn a_kept_connection_that_was_closed_is_replaced_without_notice() {
    play(
        |accept| {
            let mut server = accept();
            server.request();
            server.send(OK);
            // The second request is read and not answered.
            server.request();
            drop(server);
            let mut server = accept();
            assert!(server.request().starts_with("GET / "));
            server.send(OK);
        },
        |scene| {
            for _ in 0..2 {
                scene.get("GET");
                assert_eq!(scene.response(2).0, "200");
            }
        },
    );
}

#[test]
fn a_post_is_never_sent_twice() {
    play(
        |accept| {
            let mut server = accept();
            server.request();
            server.send(OK);
            server.request();
            drop(server);
            // The next connection is for the next request.
            let mut server = accept();
            assert!(server.request().starts_with("GET / "));
            server.send(OK);
        },
        |scene| {
            scene.get("GET");
            assert_eq!(scene.response(2).0, "200");
            scene.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n");
            assert_eq!(scene.response("Bad Gateway\n".len()).0, "502");
            scene.get("GET");
            assert_eq!(scene.response(2).0, "200");
        },
    );
}

#[test]
fn an_incomplete_response_stays_incomplete() {
    play(
        |accept| {
            let mut server = accept();
            server.request();
            server.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n");
            server.stream.shutdown(Shutdown::Both).expect("it is open");
        },
        |scene| {
            scene.get("GET");
            let rest = scene.rest();
            assert!(rest.ends_with("\r\n\r\n2\r\nok\r\n"), "{rest:?}");
        },
    );
}

#[test]
fn a_body_that_ends_with_its_connection_is_chunked() {
    play(
        |accept| {
            let mut server = accept();
            server.request();
            server.send("HTTP/1.0 200 OK\r\n\r\nok");
            drop(server);
            let mut server = accept();
            server.request();
            server.send(OK);
        },
        |scene| {
            scene.get("GET");
            let (status, body) = scene.response("2\r\nok\r\n0\r\n\r\n".len());
            assert_eq!((status.as_str(), body.as_str()), ("200", "2\r\nok\r\n0\r\n\r\n"));
            scene.get("GET");
            assert_eq!(scene.response(2).0, "200");
        },
    );
}

#[test]
fn hints_come_before_the_response() {
    play(
        |accept| {
            let mut server = accept();
            server.request();
            server.send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
            // The rest follows when the client has the hints, and has gone.
            let mut end = [0];
            assert!(server.stream.read_exact(&mut end).is_err(), "there is another request");
        },
        |scene| {
            scene.get("GET");
            let hints = read_until(&mut scene.client, |text| text.ends_with("\r\n\r\n"));
            assert_eq!(hints, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
            // A reset, because a client that only shuts down its side still waits.
            let client = scene.client.try_clone().expect("a descriptor");
            jissoku_os::socket::set_linger_zero(&client).expect("a socket has options");
            drop(client);
            scene.client = TcpStream::connect(&scene.address).expect("it listens");
        },
    );
}

#[test]
fn what_is_no_response_is_a_502() {
    play(
        |accept| {
            for text in ["HTTP/2 200 OK\r\n\r\n", "HTTP/1.1 101 No\r\nUpgrade: x\r\n\r\n", ""] {
                let mut server = accept();
                server.request();
                server.send(text);
            }
        },
        |scene| {
            for _ in 0..3 {
                scene.get("GET");
                assert_eq!(scene.response("Bad Gateway\n".len()).0, "502");
            }
        },
    );
}

#[test]
fn a_server_that_is_not_there_is_a_502_and_one_that_is_late_a_504() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it has an address");
    let timeouts = Timeouts { head_ns: 1_000_000, ..Timeouts::DEFAULT };
    let target = format!("http://{address}");
    let mut late = Scene::new(&target, Backend::Epoll, timeouts);
    late.get("GET");
    assert_eq!(late.response("Gateway Timeout\n".len()).0, "504");
    drop(listener);
    let mut none = Scene::new(&target, Backend::Epoll, Timeouts::DEFAULT);
    none.get("HEAD");
    assert_eq!(none.response(0).0, "502");
    let mut none = Scene::new("unix:/nowhere/at/all", Backend::Epoll, Timeouts::DEFAULT);
    none.get("GET");
    assert_eq!(none.response("Bad Gateway\n".len()).0, "502");
}
