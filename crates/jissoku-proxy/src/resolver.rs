//! Names of servers that are resolved again: a thread for each upstream that has some.

use std::io;

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use jissoku_os::socket::Endpoint;

use crate::prober::is_stopped;
use crate::server_set::{ServerEntry, UpstreamGroup};
use crate::target::{Lookup, endpoints_of};

/// Starts to resolve the names of an upstream, if it has some. It ends with the returned value, or
/// when another upstream replaces this one.
pub(crate) fn start(upstream: &Arc<UpstreamGroup>) -> io::Result<Option<Sender<()>>> {
    if upstream.entries().iter().all(|entry| entry.target.name.is_none()) {
        return Ok(None);
    }
    let (stop, stopped) = channel();
    let upstream = Arc::clone(upstream);
    std::thread::Builder::new().name("resolver".to_owned()).spawn(move || {
        let mut names = Names::new(upstream.entries());
        let every_ns = upstream.options.resolution.every_ns;
        while !is_stopped(&stopped, every_ns) && !upstream.is_replaced() {
            let Found { has_changed, sentences } =
                names.look_up(upstream.label(), upstream.options.resolution.lookup);
            for _ in names.has_failed.iter().filter(|has_failed| **has_failed) {
                upstream.count_failure("dns_error");
            }
            if has_changed && !upstream.publish_entries(&names.entries) {
                return;
            }
            // Last: what is said of the addresses is true for every request from then on.
            for sentence in &sentences {
                (upstream.options.resolution.report)(sentence);
            }
        }
    })?;
    Ok(Some(stop))
}

/// What a lookup of all names has found.
#[derive(Debug)]
struct Found {
    has_changed: bool,
    /// What to report: changes, and names that can no longer be resolved.
    sentences: Vec<String>,
}

/// The servers of an upstream, with their last known addresses.
#[derive(Debug)]
struct Names {
    entries: Vec<ServerEntry>,
    /// Whether the last lookup of each has failed.
    has_failed: Vec<bool>,
}

impl Names {
    fn new(entries: &[ServerEntry]) -> Self {
        Self { entries: entries.to_vec(), has_failed: vec![false; entries.len()] }
    }

    /// Looks up all names; one that cannot be resolved, or has no address, keeps those that it had.
    fn look_up(&mut self, upstream: &str, lookup: Lookup) -> Found {
        let mut has_changed = false;
        let mut sentences = Vec::new();
        for (entry, has_failed) in self.entries.iter_mut().zip(&mut self.has_failed) {
            let Some(name) = &entry.target.name else { continue };
            let present = &mut entry.target.endpoints;
            let found = lookup(name).and_then(|addresses| match addresses[..] {
                [] => Err(io::ErrorKind::NotFound.into()),
                _ => Ok(endpoints_of(&addresses)),
            });
            let sentence = match &found {
                Err(error) if !*has_failed => Some(format!(
                    "upstream {upstream:?}: {name} cannot be resolved: {error}; still used: {}",
                    listed(present)
                )),
                Ok(found) => changed(present, found)
                    .map(|change| format!("upstream {upstream:?}: {name} is {change}")),
                Err(_) => None,
            };
            *has_failed = found.is_err();
            if let Ok(found) = found
                && sentence.is_some()
            {
                has_changed = true;
                *present = found;
            }
            sentences.extend(sentence);
        }
        Found { has_changed, sentences }
    }
}

/// How addresses have changed, if they have, such as `A, B now, not C`.
fn changed(before: &[Arc<Endpoint>], after: &[Arc<Endpoint>]) -> Option<String> {
    let gone: Vec<_> = before.iter().filter(|old| !after.contains(old)).cloned().collect();
    match (gone.is_empty(), after.iter().all(|new| before.contains(new))) {
        (true, true) => None,
        (true, false) => Some(format!("{} now", listed(after))),
        (false, _) => Some(format!("{} now, not {}", listed(after), listed(&gone))),
    }
}

fn listed(endpoints: &[Arc<Endpoint>]) -> String {
    let texts: Vec<_> = endpoints.iter().map(ToString::to_string).collect();
    texts.join(", ")
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::net::SocketAddr;

    use super::*;

    thread_local! {
        static ANSWER: RefCell<Option<Vec<SocketAddr>>> = const { RefCell::new(None) };
    }

    fn look_up(name: &str) -> io::Result<Vec<SocketAddr>> {
        assert_eq!(name, "shop.example:80");
        let refused = || io::Error::other("no such name");
        ANSWER.with_borrow(|answer| answer.clone().ok_or_else(refused))
    }

    /// The addresses after a lookup, and what is to be reported.
    fn after(names: &mut Names, answer: Option<&[&str]>) -> (bool, String, Vec<String>) {
        let addresses = answer.map(|all| all.iter().map(|one| one.parse().unwrap()).collect());
        ANSWER.set(addresses);
        let Found { has_changed, sentences } = names.look_up("app", look_up);
        (has_changed, listed(&names.entries[1].target.endpoints), sentences)
    }

    #[test]
    fn a_name_has_its_last_good_addresses() {
        let fixed = "http://192.0.2.9:1".parse().expect("an address");
        let mut named: crate::Target = "http://192.0.2.1:80".parse().expect("an address");
        named.name = Some("shop.example:80".into());
        let entries =
            [fixed, named].map(|target| ServerEntry { target, weight: 1, in_flight_max: 1 });
        let mut names = Names::new(&entries);
        let (first, second) = ("192.0.2.1:80".to_owned(), "192.0.2.2:80".to_owned());
        let failed = "upstream \"app\": shop.example:80 cannot be resolved: ";
        for (answer, reports) in [(None, 1), (None, 0), (Some(&[][..]), 0)] {
            let (has_changed, address, reported) = after(&mut names, answer);
            assert_eq!((has_changed, &address, reported.len()), (false, &first, reports));
            assert!(reported.iter().all(|sentence| sentence.starts_with(failed)), "{reported:?}");
        }
        let changed = after(&mut names, Some(&[&second]));
        let reported = "upstream \"app\": shop.example:80 is 192.0.2.2:80 now, not 192.0.2.1:80";
        assert_eq!(changed, (true, second.clone(), vec![reported.to_owned()]));
        let added = after(&mut names, Some(&[&first, &second]));
        let both = format!("{first}, {second}");
        let reported = format!("upstream \"app\": shop.example:80 is {first}, {second} now");
        assert_eq!(added, (true, both.clone(), vec![reported]));
        // Another order is no change.
        assert_eq!(after(&mut names, Some(&[&second, &first])), (false, both, vec![]));
        let removed = after(&mut names, Some(&[&first]));
        let reported = format!("upstream \"app\": shop.example:80 is {first} now, not {second}");
        assert_eq!(removed, (true, first, vec![reported]));
        // After a success, the next failure is reported again.
        assert_eq!(after(&mut names, None).2.len(), 1);
    }
}
