//! The least client: a closed loop that learns how long one answer is and then counts bytes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use jissoku_os::clock;
use jissoku_os::epoll::{self, Epoll, Interest};
use jissoku_os::socket::{self, Endpoint, Received};

const EVENTS: usize = 512;
const BUFFER_SIZE: usize = 256 * 1024;

/// A server that has not answered the first request by then is not there.
const PATIENCE: Duration = Duration::from_secs(5);

/// The clock is read once in so many wake-ups.
const LOOK_EVERY: u32 = 16;

/// What is asked.
#[derive(Clone, Debug)]
pub struct Load {
    /// Of whom.
    pub endpoint: Endpoint,
    /// The value of the Host field.
    pub authority: String,
    /// Path and query.
    pub target: String,
    /// Connections.
    pub connections: usize,
    /// Requests in flight on each.
    pub pipeline: usize,
    /// Load that counts for nothing, before the window.
    pub warmup_ns: u64,
    /// Length of the window.
    pub duration_ns: u64,
}

/// What was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// Answers' worth of bytes.
    pub requests: u64,
    /// Length of the window.
    pub duration_ns: u64,
    /// CPU time of this thread in the window.
    pub cpu_ns: u64,
    /// Length of one answer.
    pub answer_size: usize,
}

impl Count {
    /// Answers per second.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "counts and nanoseconds stay below 2^53 for months"
    )]
    pub fn rate_rps(&self) -> f64 {
        self.requests as f64 / (self.duration_ns.max(1) as f64) * 1e9
    }

    /// CPU time per answer.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "counts and nanoseconds stay below 2^53 for months"
    )]
    pub fn cpu_us_per_request(&self) -> f64 {
        self.cpu_ns as f64 / (self.requests.max(1) as f64) / 1e3
    }
}

struct Connection {
    socket: OwnedFd,
    /// Bytes that are still missing of the answers under way.
    missing: usize,
}

/// Loads a server until the window is over, or `interrupt` becomes readable.
///
/// # Errors
/// `ConnectionRefused` and the like at the start; `InvalidData` when the first answer has no
/// Content-Length; `UnexpectedEof` when the server closes a connection.
pub fn load(plan: &Load, interrupt: BorrowedFd<'_>) -> io::Result<Count> {
    let Load { authority, target, .. } = plan;
    let request = format!("GET {target} HTTP/1.1\r\nHost: {authority}\r\n\r\n").into_bytes();
    let answer_size = learn(&plan.endpoint, &request)?;
    let batch = request.repeat(plan.pipeline);
    let epoll = Epoll::new()?;
    epoll.add(interrupt, u64::MAX, Interest::IN)?;
    let mut connections = Vec::new();
    for number in 0..plan.connections {
        let socket = dial(&plan.endpoint)?;
        epoll.add(&socket, number as u64, Interest::IN)?;
        ask(&socket, &batch)?;
        connections.push(Connection { socket, missing: answer_size * plan.pipeline });
    }
    let mut window = Window::new(plan);
    let mut events = [epoll::no_event(); EVENTS];
    let mut buffer = vec![0; BUFFER_SIZE];
    let mut received = 0;
    for turn in 0_u32.. {
        let count = epoll.wait(&mut events, None)?;
        for event in &events[..count] {
            let number = usize::try_from(event.data.u64()).unwrap_or(usize::MAX);
            let Some(connection) = connections.get_mut(number) else {
                return Ok(window.close(received, answer_size));
            };
            let Received::Bytes(size) = socket::receive(&connection.socket, &mut buffer)? else {
                return Err(io::ErrorKind::UnexpectedEof.into());
            };
            received += size as u64;
            connection.missing = connection.missing.saturating_sub(size);
            if connection.missing == 0 {
                connection.missing = answer_size * plan.pipeline;
                ask(&connection.socket, &batch)?;
            }
        }
        if turn % LOOK_EVERY == 0 && window.is_over(received) {
            break;
        }
    }
    Ok(window.close(received, answer_size))
}

/// The time in which bytes count.
struct Window {
    open_ns: u64,
    close_ns: u64,
    duration_ns: u64,
    cpu_ns: u64,
    received: u64,
    is_open: bool,
}

impl Window {
    fn new(plan: &Load) -> Self {
        let open_ns = clock::monotonic_ns() + plan.warmup_ns;
        let duration_ns = plan.duration_ns;
        let (cpu_ns, received) = (clock::thread_cpu_ns(), 0);
        Self { open_ns, close_ns: u64::MAX, duration_ns, cpu_ns, received, is_open: false }
    }

    /// Opens the window in time, and says when it is over.
    fn is_over(&mut self, received: u64) -> bool {
        let now_ns = clock::monotonic_ns();
        if !self.is_open && now_ns >= self.open_ns {
            (self.is_open, self.open_ns, self.received) = (true, now_ns, received);
            (self.close_ns, self.cpu_ns) = (now_ns + self.duration_ns, clock::thread_cpu_ns());
        }
        now_ns >= self.close_ns
    }

    fn close(&self, received: u64, answer_size: usize) -> Count {
        Count {
            requests: (received - self.received) / answer_size as u64,
            duration_ns: clock::monotonic_ns().saturating_sub(self.open_ns),
            cpu_ns: clock::thread_cpu_ns() - self.cpu_ns,
            answer_size,
        }
    }
}

fn dial(endpoint: &Endpoint) -> io::Result<OwnedFd> {
    let socket = socket::connect(endpoint)?;
    wait_for(&socket, Interest::OUT)?;
    socket::connect_outcome(&socket)?;
    Ok(socket)
}

fn ask(socket: &OwnedFd, bytes: &[u8]) -> io::Result<()> {
    let mut sent = 0;
    while sent < bytes.len() {
        match socket::send(socket, &bytes[sent..])? {
            0 => wait_for(socket, Interest::OUT)?,
            count => sent += count,
        }
    }
    Ok(())
}

/// Asks once and says how long the whole answer is.
fn learn(endpoint: &Endpoint, request: &[u8]) -> io::Result<usize> {
    let socket = dial(endpoint)?;
    ask(&socket, request)?;
    let (mut answer, mut buffer) = (Vec::new(), vec![0; BUFFER_SIZE]);
    loop {
        wait_for(&socket, Interest::IN)?;
        match socket::receive(&socket, &mut buffer)? {
            Received::Bytes(count) => answer.extend_from_slice(&buffer[..count]),
            Received::NotYet => continue,
            Received::End => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
        if let Some(end) = answer.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
            let field = head.lines().find_map(|line| line.strip_prefix("content-length:"));
            let length = field.and_then(|value| value.trim().parse::<usize>().ok());
            let unknown = || io::Error::new(io::ErrorKind::InvalidData, "it has no Content-Length");
            let size = end + 4 + length.ok_or_else(unknown)?;
            if answer.len() >= size {
                return Ok(size);
            }
        }
    }
}

fn wait_for(socket: &OwnedFd, interest: Interest) -> io::Result<()> {
    let epoll = Epoll::new()?;
    epoll.add(socket.as_fd(), 0, interest)?;
    let start_ns = clock::monotonic_ns();
    loop {
        // A wait may end early: a ring that this thread once had interrupts it while the kernel cleans up.
        let spent = Duration::from_nanos(clock::monotonic_ns() - start_ns);
        let Some(left) = PATIENCE.checked_sub(spent) else {
            return Err(io::ErrorKind::TimedOut.into());
        };
        if epoll.wait(&mut [epoll::no_event()], Some(left))? > 0 {
            return Ok(());
        }
    }
}
