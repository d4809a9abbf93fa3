//! The proxy in front of a server of the uwsgi protocol, over TCP and Unix sockets.

use std::fmt::Debug;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

use jissoku_http::Limits;
use jissoku_http::uwsgi;
use jissoku_os::socket::set_linger_zero;

use crate::scene::{LARGE, OK, PATIENCE, Scene, accept, backends, listen, play_at};

trait Stream: Read + Write + Debug {
    /// Closes the connection with a reset, if it is one of TCP.
    fn reset(self: Box<Self>);
}

impl Stream for TcpStream {
    fn reset(self: Box<Self>) {
        set_linger_zero(&*self).expect("a socket has options");
    }
}

impl Stream for UnixStream {
    fn reset(self: Box<Self>) {}
}

/// The server's side of one connection.
struct Upstream(Box<dyn Stream>);

impl Upstream {
    /// Reads a packet, and returns its variables as lines.
    fn request(&mut self) -> Vec<String> {
        let mut bytes = vec![0; 4];
        self.0.read_exact(&mut bytes).expect("a packet");
        let size = usize::from(u16::from_le_bytes([bytes[1], bytes[2]]));
        bytes.resize(4 + size, 0);
        self.0.read_exact(&mut bytes[4..]).expect("its variables");
        let packet = uwsgi::read(&bytes, &Limits::DEFAULT).expect("valid").expect("complete");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        packet.variables.iter().map(|(name, value)| text(name) + "=" + &text(value)).collect()
    }

    fn send(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).expect("room to send");
    }

    /// Receives until the proxy closes the connection.
    fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        // A reset ends it as well.
        let _error = self.0.read_to_end(&mut rest);
        rest
    }
}

/// A socket file that is removed at the end.
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _error = std::fs::remove_file(&self.0);
    }
}

/// Plays `scene` with every driver, over TCP and Unix sockets. `upstream` gets the connections of a
/// server.
fn play(name: &str, upstream: fn(&mut dyn FnMut() -> Upstream), scene: impl Fn(&mut Scene)) {
    for backend in backends() {
        let (listener, address) = listen();
        let over_tcp = move || Upstream(Box::new(accept(&listener)));
        play_at(&format!("uwsgi://{address}"), backend, over_tcp, upstream, &scene);

        let file = format!("jissoku-{}-{name}-{backend:?}", std::process::id());
        let file = SocketFile(std::env::temp_dir().join(file));
        let listener = UnixListener::bind(&file.0).expect("a name is free");
        let over_unix = move || {
            let (stream, _) = listener.accept().expect("the proxy connects");
            stream.set_read_timeout(Some(PATIENCE)).expect("a socket has options");
            Upstream(Box::new(stream))
        };
        let target = format!("uwsgi+unix:{}", file.0.display());
        play_at(&target, backend, over_unix, upstream, &scene);
    }
}

#[test]
fn each_request_has_a_connection_of_its_own() {
    play(
        "own",
        |accept| {
            for path in ["/a", "/b"] {
                let mut server = accept();
                let lines = server.request();
                for line in [
                    &format!("PATH_INFO={path}"),
                    "REMOTE_ADDR=127.0.0.1",
                    "HTTP_X_FORWARDED_FOR=127.0.0.1",
                    "HTTP_VIA=1.1 jissoku",
                    "CONTENT_LENGTH=",
                ] {
                    assert!(lines.iter().any(|other| other == line), "{line} in {lines:?}");
                }
                let sent = ["HTTP_CONNECTION", "HTTP_X_Y", "HTTP_TE"];
                assert!(!lines.iter().any(|line| sent.iter().any(|name| line.starts_with(name))));
                server.send(OK);
                // The server would keep the connection; the proxy does not.
                assert_eq!(server.rest(), b"");
            }
        },
        |scene| {
            for path in ["/a", "/b"] {
                scene.send(&format!(
                    "GET {path} HTTP/1.1\r\nHost: h\r\nX_Y: 1\r\nTE: trailers\r\n\r\n"
                ));
                assert_eq!(scene.response(2), ("200".to_owned(), "ok".to_owned()));
            }
        },
    );
}

#[test]
fn a_response_ends_with_its_connection() {
    play(
        "end",
        |accept| {
            for text in ["HTTP/1.0 200 OK\r\n\r\nok", "HTTP/1.1 200 OK\r\n\r\nok"] {
                let mut server = accept();
                server.request();
                server.send(text);
            }
            let mut server = accept();
            server.request();
            // A body in response to HEAD is no response to the next request.
            server.send(OK);
            drop(server);
            let mut server = accept();
            server.request();
            server.send(OK);
        },
        |scene| {
            for _ in 0..2 {
                scene.get("GET");
                let body = "2\r\nok\r\n0\r\n\r\n";
                assert_eq!(scene.response(body.len()), ("200".to_owned(), body.to_owned()));
            }
            scene.get("HEAD");
            assert!(scene.head().contains("\r\nContent-Length: 2\r\n"));
            scene.get("GET");
            assert_eq!(scene.response(2).0, "200");
        },
    );
}

#[test]
fn nothing_is_sent_twice_to_a_server_that_does_not_respond() {
    play(
        "twice",
        |accept| {
            for method in ["POST", "GET"] {
                let mut server = accept();
                let lines = server.request();
                assert!(lines.contains(&format!("REQUEST_METHOD={method}")), "{lines:?}");
                server.0.reset();
            }
            let mut server = accept();
            assert!(server.request().contains(&"PATH_INFO=/next".to_owned()));
            server.send(OK);
        },
        |scene| {
            for method in ["POST", "GET"] {
                scene.send(&format!("{method} / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"));
                assert_eq!(scene.response("Bad Gateway\n".len()).0, "502");
            }
            scene.send("GET /next HTTP/1.1\r\nHost: h\r\n\r\n");
            assert_eq!(scene.response(2).0, "200");
        },
    );
}

#[test]
fn an_incomplete_response_stays_incomplete() {
    play(
        "incomplete",
        |accept| {
            let mut server = accept();
            server.request();
            server.send("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok");
        },
        |scene| {
            scene.get("GET");
            let rest = scene.rest();
            assert!(rest.contains("\r\nContent-Length: 3\r\n") && rest.ends_with("\r\n\r\nok"));
        },
    );
}

#[test]
fn a_chunked_body_is_collected_or_its_length_required() {
    play(
        "chunked",
        |accept| {
            let mut server = accept();
            let lines = server.request();
            assert!(lines.contains(&"CONTENT_LENGTH=1000000".to_owned()), "{lines:?}");
            assert!(!lines.iter().any(|line| line.starts_with("HTTP_TRANSFER_ENCODING")));
            assert!(!lines.iter().any(|line| line.starts_with("HTTP_EXPECT")));
            let mut body = vec![0; 1_000_000];
            server.0.read_exact(&mut body).expect("the body");
            assert!(body.iter().all(|&byte| byte == b'x'));
            server.send(OK);
        },
        |scene| {
            let head = "PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n";
            scene.send(&format!("{head}Expect: 100-continue\r\n\r\n"));
            assert_eq!(scene.head(), "HTTP/1.1 100 Continue\r\n\r\n");
            scene.send(&format!("f4240\r\n{}\r\n0\r\n\r\n", "x".repeat(1_000_000)));
            assert_eq!(scene.response(2).0, "200");
            scene.send(&format!("{head}\r\n100001\r\n{}", "x".repeat(1_048_577)));
            let rest = scene.rest();
            assert!(rest.starts_with("HTTP/1.1 411 Length Required\r\n"), "{rest}");
            assert!(rest.contains("\r\nConnection: close\r\n"), "{rest}");
        },
    );
}

#[test]
fn a_large_body_is_forwarded_as_it_comes_and_back() {
    play(
        "large",
        |accept| {
            let mut server = accept();
            let lines = server.request();
            assert!(lines.contains(&format!("CONTENT_LENGTH={LARGE}")), "{lines:?}");
            assert!(!lines.iter().any(|line| line.starts_with("HTTP_EXPECT")));
            // The response begins before the body has come, and ends with the connection.
            server.send("HTTP/1.0 200 OK\r\nConnection: close\r\n\r\n");
            let mut left = LARGE;
            while left > 0 {
                let mut part = vec![0; left.min(65_536)];
                server.0.read_exact(&mut part).expect("the body comes");
                server.0.write_all(&part).expect("the client reads");
                left -= part.len();
            }
        },
        |scene| {
            scene.send(&format!(
                "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: {LARGE}\r\nConnection: close\r\n\
                 Expect: 100-continue\r\n\r\n"
            ));
            assert_eq!(scene.head(), "HTTP/1.1 100 Continue\r\n\r\n");
            let mut sender = scene.client.try_clone().expect("a descriptor");
            let uploading = std::thread::spawn(move || {
                sender.write_all(&vec![b'x'; LARGE]).expect("room to send");
            });
            assert!(scene.head().starts_with("HTTP/1.1 200 OK\r\n"));
            let rest = scene.rest();
            uploading.join().expect("everything is sent");
            assert_eq!(rest.bytes().filter(|&byte| byte == b'x').count(), LARGE);
            assert!(rest.ends_with("\r\n0\r\n\r\n"));
        },
    );
}

#[test]
fn a_refusal_during_an_upload_is_passed_on() {
    play(
        "refusal",
        |accept| {
            let mut server = accept();
            server.request();
            server.send("HTTP/1.1 413 No\r\nContent-Length: 2\r\n\r\nno");
            assert!(server.rest().len() < LARGE);
        },
        |scene| {
            scene.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 16777216\r\n\r\nstart");
            let rest = scene.rest();
            assert!(rest.starts_with("HTTP/1.1 413 No\r\n"), "{rest}");
            assert!(rest.contains("\r\nConnection: close\r\n"), "{rest}");
        },
    );
}

#[test]
fn a_server_can_switch_to_websocket() {
    play(
        "tunnel",
        |accept| {
            let mut server = accept();
            let lines = server.request();
            for line in ["HTTP_UPGRADE=websocket", "HTTP_CONNECTION=Upgrade"] {
                assert!(lines.iter().any(|other| other == line), "{line} in {lines:?}");
            }
            server
                .send("HTTP/1.1 101 Go\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nhello");
            assert_eq!(server.rest(), b"bye");
        },
        |scene| {
            scene.send(
                "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
            );
            assert_eq!(scene.response(5), ("101".to_owned(), "hello".to_owned()));
            scene.send("bye");
            scene.client.shutdown(std::net::Shutdown::Write).expect("it is open");
            assert_eq!(scene.rest(), "");
        },
    );
}
