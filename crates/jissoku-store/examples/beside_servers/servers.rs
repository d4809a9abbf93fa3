//! memcached and Redis as children of this program, asked over a Unix socket in their protocols.
//!
//! The client does little: requests are written with one call, and of the responses the lines are
//! counted, so that its CPU time is mostly that of the kernel.

use std::error::Error;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::{Work, key_of};

/// How often a server is asked whether it listens, and how long is waited between.
const TRIES: usize = 500;
const PAUSE: Duration = Duration::from_millis(10);

/// A server that does not answer has failed.
const PATIENCE: Duration = Duration::from_secs(10);

/// What follows the key of a write, with a value of `VALUE_SIZE` bytes.
const SET_VALUE: &[u8] = b" 0 0 100\r\n\
    xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n";
const REDIS_VALUE: &[u8] = b"\r\n$100\r\n\
    xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Memcached,
    Redis,
}

impl Protocol {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Memcached => "memcached",
            Self::Redis => "redis",
        }
    }

    /// The command that starts it, without persistence and with one thread for clients.
    fn command(self, socket: &Path) -> Command {
        match self {
            Self::Memcached => {
                let mut command = Command::new("memcached");
                // Without `-u` it does not start as root.
                command.args(["-u", "root", "-t", "1", "-m", "4096", "-s"]).arg(socket);
                command
            }
            Self::Redis => {
                let mut command = Command::new("redis-server");
                command.args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"]);
                command.arg(socket);
                command
            }
        }
    }

    /// Appends the requests of a batch, and returns the lines of their responses.
    fn write(self, work: Work, numbers: &[u32], out: &mut Vec<u8>) -> usize {
        let count = numbers.len();
        let is_one = count == 1;
        let (start, before, after, end, lines): (&[u8], &[u8], &[u8], &[u8], usize) =
            match (self, work) {
                (Self::Memcached, Work::Get) => (b"get", b" ", b"", b"\r\n", 2 * count + 1),
                (Self::Memcached, Work::Increment) => (b"", b"incr ", b" 1\r\n", b"", count),
                (Self::Memcached, Work::Put) => (b"", b"set ", SET_VALUE, b"", count),
                (Self::Memcached, Work::Begin) => (b"", b"set ", b" 0 0 1\r\n0\r\n", b"", count),
                (Self::Redis, Work::Get) if is_one => {
                    (b"*2\r\n$3\r\nGET\r\n", b"$16\r\n", b"\r\n", b"", 2)
                }
                (Self::Redis, Work::Get) => {
                    out.extend_from_slice(format!("*{}\r\n", count + 1).as_bytes());
                    (b"$4\r\nMGET\r\n", b"$16\r\n", b"\r\n", b"", 2 * count + 1)
                }
                (Self::Redis, Work::Increment) => {
                    (b"", b"*2\r\n$4\r\nINCR\r\n$16\r\n", b"\r\n", b"", count)
                }
                (Self::Redis, Work::Put) => {
                    (b"", b"*3\r\n$3\r\nSET\r\n$16\r\n", REDIS_VALUE, b"", count)
                }
                (Self::Redis, Work::Begin) => {
                    (b"", b"*3\r\n$3\r\nSET\r\n$16\r\n", b"\r\n$1\r\n0\r\n", b"", count)
                }
            };
        out.extend_from_slice(start);
        for &number in numbers {
            for part in [before, &key_of(work.prefix(), number), after] {
                out.extend_from_slice(part);
            }
        }
        out.extend_from_slice(end);
        lines
    }

    /// Whether the first byte of a response is that of a success.
    const fn is_success(self, first: u8) -> bool {
        match self {
            Self::Memcached => matches!(first, b'V' | b'S' | b'0'..=b'9'),
            Self::Redis => matches!(first, b'+' | b'$' | b':' | b'*'),
        }
    }
}

/// A server with a connection to it; it ends with this.
#[derive(Debug)]
pub(crate) struct Server {
    protocol: Protocol,
    child: Child,
    connection: UnixStream,
    request: Vec<u8>,
    response: Vec<u8>,
}

impl Server {
    /// Starts a server whose socket is in `folder`.
    pub(crate) fn start(protocol: Protocol, folder: &Path) -> Result<Self, Box<dyn Error>> {
        let socket = folder.join(format!("{}.sock", protocol.name()));
        let mut command = protocol.command(&socket);
        let mut child = command.stdout(Stdio::null()).stdin(Stdio::null()).spawn()?;
        let connection = match connect(&socket) {
            Ok(connection) => connection,
            Err(error) => {
                child.kill()?;
                child.wait()?;
                return Err(error.into());
            }
        };
        connection.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { protocol, child, connection, request: Vec::new(), response: vec![0; 65_536] })
    }

    pub(crate) const fn protocol(&self) -> Protocol {
        self.protocol
    }

    pub(crate) fn process(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap_or(0)
    }

    /// Sends the requests of a batch, and waits for their responses.
    pub(crate) fn exchange(&mut self, work: Work, numbers: &[u32]) -> Result<(), Box<dyn Error>> {
        self.request.clear();
        let mut lines = self.protocol.write(work, numbers, &mut self.request);
        self.connection.write_all(&self.request)?;
        let mut is_first = true;
        while lines > 0 {
            let size = self.connection.read(&mut self.response)?;
            let received = &self.response[..size];
            let Some(&first) = received.first() else { return Err("the server has ended".into()) };
            if std::mem::take(&mut is_first) && !self.protocol.is_success(first) {
                return Err(String::from_utf8_lossy(received).into());
            }
            let found = received.iter().map(|&byte| usize::from(byte == b'\n')).sum();
            lines = lines.checked_sub(found).ok_or("there are more lines than expected")?;
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

fn connect(socket: &Path) -> io::Result<UnixStream> {
    let mut tries = 1..TRIES;
    loop {
        match UnixStream::connect(socket) {
            Err(_) if tries.next().is_some() => thread::park_timeout(PAUSE),
            connected => return connected,
        }
    }
}
