//! Signals to a server whose descriptors are exhausted: it says what it cannot do, and goes on.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Descriptors that the server may have.
const DESCRIPTORS: usize = 128;

/// Clients that come and go, and threads that have them do so.
const CLIENTS: usize = 400;
const CLIENT_THREADS: usize = 8;

/// Signals of each kind.
const ROUNDS: usize = 60;

/// How long a connection takes if the queue of the listener is full, and not just a busy machine.
const QUEUE_FULL_AFTER: Duration = Duration::from_millis(200);

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

struct Server {
    process: Child,
    output: BufReader<ChildStdout>,
    address: String,
}

impl Server {
    fn start() -> Self {
        let serve = "lab serve --contract --workers 2 --listen 127.0.0.1:0 --access-log /dev/null";
        let line = format!("ulimit -n {DESCRIPTORS}; exec \"$0\" {serve} 2>&1");
        let mut process = Command::new("sh")
            .args(["-c", &line, env!("CARGO_BIN_EXE_jissoku")])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let output = BufReader::new(process.stdout.take().expect("its output is piped"));
        let mut server = Self { process, output, address: String::new() };
        let line = server.line();
        line.split('/').nth(2).expect("an address").clone_into(&mut server.address);
        server
    }

    /// The next line that it says.
    fn line(&mut self) -> String {
        let mut line = String::new();
        let size = self.output.read_line(&mut line).expect("its output can be read");
        assert!(size > 0, "the server has ended: {:?}", self.process.try_wait());
        line
    }

    fn signal(&self, name: &str) {
        let pid = self.process.id().to_string();
        let sent = Command::new("kill").args([format!("-{name}"), pid]).status();
        assert!(sent.expect("kill runs").success(), "the server has ended");
    }

    /// Asks for a reload, and returns whether it was done.
    fn reload(&mut self) -> bool {
        self.signal("HUP");
        loop {
            let line = self.line();
            if line.contains("not reloaded") {
                return false;
            }
            if line.trim() == "reloaded" {
                return true;
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended, which a test has complained of.
        let _ended = self.process.kill();
        let _status = self.process.wait();
    }
}

/// Keeps its share of the clients connected, and replaces one after the other.
///
/// Connections that are not accepted fill the queue of the listener, also those of clients that have
/// left. The kernel does not answer further ones, and `connect` waits for two minutes. If all threads
/// waited, no client would leave, and the server would get no descriptor back: so the oldest one
/// leaves in that case, too.
fn connect_and_leave(address: &SocketAddr, is_over: &AtomicBool) {
    let mut clients = VecDeque::new();
    while !is_over.load(Ordering::Relaxed) {
        match TcpStream::connect_timeout(address, QUEUE_FULL_AFTER) {
            Ok(mut client) => {
                // Who is not taken yet has its request wait, too.
                let _sent = client.write(GET);
                clients.push_back(client);
            }
            Err(error) if error.kind() == ErrorKind::TimedOut => drop(clients.pop_front()),
            Err(_) => return,
        }
        if clients.len() > CLIENTS / CLIENT_THREADS {
            clients.pop_front();
        }
    }
}

#[test]
fn signals_do_not_end_a_server_without_descriptors() {
    let mut server = Server::start();
    let is_over = AtomicBool::new(false);
    let address = server.address.parse().expect("an address");
    thread::scope(|scope| {
        for _ in 0..CLIENT_THREADS {
            scope.spawn(|| connect_and_leave(&address, &is_over));
        }
        // On, until the clients have had the time to take all descriptors.
        let mut refused = 0;
        for round in 0..100 * ROUNDS {
            if round >= ROUNDS && refused > 0 {
                break;
            }
            server.signal("USR1");
            refused += usize::from(!server.reload());
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(refused > 0, "there was no shortage");
    });
    assert!((0..10_000).any(|_| server.reload()), "it has descriptors again");
    let mut client = TcpStream::connect(address).expect("it listens");
    client.set_read_timeout(Some(Duration::from_secs(30))).expect("a time");
    client.write_all(GET).expect("room to send");
    let mut answer = [0; 15];
    client.read_exact(&mut answer).expect("an answer comes");
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
}
