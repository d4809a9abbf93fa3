//! The counters of upstreams, the servers that requests are forwarded to; sharded by worker.

#![expect(
    clippy::disallowed_types,
    reason = "locked at a reload and when the page is read, never for a request"
)]

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::lines::{Escaped, Family, head, put};

/// Why a request to a server has failed: error types of RFC 9209 section 2.3.
const REASONS: [&str; 20] = [
    "connection_refused",
    "connection_timeout",
    "connection_limit_reached",
    "connection_terminated",
    "connection_read_timeout",
    "destination_unavailable",
    "dns_error",
    "http_protocol_error",
    "http_request_error",
    "http_response_header_section_size",
    "http_response_header_size",
    "http_response_incomplete",
    "http_response_timeout",
    "http_response_transfer_coding",
    "http_upgrade_failed",
    "proxy_internal_error",
    "proxy_loop_detected",
    "tls_alert_received",
    "tls_certificate_error",
    "tls_protocol_error",
];

/// A counter of an upstream, besides failures. The order is that of `FAMILIES`, which has one row
/// for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamCounter {
    /// Requests of clients, or parts of gathered responses.
    Requests,
    /// Requests that were sent on a new connection, also repeated ones.
    NewConnections,
    /// Requests that were sent on a kept connection, also repeated ones.
    ReusedConnections,
    /// Repeated requests, after a kept connection had been closed.
    FreshRetries,
    /// Repeated requests, after another failure.
    OtherRetries,
    /// Repeated requests, after a response with a status for which the upstream asks to retry.
    StatusRetries,
    /// Second copies of requests, whose responses were used.
    WonHedges,
    /// Second copies of requests that were sent without need.
    LostHedges,
    /// Second copies of requests that were not sent, since they would have been too many, or servers
    /// were ejected or busy.
    RefusedHedges,
    /// Clients that were gone before their response was complete.
    ClientsGone,
    /// Final responses that began before the whole request was sent.
    Early,
    /// Connections on which bytes followed a response.
    Excess,
    /// Connections on which bytes came before a request was sent.
    Unsolicited,
}

const COUNT: usize = UpstreamCounter::Unsolicited as usize + 1;

const FAMILIES: &[Family<UpstreamCounter>] = &[
    Family {
        name: "jissoku_upstream_requests",
        help: "Requests of clients for an upstream.",
        members: &[(UpstreamCounter::Requests, "")],
    },
    Family {
        name: "jissoku_upstream_tries",
        help: "Connections that requests were tried on.",
        members: &[
            (UpstreamCounter::NewConnections, ",connection=\"new\""),
            (UpstreamCounter::ReusedConnections, ",connection=\"reused\""),
        ],
    },
    Family {
        name: "jissoku_upstream_retries",
        help: "Repeated requests: a kept connection was closed, another failure, or the status.",
        members: &[
            (UpstreamCounter::FreshRetries, ",cause=\"reuse\""),
            (UpstreamCounter::OtherRetries, ",cause=\"failure\""),
            (UpstreamCounter::StatusRetries, ",cause=\"status\""),
        ],
    },
    Family {
        name: "jissoku_upstream_hedges",
        help: "Second copies of late requests: used, not used, or not sent.",
        members: &[
            (UpstreamCounter::WonHedges, ",result=\"won\""),
            (UpstreamCounter::LostHedges, ",result=\"lost\""),
            (UpstreamCounter::RefusedHedges, ",result=\"refused\""),
        ],
    },
    Family {
        name: "jissoku_upstream_clients_gone",
        help: "Clients that were gone before their response was complete.",
        members: &[(UpstreamCounter::ClientsGone, "")],
    },
    Family {
        name: "jissoku_upstream_out_of_turn",
        help: "Bytes of servers before the whole request, behind a response, or without a request.",
        members: &[
            (UpstreamCounter::Early, ",kind=\"early\""),
            (UpstreamCounter::Excess, ",kind=\"excess\""),
            (UpstreamCounter::Unsolicited, ",kind=\"unsolicited\""),
        ],
    },
];

/// The present state of an upstream.
pub trait UpstreamState: Debug + Send + Sync {
    /// The present state of each server.
    fn servers(&self) -> Vec<UpstreamServer>;
}

/// The present state of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamServer {
    /// Its address.
    pub address: String,
    /// Requests in flight.
    pub in_flight: u32,
    /// Whether it gets requests: it is not ejected, and its checks have not failed.
    pub is_serving: bool,
}

/// Shards of counters; workers beyond this number share them.
const SHARDS: usize = 32;

/// The counters of some workers.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard([AtomicU64; COUNT]);

/// The counters of one upstream, over all reloads.
#[derive(Debug)]
pub struct UpstreamCounters {
    name: Box<str>,
    /// By the number of the worker, so that no two write to the same cache line for each request.
    counts: [Shard; SHARDS],
    failures: [AtomicU64; REASONS.len()],
    /// The upstreams of this name, the present one last.
    states: Mutex<Vec<Weak<dyn UpstreamState>>>,
}

impl UpstreamCounters {
    fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            counts: Default::default(),
            failures: Default::default(),
            states: Mutex::default(),
        }
    }

    /// Counts one more, of the worker of this number.
    pub fn count(&self, counter: UpstreamCounter, worker: usize) {
        self.counts[worker % SHARDS].0[counter as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn value(&self, counter: UpstreamCounter) -> u64 {
        let shards = self.counts.iter();
        shards.map(|shard| shard.0[counter as usize].load(Ordering::Relaxed)).sum()
    }

    /// Counts a failure by its error type (RFC 9209 section 2.3). Returns whether it is known.
    pub fn count_failure(&self, error_type: &str) -> bool {
        let place = REASONS.iter().position(|reason| *reason == error_type);
        if let Some(place) = place {
            self.failures[place].fetch_add(1, Ordering::Relaxed);
        }
        place.is_some()
    }

    /// Shows the state of this upstream from now on, for as long as it exists.
    pub fn show(&self, state: Weak<dyn UpstreamState>) {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        states.retain(|other| other.strong_count() > 0);
        states.push(state);
    }

    fn servers(&self) -> Vec<UpstreamServer> {
        let states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let present = states.iter().rev().find_map(Weak::upgrade);
        drop(states);
        present.map(|state| state.servers()).unwrap_or_default()
    }
}

/// The counters of all upstreams, in the order in which they appeared.
#[derive(Debug, Default)]
pub(super) struct UpstreamRegistry(Mutex<Vec<Arc<UpstreamCounters>>>);

impl UpstreamRegistry {
    /// The counters of this name, which are new if there are none.
    pub(super) fn get(&self, name: &str) -> Arc<UpstreamCounters> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.iter().find(|known| &*known.name == name) {
            return Arc::clone(known);
        }
        let new = Arc::new(UpstreamCounters::new(name));
        all.push(Arc::clone(&new));
        new
    }

    /// Appends all families; nothing if there are no upstreams.
    pub(super) fn write(&self, text: &mut String) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if all.is_empty() {
            return;
        }
        for Family { name, help, members } in FAMILIES {
            head(text, name, "counter", help);
            for upstream in &all {
                for &(counter, labels) in *members {
                    let value = upstream.value(counter);
                    line(text, &format!("{name}_total"), &upstream.name, labels, value);
                }
            }
        }
        let name = "jissoku_upstream_failures";
        head(text, name, "counter", "Failures by error type (RFC 9209), also repeated ones.");
        for upstream in &all {
            for (reason, count) in REASONS.iter().zip(&upstream.failures) {
                let labels = format!(",reason=\"{reason}\"");
                let value = count.load(Ordering::Relaxed);
                line(text, &format!("{name}_total"), &upstream.name, &labels, value);
            }
        }
        write_servers(text, &all);
    }
}

/// Appends the state of each server.
fn write_servers(text: &mut String, all: &[Arc<UpstreamCounters>]) {
    let servers: Vec<_> = all.iter().map(|upstream| (upstream, upstream.servers())).collect();
    let mut gauge = |name: &str, help: &str, value: fn(&UpstreamServer) -> u64| {
        head(text, name, "gauge", help);
        for (upstream, servers) in &servers {
            for server in servers {
                let labels = format!(",server=\"{}\"", Escaped(&server.address));
                line(text, name, &upstream.name, &labels, value(server));
            }
        }
    };
    gauge("jissoku_upstream_server_requests", "Requests in flight at a server.", |server| {
        server.in_flight.into()
    });
    let help = "Whether a server gets requests: it is not ejected, and its checks have not failed.";
    gauge("jissoku_upstream_server_serving", help, |server| server.is_serving.into());
}

fn line(text: &mut String, name: &str, upstream: &str, labels: &str, value: u64) {
    let upstream = Escaped(upstream);
    put(text, format_args!("{name}{{upstream=\"{upstream}\"{labels}}} {value}\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct One(u32);

    impl UpstreamState for One {
        fn servers(&self) -> Vec<UpstreamServer> {
            vec![UpstreamServer { address: "a:1".into(), in_flight: self.0, is_serving: true }]
        }
    }

    fn text(registry: &UpstreamRegistry) -> String {
        let mut text = String::new();
        registry.write(&mut text);
        text
    }

    #[test]
    fn every_counter_is_exposed_once() {
        let exposed = FAMILIES.iter().flat_map(|family| family.members);
        let exposed: Vec<usize> = exposed.map(|(counter, _)| *counter as usize).collect();
        assert_eq!(exposed, (0..COUNT).collect::<Vec<_>>());
    }

    #[test]
    fn counters_stay_with_their_name() {
        let registry = UpstreamRegistry::default();
        assert_eq!(text(&registry), "");
        registry.get("app").count(UpstreamCounter::Requests, 33);
        registry.get("app").count(UpstreamCounter::Requests, 0);
        assert!(registry.get("a\"b").count_failure("connection_refused"));
        assert!(!registry.get("app").count_failure("no such reason"));
        let text = text(&registry);
        for expected in [
            "jissoku_upstream_requests_total{upstream=\"app\"} 2\n",
            "jissoku_upstream_tries_total{upstream=\"app\",connection=\"reused\"} 0\n",
            "{upstream=\"a\\\"b\",reason=\"connection_refused\"} 1\n",
            "{upstream=\"app\",reason=\"connection_refused\"} 0\n",
        ] {
            assert!(text.contains(expected), "{expected} in {text}");
        }
        assert_eq!(text.matches("# TYPE jissoku_upstream_failures counter\n").count(), 1);
    }

    #[test]
    fn the_current_upstream_of_a_name_is_shown() {
        let registry = UpstreamRegistry::default();
        let counters = registry.get("app");
        let shown = |value: u32| {
            let line = format!("_server_requests{{upstream=\"app\",server=\"a:1\"}} {value}\n");
            text(&registry).contains(&line)
        };
        let (first, second) = (Arc::new(One(1)), Arc::new(One(2)));
        counters.show(Arc::downgrade(&first) as Weak<dyn UpstreamState>);
        assert!(shown(1));
        counters.show(Arc::downgrade(&second) as Weak<dyn UpstreamState>);
        assert!(shown(2));
        // A failed reload leaves the previous one.
        drop(second);
        assert!(shown(1));
        drop(first);
        assert!(!shown(1));
    }
}
