//! What stores hold, and what processes have done with them. The server knows of stores only that.

#![expect(
    clippy::disallowed_types,
    reason = "locked when counts arrive and when the page is read, never for a request"
)]

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use super::lines::{Escaped, head, put};

/// How many things are counted of a store: see `COUNTERS`.
pub(crate) const STORE_COUNTS: usize = COUNTERS.len();

/// The counters, in the order of their values.
const COUNTERS: [(&str, &str); 5] = [
    ("jissoku_store_gets", "Keys that were asked for."),
    ("jissoku_store_hits", "Keys that were asked for and had a value."),
    ("jissoku_store_puts", "Entries that were written."),
    ("jissoku_store_evictions", "Entries that were removed to make room for others."),
    ("jissoku_store_expired", "Expired entries that were removed."),
];

const GAUGES: [(&str, &str); 2] = [
    ("jissoku_store_entries", "Entries, with expired ones that are not removed yet."),
    ("jissoku_store_bytes", "What the entries take, counted against the size of the store."),
];

/// Gets, hits, puts, evictions and expired entries.
pub type StoreCounts = [u64; STORE_COUNTS];

/// A store as this process sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSample {
    /// Its name.
    pub name: String,
    /// Its entries.
    pub entries: u64,
    /// Bytes of the pages that hold them.
    pub bytes: u64,
    /// What this process has done.
    pub counts: StoreCounts,
}

type Read = Box<dyn Fn() -> Vec<StoreSample> + Send + Sync>;

/// The stores of a server.
#[derive(Default)]
pub(super) struct StoreRegistry(Mutex<Stores>);

#[derive(Default)]
struct Stores {
    read: Option<Read>,
    /// What worker processes have done, by the name of the store.
    counts: BTreeMap<String, StoreCounts>,
}

impl fmt::Debug for StoreRegistry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("StoreRegistry").finish_non_exhaustive()
    }
}

impl StoreRegistry {
    /// `read` returns the stores from now on.
    pub(super) fn set(&self, read: Read) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).read = Some(read);
    }

    /// Adds what a worker process has done since it has sent `before`.
    pub(super) fn add_growth(&self, name: &str, before: &StoreCounts, counts: &StoreCounts) {
        let mut stores = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let sums = stores.counts.entry(name.to_owned()).or_default();
        for (sum, (count, before)) in sums.iter_mut().zip(counts.iter().zip(before)) {
            // The process has closed the store and opened it again if there are fewer.
            *sum += count.checked_sub(*before).unwrap_or(*count);
        }
    }

    /// Appends the families; nothing if there are no stores.
    pub(super) fn write(&self, text: &mut String) {
        let stores = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let samples = stores.read.as_ref().map(|read| read()).unwrap_or_default();
        if samples.is_empty() {
            return;
        }
        let values = |sample: &StoreSample| [sample.entries, sample.bytes];
        for (index, (name, help)) in GAUGES.iter().enumerate() {
            head(text, name, "gauge", help);
            for sample in &samples {
                let (store, value) = (Escaped(&sample.name), values(sample)[index]);
                put(text, format_args!("{name}{{store=\"{store}\"}} {value}\n"));
            }
        }
        for (index, (name, help)) in COUNTERS.iter().enumerate() {
            head(text, name, "counter", help);
            for sample in &samples {
                let of_workers = stores.counts.get(&sample.name).map_or(0, |counts| counts[index]);
                let (store, value) = (Escaped(&sample.name), sample.counts[index] + of_workers);
                put(text, format_args!("{name}_total{{store=\"{store}\"}} {value}\n"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_processes_are_summed() {
        let registry = StoreRegistry::default();
        let written = || {
            let mut text = String::new();
            registry.write(&mut text);
            text
        };
        registry.add_growth("shop", &[0; 5], &[5, 4, 3, 2, 1]);
        assert_eq!(written(), "");
        let name = "shop".to_owned();
        let sample = StoreSample { name, entries: 7, bytes: 4096, counts: [0, 0, 0, 0, 10] };
        registry.set(Box::new(move || vec![sample.clone()]));
        registry.add_growth("shop", &[5, 4, 3, 2, 1], &[6, 4, 3, 2, 1]);
        // It was opened again.
        registry.add_growth("shop", &[6, 4, 3, 2, 1], &[1, 1, 0, 0, 0]);
        let text = written();
        for expected in [
            "# TYPE jissoku_store_bytes gauge\n# UNIT jissoku_store_bytes bytes\n",
            "jissoku_store_entries{store=\"shop\"} 7\n",
            "jissoku_store_bytes{store=\"shop\"} 4096\n",
            "jissoku_store_gets_total{store=\"shop\"} 7\n",
            "jissoku_store_hits_total{store=\"shop\"} 5\n",
            "jissoku_store_puts_total{store=\"shop\"} 3\n",
            "jissoku_store_evictions_total{store=\"shop\"} 2\n",
            "jissoku_store_expired_total{store=\"shop\"} 11\n",
        ] {
            assert!(text.contains(expected), "{expected} in {text}");
        }
        assert_eq!(text.matches("# TYPE").count(), 7);
    }
}
