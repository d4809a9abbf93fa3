//! A minimal client: a closed loop that measures the size of one response and then counts bytes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use jissoku_os::clock;
use jissoku_os::epoll::{self, Epoll, Interest};
use jissoku_os::socket::{self, Endpoint, Received};

const EVENTS: usize = 512;
const BUFFER_SIZE: usize = 256 * 1024;

/// Timeout of the first connection and response.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The clock is read once in this many iterations.
const CLOCK_READ_INTERVAL: u32 = 16;

/// What to load, and how.
#[derive(Clone, Debug)]
pub struct Load {
    /// The server.
    pub endpoint: Endpoint,
    /// The value of the Host field.
    pub authority: String,
    /// Path and query.
    pub request_target: String,
    /// Connections.
    pub connections: usize,
    /// Requests in flight on each connection.
    pub pipeline: usize,
    /// Load before the window, not counted, in nanoseconds.
    pub warmup_ns: u64,
    /// Length of the window, in nanoseconds.
    pub duration_ns: u64,
}

/// What was counted in the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadResult {
    /// Responses, as received bytes divided by the response size.
    pub requests: u64,
    /// Length of the window, in nanoseconds.
    pub duration_ns: u64,
    /// CPU time of the client's thread in the window, in nanoseconds.
    pub cpu_ns: u64,
    /// Size of one response, in bytes.
    pub response_size: usize,
}

impl LoadResult {
    /// Responses per second.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "counts and nanoseconds stay below 2^53 for months"
    )]
    pub fn rate_rps(&self) -> f64 {
        self.requests as f64 / (self.duration_ns.max(1) as f64) * 1e9
    }

    /// CPU time per response, in microseconds.
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
    /// Bytes of the pipelined responses that have not been received yet.
    missing: usize,
}

/// Loads a server until the window is over or `interrupt` becomes readable.
///
/// # Errors
/// `ConnectionRefused` and the like at the start; `InvalidData` if the first response has no
/// Content-Length; `UnexpectedEof` if the server closes a connection.
pub fn load(plan: &Load, interrupt: BorrowedFd<'_>) -> io::Result<LoadResult> {
    let Load { authority, request_target, .. } = plan;
    let request =
        format!("GET {request_target} HTTP/1.1\r\nHost: {authority}\r\n\r\n").into_bytes();
    let response_size = measure_response_size(&plan.endpoint, &request)?;
    let batch = request.repeat(plan.pipeline);
    let epoll = Epoll::new()?;
    epoll.add(interrupt, u64::MAX, Interest::IN)?;
    let mut connections = Vec::new();
    for number in 0..plan.connections {
        let socket = connect(&plan.endpoint)?;
        epoll.add(&socket, number as u64, Interest::IN)?;
        send_all(&socket, &batch)?;
        connections.push(Connection { socket, missing: response_size * plan.pipeline });
    }
    let mut window = Window::new(plan);
    let mut events = [epoll::no_event(); EVENTS];
    let mut buffer = vec![0; BUFFER_SIZE];
    let mut received = 0;
    for iteration in 0_u32.. {
        let count = epoll.wait(&mut events, None)?;
        for event in &events[..count] {
            let number = usize::try_from(event.data.u64()).unwrap_or(usize::MAX);
            let Some(connection) = connections.get_mut(number) else {
                return Ok(window.close(received, response_size));
            };
            let Received::Bytes(size) = socket::receive(&connection.socket, &mut buffer)? else {
                return Err(io::ErrorKind::UnexpectedEof.into());
            };
            received += size as u64;
            connection.missing = connection.missing.saturating_sub(size);
            if connection.missing == 0 {
                connection.missing = response_size * plan.pipeline;
                send_all(&connection.socket, &batch)?;
            }
        }
        if iteration % CLOCK_READ_INTERVAL == 0 && window.is_over(received) {
            break;
        }
    }
    Ok(window.close(received, response_size))
}

/// The measurement window.
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

    /// Opens the window when its time has come, and returns whether it is over.
    fn is_over(&mut self, received: u64) -> bool {
        let now_ns = clock::monotonic_ns();
        if !self.is_open && now_ns >= self.open_ns {
            (self.is_open, self.open_ns, self.received) = (true, now_ns, received);
            (self.close_ns, self.cpu_ns) = (now_ns + self.duration_ns, clock::thread_cpu_ns());
        }
        now_ns >= self.close_ns
    }

    fn close(&self, received: u64, response_size: usize) -> LoadResult {
        LoadResult {
            requests: (received - self.received) / response_size as u64,
            duration_ns: clock::monotonic_ns().saturating_sub(self.open_ns),
            cpu_ns: clock::thread_cpu_ns() - self.cpu_ns,
            response_size,
        }
    }
}

fn connect(endpoint: &Endpoint) -> io::Result<OwnedFd> {
    let socket = socket::connect(endpoint)?;
    wait_for(&socket, Interest::OUT)?;
    socket::take_error(&socket)?;
    Ok(socket)
}

fn send_all(socket: &OwnedFd, bytes: &[u8]) -> io::Result<()> {
    let mut sent = 0;
    while sent < bytes.len() {
        match socket::send(socket, &bytes[sent..])? {
            0 => wait_for(socket, Interest::OUT)?,
            count => sent += count,
        }
    }
    Ok(())
}

/// Sends one request and returns the size of the response.
fn measure_response_size(endpoint: &Endpoint, request: &[u8]) -> io::Result<usize> {
    let socket = connect(endpoint)?;
    send_all(&socket, request)?;
    let (mut response, mut buffer) = (Vec::new(), vec![0; BUFFER_SIZE]);
    loop {
        wait_for(&socket, Interest::IN)?;
        match socket::receive(&socket, &mut buffer)? {
            Received::Bytes(count) => response.extend_from_slice(&buffer[..count]),
            Received::NotYet => continue,
            Received::End => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
        if let Some(end) = response.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&response[..end]).to_ascii_lowercase();
            let field = head.lines().find_map(|line| line.strip_prefix("content-length:"));
            let length = field.and_then(|value| value.trim().parse::<usize>().ok());
            let unknown =
                || io::Error::new(io::ErrorKind::InvalidData, "the response has no Content-Length");
            let size = end + 4 + length.ok_or_else(unknown)?;
            if response.len() >= size {
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
        // A wait may return early: the kernel's clean-up of a former io_uring of this thread
        // interrupts it.
        let spent = Duration::from_nanos(clock::monotonic_ns() - start_ns);
        let Some(left) = CONNECT_TIMEOUT.checked_sub(spent) else {
            return Err(io::ErrorKind::TimedOut.into());
        };
        if epoll.wait(&mut [epoll::no_event()], Some(left))? > 0 {
            return Ok(());
        }
    }
}
