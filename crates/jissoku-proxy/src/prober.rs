//! Active health checks: a thread for each upstream asks its servers; workers read the result.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use jissoku_http::uwsgi::{self, PacketOrigin};
use jissoku_os::clock;
use jissoku_os::socket::{self, Endpoint};
use jissoku_server::{TlsFailure, TlsOpening};

use crate::policy::configuration::HealthCheck;
use crate::policy::health::{Probe, Use};
use crate::policy::random::Random;
use crate::server_set::{ServerSet, UpstreamGroup};

/// A status line is not longer.
const STATUS_LINE_SIZE_MAX: usize = 1024;

/// Starts the checks of an upstream, if it has some. They end with the returned value, or when
/// another upstream replaces this one.
pub(crate) fn start(upstream: &Arc<UpstreamGroup>) -> io::Result<Option<Sender<()>>> {
    let Some(check) = upstream.options.policy.health.clone() else { return Ok(None) };
    let (stop, stopped) = channel();
    let upstream = Arc::clone(upstream);
    std::thread::Builder::new().name("health".to_owned()).spawn(move || {
        let mut random = Random::new(clock::monotonic_ns());
        let request = request(&check, &upstream);
        loop {
            let (version, set) = (upstream.version(), upstream.servers());
            let mut probes = starting(&set);
            while upstream.version() == version {
                probe_all((&upstream, &set), &mut probes, (&check, &request));
                let now_ns = clock::monotonic_ns();
                let pause_ns = Probe::next_ns(now_ns, &check.policy, &mut random) - now_ns;
                if is_stopped(&stopped, pause_ns) || upstream.is_replaced() {
                    return;
                }
            }
        }
    })?;
    Ok(Some(stop))
}

/// The probes of servers, which begin with what is known of them.
fn starting(set: &ServerSet) -> Vec<Probe> {
    let servers = set.fleet.servers().iter();
    servers.map(|server| Probe::starting(!server.state().is_probed_dead())).collect()
}

/// Waits; returns earlier if the other end is gone, and whether it is.
pub(crate) fn is_stopped(stopped: &Receiver<()>, pause_ns: u64) -> bool {
    let pause = stopped.recv_timeout(Duration::from_nanos(pause_ns));
    pause == Err(RecvTimeoutError::Disconnected)
}

/// Asks all servers at the same time, so that a late one delays no other.
fn probe_all(
    (upstream, set): (&UpstreamGroup, &ServerSet),
    probes: &mut [Probe],
    (check, request): (&HealthCheck, &[u8]),
) {
    std::thread::scope(|scope| {
        let addresses = set.endpoints.iter().zip(&set.tls_names);
        let servers = set.fleet.servers().iter().zip(addresses).zip(probes);
        for ((server, (endpoint, name)), probe) in servers {
            let tls = upstream.options.tls_with(name.as_ref());
            let asking = move || {
                let outcome = ask((endpoint, tls), check, request);
                let failure = outcome.as_ref().err().and_then(TlsFailure::of);
                if let Some(TlsFailure::Certificate(fault)) = failure {
                    let server = (&**endpoint, name.as_ref());
                    upstream.report_certificate(server, fault, clock::monotonic_ns());
                }
                let has_passed = matches!(outcome, Ok(Some(status)) if check.passes(status));
                let now_ns = clock::monotonic_ns();
                if let Some(is_up) = probe.observe(has_passed, &check.policy) {
                    server.state().set_probe(is_up, now_ns);
                }
                // After each check: what was not said, since there were too many changes, is said then.
                let is_dead = server.state().is_probed_dead() && !has_passed;
                if is_dead || server.state().present_use() == Use::Normal {
                    upstream.report_use(server, now_ns, || failed_checks(check, &outcome));
                }
            };
            // Without a thread, nothing is learnt about this server now.
            let _thread = std::thread::Builder::new().spawn_scoped(scope, asking);
        }
    });
}

/// What servers are asked.
fn request(check: &HealthCheck, upstream: &UpstreamGroup) -> Vec<u8> {
    let (path, host) = (&check.path, &upstream.host);
    let line = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: jissoku\r\n");
    if upstream.options.policy.protocol.is_http() {
        return (line + "Connection: close\r\n\r\n").into_bytes();
    }
    let mut packet = Vec::new();
    // A request with a path from the configuration is small.
    let _too_large =
        uwsgi::write(format!("{line}\r\n").as_bytes(), PacketOrigin::default(), &mut packet);
    packet
}

/// Why a server is not used, whose last check had this result.
fn failed_checks(check: &HealthCheck, outcome: &io::Result<Option<u16>>) -> String {
    let count = check.policy.fall;
    let checks = if count == 1 { "a check has".to_owned() } else { format!("{count} checks have") };
    let why = match outcome {
        Ok(Some(status)) => format!("status {status}"),
        Ok(None) => "the response is not HTTP".to_owned(),
        Err(error) if is_late(error) => "no response in time".to_owned(),
        Err(error) if error.raw_os_error().is_some() => error.kind().to_string(),
        Err(error) => error.to_string(),
    };
    format!("{checks} failed: {why}")
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
}

/// The status with which a server answers in time; `None` if that is not HTTP.
fn ask(
    server: (&Endpoint, Option<TlsOpening>),
    check: &HealthCheck,
    request: &[u8],
) -> io::Result<Option<u16>> {
    let (endpoint, tls) = server;
    let until_ns = clock::monotonic_ns() + check.time_ns;
    let time = Duration::from_nanos(check.time_ns);
    match endpoint {
        Endpoint::Tcp(address) => {
            let stream = TcpStream::connect_timeout(address, time)?;
            stream.set_write_timeout(Some(time))?;
            let limit = TcpStream::set_read_timeout;
            exchange(Limited { stream, limit, until_ns }, tls, request)
        }
        Endpoint::Unix(_) => {
            let stream = UnixStream::from(socket::connect(endpoint)?);
            stream.set_nonblocking(false)?;
            stream.set_write_timeout(Some(time))?;
            let limit = UnixStream::set_read_timeout;
            exchange(Limited { stream, limit, until_ns }, tls, request)
        }
    }
}

/// A stream of which nothing is read after a time.
struct Limited<S> {
    stream: S,
    limit: fn(&S, Option<Duration>) -> io::Result<()>,
    until_ns: u64,
}

impl<S: Read> Read for Limited<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left_ns = self.until_ns.saturating_sub(clock::monotonic_ns());
        if left_ns == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        (self.limit)(&self.stream, Some(Duration::from_nanos(left_ns)))?;
        self.stream.read(buffer)
    }
}

impl<S: Write> Write for Limited<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// The status of the response, if there is one.
fn exchange<S: Read + Write>(
    stream: Limited<S>,
    tls: Option<TlsOpening>,
    request: &[u8],
) -> io::Result<Option<u16>> {
    match tls {
        Some(TlsOpening { client, name }) => read_status(client.stream(&name, stream)?, request),
        None => read_status(stream, request),
    }
}

fn read_status(mut stream: impl Read + Write, request: &[u8]) -> io::Result<Option<u16>> {
    stream.write_all(request)?;
    let (mut line, mut part) = (Vec::new(), [0; 256]);
    while !line.contains(&b'\n') && line.len() < STATUS_LINE_SIZE_MAX {
        match stream.read(&mut part)? {
            0 => return Ok(None),
            count => line.extend_from_slice(&part[..count]),
        }
    }
    Ok(status_of(&line))
}

/// The status in the first line of a response.
fn status_of(response: &[u8]) -> Option<u16> {
    let is_http = response.starts_with(b"HTTP/1.1 ") || response.starts_with(b"HTTP/1.0 ");
    match response.get(9..13) {
        Some([digits @ .., b' ' | b'\r']) if is_http => {
            let is_number = digits.iter().all(u8::is_ascii_digit);
            is_number.then(|| str::from_utf8(digits).ok()?.parse().ok()).flatten()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_begins_with_its_status() {
        for (line, status) in
            [("HTTP/1.1 200 OK\r\n", 200), ("HTTP/1.0 204\r\n", 204), ("HTTP/1.1 503 No\r\n", 503)]
        {
            assert_eq!(status_of(line.as_bytes()), Some(status), "{line}");
        }
        for line in
            ["HTTP/2 200 OK\r\n", "", "HTTP/1.1 2000", "HTTP/1.1 +20 \r\n", "HTTP/1.1 2\r\n"]
        {
            assert_eq!(status_of(line.as_bytes()), None, "{line}");
        }
    }
}
