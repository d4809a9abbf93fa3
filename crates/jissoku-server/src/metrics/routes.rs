//! The counters of routes that have limits. All workers share them.

#![expect(
    clippy::disallowed_types,
    reason = "locked at a reload and when the page is read, never for a request"
)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::lines::{Escaped, head, put};

/// A counter of a route: requests beyond one of its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteCounter {
    /// Refused, because of the rate.
    RateRefused,
    /// Permitted, since the rate is a dry run.
    RateDryRun,
    /// Refused, because of requests at once.
    ConcurrencyRefused,
}

/// The labels of each counter, in their order.
const LABELS: [&str; 3] = [
    "limit=\"rate\",action=\"refused\"",
    "limit=\"rate\",action=\"dry-run\"",
    "limit=\"concurrency\",action=\"refused\"",
];

/// The counters of the routes with one path, over all reloads.
#[derive(Debug)]
pub struct RouteCounters {
    path: Box<str>,
    counts: [AtomicU64; LABELS.len()],
}

impl RouteCounters {
    /// Counts one more.
    pub fn count(&self, counter: RouteCounter) {
        self.counts[counter as usize].fetch_add(1, Ordering::Relaxed);
    }
}

/// The counters of all routes with limits, in the order in which they appeared.
#[derive(Debug, Default)]
pub(super) struct RouteRegistry(Mutex<Vec<Arc<RouteCounters>>>);

impl RouteRegistry {
    /// The counters of this path, which are new if there are none.
    pub(super) fn get(&self, path: &str) -> Arc<RouteCounters> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.iter().find(|known| &*known.path == path) {
            return Arc::clone(known);
        }
        let new = Arc::new(RouteCounters { path: path.into(), counts: Default::default() });
        all.push(Arc::clone(&new));
        new
    }

    /// Appends the family; nothing if no route has limits.
    pub(super) fn write(&self, text: &mut String) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if all.is_empty() {
            return;
        }
        let name = "jissoku_route_over_limit";
        head(text, name, "counter", "Requests beyond a limit of their route.");
        for route in &all {
            let path = Escaped(&route.path);
            for (labels, count) in LABELS.iter().zip(&route.counts) {
                let value = count.load(Ordering::Relaxed);
                put(text, format_args!("{name}_total{{route=\"{path}\",{labels}}} {value}\n"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_stay_with_their_path() {
        let registry = RouteRegistry::default();
        let written = || {
            let mut text = String::new();
            registry.write(&mut text);
            text
        };
        assert_eq!(written(), "");
        registry.get("/a").count(RouteCounter::RateDryRun);
        registry.get("/b/{\"c\"}").count(RouteCounter::ConcurrencyRefused);
        registry.get("/a").count(RouteCounter::RateDryRun);
        let text = written();
        for expected in [
            "{route=\"/a\",limit=\"rate\",action=\"refused\"} 0\n",
            "{route=\"/a\",limit=\"rate\",action=\"dry-run\"} 2\n",
            "{route=\"/b/{\\\"c\\\"}\",limit=\"concurrency\",action=\"refused\"} 1\n",
        ] {
            assert!(text.contains(expected), "{expected} in {text}");
        }
        assert_eq!(text.matches("# TYPE").count(), 1);
    }
}
