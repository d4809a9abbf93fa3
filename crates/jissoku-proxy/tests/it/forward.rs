//! The proxy in front of a server of HTTP.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use jissoku_os::driver::Backend;
use jissoku_proxy::Timeouts;

use crate::scene::{
    LARGE, OK, Scene, accept, backends, connect, listen, play_at, read_head, read_until,
};

/// The server's side of one connection.
struct Upstream {
    stream: TcpStream,
}

impl Upstream {
    /// Reads a request without a body and returns it.
    fn request(&mut self) -> String {
        read_head(&mut self.stream)
    }

    fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).expect("room to send");
    }
}

/// Plays `scene` with every driver. `upstream` gets the connections of a server.
fn play(upstream: fn(&mut dyn FnMut() -> Upstream), scene: impl Fn(&mut Scene)) {
    for backend in backends() {
        let (listener, address) = listen();
        let accept = move || Upstream { stream: accept(&listener) };
        play_at(&format!("http://{address}"), backend, accept, upstream, &scene);
    }
}

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
            let hints = scene.head();
            assert_eq!(hints, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
            // A reset, because a client that only shuts down its side still waits.
            let client = scene.client.try_clone().expect("a descriptor");
            jissoku_os::socket::set_linger_zero(&client).expect("a socket has options");
            drop(client);
            scene.client = connect(&scene.address);
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
    let (listener, address) = listen();
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

#[test]
fn a_large_body_is_forwarded_as_it_comes_and_back() {
    for framing in ["Content-Length: 16777216", "Transfer-Encoding: chunked"] {
        let head = format!("PUT / HTTP/1.1\r\nHost: h\r\n{framing}\r\n\r\n");
        let is_chunked = framing.ends_with("chunked");
        play(
            |accept| {
                let mut server = accept();
                let request = server.request();
                let is_chunked = request.contains("\r\nTransfer-Encoding: chunked\r\n");
                assert_ne!(is_chunked, request.contains("\r\nContent-Length: 16777216\r\n"));
                // The response begins before the body has come, and returns it.
                server.send("HTTP/1.1 200 OK\r\nContent-Length: 16777216\r\n\r\n");
                let mut left = LARGE;
                while left > 0 {
                    let size = if is_chunked { read_chunk_size(&mut server.stream) } else { left };
                    let mut part = vec![0; if is_chunked { size } else { size.min(65_536) }];
                    server.stream.read_exact(&mut part).expect("the body comes");
                    if is_chunked {
                        read_until(&mut server.stream, |text| text == "\r\n");
                    }
                    server.stream.write_all(&part).expect("the client reads");
                    left -= part.len();
                }
                if is_chunked {
                    read_until(&mut server.stream, |text| text == "0\r\n\r\n");
                }
                // The connection is used again.
                assert!(server.request().starts_with("GET / "));
                server.send(OK);
            },
            move |scene| {
                scene.send(&head);
                let mut sender = scene.client.try_clone().expect("a descriptor");
                let body: Vec<u8> = (0..=250).cycle().take(LARGE).collect();
                let sent = body.clone();
                let uploading = std::thread::spawn(move || {
                    for part in sent.chunks(if is_chunked { 99_999 } else { LARGE }) {
                        if is_chunked {
                            write!(sender, "{:x}\r\n", part.len()).expect("room to send");
                        }
                        sender.write_all(part).expect("room to send");
                        if is_chunked {
                            sender.write_all(b"\r\n").expect("room to send");
                        }
                    }
                    if is_chunked {
                        sender.write_all(b"0\r\n\r\n").expect("room to send");
                    }
                });
                scene.head();
                let mut received = vec![0; LARGE];
                scene.client.read_exact(&mut received).expect("the body comes back");
                uploading.join().expect("everything is sent");
                assert!(received == body, "the body is another one");
                scene.get("GET");
                assert_eq!(scene.response(2).0, "200");
            },
        );
    }
}

fn read_chunk_size(stream: &mut TcpStream) -> usize {
    let line = read_until(stream, |text| text.ends_with("\r\n"));
    usize::from_str_radix(line.trim_end(), 16).expect("a size")
}

#[test]
fn a_refusal_during_an_upload_is_passed_on() {
    play(
        |accept| {
            let mut server = accept();
            server.request();
            server.send("HTTP/1.1 413 No\r\nContent-Length: 2\r\n\r\nno");
            // The proxy gives up without an end of the body.
            let mut rest = Vec::new();
            let _reset = server.stream.read_to_end(&mut rest);
            assert!(rest.len() < LARGE);
        },
        |scene| {
            scene.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 16777216\r\n\r\nstart");
            let rest = scene.rest();
            assert!(rest.starts_with("HTTP/1.1 413 No\r\n"), "{rest}");
            assert!(rest.contains("\r\nConnection: close\r\n"), "{rest}");
            assert!(rest.ends_with("\r\n\r\nno"), "{rest}");
        },
    );
}

#[test]
fn the_server_asks_for_a_large_body() {
    play(
        |accept| {
            let mut server = accept();
            let request = server.request();
            assert!(request.contains("\r\nExpect: 100-continue\r\n"), "{request}");
            server.send("HTTP/1.1 100 Continue\r\n\r\n");
            let body = read_until(&mut server.stream, |text| text.len() == 100_000);
            assert!(body.bytes().all(|byte| byte == b'x'));
            server.send(OK);
        },
        |scene| {
            scene.send(
                "PUT / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 100000\r\n\r\n",
            );
            let interim = scene.head();
            assert_eq!(interim, "HTTP/1.1 100 Continue\r\n\r\n");
            scene.send(&"x".repeat(100_000));
            assert_eq!(scene.response(2).0, "200");
        },
    );
}

const ASK: &str = "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
const SWITCH: &str = "HTTP/1.1 101 Go\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";

#[test]
fn a_tunnel_ends_in_one_direction_after_the_other() {
    play(
        |accept| {
            // The client ends first, and then the server.
            let mut server = accept();
            assert!(server.request().contains("\r\nUpgrade: websocket\r\n"));
            server.send(&format!("{SWITCH}hello"));
            let mut received = String::new();
            server.stream.read_to_string(&mut received).expect("it ends in order");
            assert_eq!(received, "early late");
            server.send("bye");
            drop(server);
            // The server ends first.
            let mut server = accept();
            server.request();
            server.send(&format!("{SWITCH}hello"));
            server.stream.shutdown(Shutdown::Write).expect("it is open");
            let mut received = String::new();
            server.stream.read_to_string(&mut received).expect("it ends in order");
            assert_eq!(received, "after the end");
            let mut server = accept();
            server.request();
            server.send(OK);
        },
        |scene| {
            // What comes before the 101 waits.
            scene.send(&format!("{ASK}early"));
            let head = read_until(&mut scene.client, |text| text.ends_with("\r\n\r\nhello"));
            assert_eq!(head, format!("{SWITCH}hello"));
            scene.send(" late");
            scene.client.shutdown(Shutdown::Write).expect("it is open");
            assert_eq!(scene.rest(), "bye");
            scene.client = connect(&scene.address);
            scene.send(ASK);
            assert_eq!(scene.rest(), format!("{SWITCH}hello"));
            scene.send("after the end");
            scene.client.shutdown(Shutdown::Write).expect("it is open");
            // The proxy is needed until the server has read it.
            scene.client = connect(&scene.address);
            scene.get("GET");
            assert_eq!(scene.response(2).0, "200");
        },
    );
}

#[test]
fn a_tunnel_holds_a_sender_back_and_loses_nothing() {
    play(
        |accept| {
            let mut server = accept();
            server.request();
            server.send(SWITCH);
            let mut reader = server.stream.try_clone().expect("a descriptor");
            let echo = std::thread::spawn(move || {
                let mut received = Vec::new();
                reader.read_to_end(&mut received).expect("it ends in order");
                received
            });
            server.stream.write_all(&vec![b's'; LARGE]).expect("the client reads");
            let received = echo.join().expect("it reads");
            assert!(received == vec![b'c'; LARGE], "{} bytes came", received.len());
        },
        |scene| {
            scene.send(ASK);
            scene.head();
            let mut sender = scene.client.try_clone().expect("a descriptor");
            let sending = std::thread::spawn(move || {
                sender.write_all(&vec![b'c'; LARGE]).expect("the server reads");
                sender.shutdown(Shutdown::Write).expect("it is open");
            });
            let mut received = Vec::new();
            scene.client.read_to_end(&mut received).expect("it ends in order");
            assert!(received == vec![b's'; LARGE], "{} bytes came", received.len());
            sending.join().expect("everything is sent");
        },
    );
}

#[test]
fn a_stream_without_a_reader_is_cancelled() {
    play(
        |accept| {
            let mut server = accept();
            server.request();
            server.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n");
            let mut end = [0];
            assert_eq!(server.stream.read(&mut end).expect("it ends in order"), 0);
        },
        |scene| {
            scene.get("GET");
            scene.client.shutdown(Shutdown::Write).expect("it is open");
            let rest = scene.rest();
            assert!(rest.ends_with("\r\n\r\n2\r\nhi\r\n"), "{rest:?}");
        },
    );
}
