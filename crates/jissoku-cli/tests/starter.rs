//! A listener that `start_server` of `Server::Starter` has opened.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// It turns a hang into a failure.
const PATIENCE: Duration = Duration::from_mins(1);

/// Starts a server with a listener as descriptor 7, and `ports` as the variable that names it.
fn start(listener: TcpListener, ports: &str, arguments: &str) -> Child {
    let line = format!("exec 7<&0 </dev/null; exec \"$0\" serve {arguments} 2>&1");
    let command = ["-c", &line, env!("CARGO_BIN_EXE_jissoku")];
    let listener = Stdio::from(OwnedFd::from(listener));
    let mut shell = Command::new("sh");
    shell.args(command).env("SERVER_STARTER_PORT", ports).stdin(listener).stdout(Stdio::piped());
    shell.spawn().expect("the server starts")
}

#[test]
fn a_listener_of_a_starter_is_served() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    // It waits in the queue before there is a server.
    let mut client = TcpStream::connect(address).expect("it listens");
    client.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    client.write_all(b"GET / HTTP/1.0\r\n\r\n").expect("it is sent");
    let mut server = start(listener, &format!("{address}=7"), "--fixed x --workers 2");
    let mut response = String::new();
    client.read_to_string(&mut response).expect("a response");
    assert!(response.starts_with("HTTP/1.1 200 ") && response.ends_with("\r\n\r\nx"), "{response}");
    server.kill().expect("it was running");
    server.wait().expect("it ends");
}

#[test]
fn a_descriptor_that_is_not_open_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let server = start(listener, "127.0.0.1:80=9", "--fixed x");
    let ended = server.wait_with_output().expect("it ends");
    let said = String::from_utf8(ended.stdout).expect("text");
    assert!(said.contains("descriptor 9 of SERVER_STARTER_PORT: "), "{said}");
    assert_eq!(ended.status.code(), Some(2), "{said}");
}
