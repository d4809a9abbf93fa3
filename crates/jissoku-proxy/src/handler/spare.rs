//! Connections that are opened before a request needs them (`min-idle`), and the end of all idle ones
//! when the worker is to stop.

use std::io;
use std::iter::repeat_n;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use jissoku_os::socket::{self, Endpoint};
use jissoku_os::{clock, poll};

use super::GatewayHandler;

/// The time between two looks at how many connections are idle. A server that closes each at once, or
/// refuses them, is not asked more often.
const INTERVAL_NS: u64 = 1_000_000_000;

impl GatewayHandler {
    /// Opens the connections that are to be idle, and waits for them, so that a worker that reports
    /// that it is ready has them. Those that fail, or take too long, are tried again later.
    ///
    /// # Errors
    /// The error of `poll(2)`.
    pub(super) fn open_first_spares(&mut self) -> io::Result<()> {
        if self.service.upstreams.iter().all(|upstream| upstream.options.policy.idle_min == 0) {
            return Ok(());
        }
        self.now_ns = clock::monotonic_ns();
        self.spares_due_ns = Some(self.now_ns + INTERVAL_NS);
        let until_ns = self.now_ns + self.service.timeouts.connect_ns;
        let begun: Vec<_> = self
            .missing_spares()
            .into_iter()
            .filter_map(|place| socket::connect(&place.1).ok().map(|socket| (place, socket)))
            .collect();
        for (place, socket) in begun {
            let left = Duration::from_nanos(until_ns.saturating_sub(clock::monotonic_ns()));
            if poll::wait_writable(socket.as_fd(), left)? && socket::take_error(&socket).is_ok() {
                self.add_spare(place, until_ns, Some(socket));
            }
        }
        Ok(())
    }

    /// Opens connections where too few are idle, if it is time.
    pub(super) fn open_spares(&mut self) {
        if self.spares_due_ns.is_none_or(|due_ns| due_ns > self.now_ns) {
            return;
        }
        self.spares_due_ns = Some(self.now_ns + INTERVAL_NS);
        for upstream in 0..self.servers.len() {
            self.renew(upstream);
        }
        let until_ns = self.now_ns + self.service.timeouts.connect_ns;
        for place in self.missing_spares() {
            self.add_spare(place, until_ns, None);
        }
    }

    /// The upstream and the address of each connection that is missing, of servers that serve.
    fn missing_spares(&self) -> Vec<(usize, Arc<Endpoint>)> {
        let mut missing = Vec::new();
        for (upstream, servers) in self.servers.iter().enumerate() {
            let idle_min = self.service.upstreams[upstream].options.policy.idle_min as usize;
            if idle_min == 0 {
                continue;
            }
            for endpoint in servers.serving(self.now_ns) {
                let count = idle_min.saturating_sub(self.upstreams.spare_count(upstream, endpoint));
                missing.extend(repeat_n((upstream, Arc::clone(endpoint)), count));
            }
        }
        missing
    }

    fn add_spare(
        &mut self,
        server: (usize, Arc<Endpoint>),
        until_ns: u64,
        socket: Option<OwnedFd>,
    ) {
        let key = self.upstreams.open_spare(server, until_ns, self.now_ns);
        self.openings.push_back((key, socket));
    }

    /// Closes all idle connections, and keeps none any more: the next workers have their own.
    pub(super) fn retire(&mut self) {
        self.is_retired = true;
        self.spares_due_ns = None;
        while let Some(idle) = self.upstreams.oldest_idle() {
            self.close(idle);
        }
    }
}
