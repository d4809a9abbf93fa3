//! Reports that a server is not used any more, or is used although it fails; and that this has ended.

#![expect(clippy::disallowed_types, reason = "locked when a server changes, not for each request")]

use std::sync::{Mutex, PoisonError};

use crate::policy::fleet::Server;
use crate::policy::health::Use;

/// Changes of one server that are reported within [`WINDOW_NS`] at most.
const CHANGES_MAX: u32 = 6;

/// The time in which changes are counted.
const WINDOW_NS: u64 = 60_000_000_000;

/// The changes of servers that were reported within the last minute.
#[derive(Debug, Default)]
pub(crate) struct UseReports(Mutex<Vec<Recent>>);

/// The reported changes of one server.
#[derive(Debug)]
struct Recent {
    endpoint: String,
    since_ns: u64,
    count: u32,
}

impl UseReports {
    /// How a server is used from now on, and `why` if not as usual; `None` if that was said last, or
    /// there were too many changes: then it is said later, if it still holds when it is asked for again.
    pub(crate) fn sentence(
        &self,
        server: &Server,
        now_ns: u64,
        why: impl FnOnce() -> String,
    ) -> Option<String> {
        let state = server.state();
        if !state.has_unreported_change() {
            return None;
        }
        let is_last = self.is_last(server.endpoint(), now_ns)?;
        let endpoint = server.endpoint();
        let sentence = match state.take_change()? {
            (Use::Failing, Use::Normal) => format!("server {endpoint} responds again"),
            (_, Use::Normal) => format!("server {endpoint} is used again"),
            (_, Use::Failing) => format!(
                "server {endpoint} stays in use, because no other can replace it, although {}",
                why()
            ),
            (_, Use::Not) => format!("server {endpoint} is not used any more: {}", why()),
        };
        let more = "; it changes often: no further report within a minute";
        Some(if is_last { sentence + more } else { sentence })
    }

    /// Counts a change. `None` if there were too many; else whether this is the last one reported.
    fn is_last(&self, endpoint: &str, now_ns: u64) -> Option<bool> {
        let mut recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        recent.retain(|one| now_ns.saturating_sub(one.since_ns) < WINDOW_NS);
        if let Some(one) = recent.iter_mut().find(|one| one.endpoint == endpoint) {
            one.count += u32::from(one.count <= CHANGES_MAX);
            return (one.count <= CHANGES_MAX).then_some(one.count == CHANGES_MAX);
        }
        recent.push(Recent { endpoint: endpoint.to_owned(), since_ns: now_ns, count: 1 });
        Some(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::fleet::{Fleet, ServerSpec};
    use crate::policy::health::{Admission, HealthPolicy, Outcome};

    fn finish(fleet: &Fleet, outcome: Outcome) -> bool {
        let lease = fleet.acquire(0, Admission::Serving, 1).expect("it has room");
        fleet.finish(lease, outcome, 1)
    }

    #[test]
    fn the_only_server_is_used_although_it_fails_and_that_is_reported() {
        let spec = ServerSpec { endpoint: "a:1".to_owned(), weight: 1, in_flight_max: 9 };
        let fleet = Fleet::new(vec![spec], HealthPolicy::default());
        let (server, reports) = (&fleet.servers()[0], UseReports::default());
        let said = || reports.sentence(server, 1, || "its requests fail".to_owned());
        let failing = "server a:1 stays in use, because no other can replace it, although its \
                       requests fail";
        assert!(finish(&fleet, Outcome::Refused) && !finish(&fleet, Outcome::Refused));
        assert_eq!((said().as_deref(), said()), (Some(failing), None));
        assert!(!finish(&fleet, Outcome::Failure) && finish(&fleet, Outcome::Success));
        assert_eq!((said().as_deref(), said()), (Some("server a:1 responds again"), None));
        // One that does not refuse has to fail as often as would eject it.
        let failures = HealthPolicy::default().failures;
        let changes = (0..failures).map(|_| finish(&fleet, Outcome::Failure));
        assert_eq!(changes.filter(|is_change| *is_change).count(), 1);
        assert_eq!(said().as_deref(), Some(failing));
    }

    #[test]
    fn each_change_is_reported_once_and_few_within_a_minute() {
        let spec = ServerSpec { endpoint: "a:1".to_owned(), weight: 1, in_flight_max: 9 };
        let fleet = Fleet::new(vec![spec], HealthPolicy::default());
        let (server, reports) = (&fleet.servers()[0], UseReports::default());
        let said = |now_ns| reports.sentence(server, now_ns, || "closed".to_owned());
        assert_eq!(said(1), None, "it was always used");
        let mut all = Vec::new();
        for change in 0..9 {
            server.state().set_probe(change % 2 == 1, 1);
            all.extend(said(1));
            assert_eq!(said(1), None);
        }
        assert_eq!(all.len(), 6);
        assert_eq!(all[0], "server a:1 is not used any more: closed");
        assert_eq!(all[1], "server a:1 is used again");
        let last = "server a:1 is used again; it changes often: no further report within a minute";
        assert_eq!(all[5], last);
        assert_eq!(said(2 + WINDOW_NS).as_deref(), Some(all[0].as_str()), "it is said later");
        assert_eq!(said(2 + WINDOW_NS), None);
    }
}
