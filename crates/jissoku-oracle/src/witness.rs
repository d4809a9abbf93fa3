//! Does a core stand still? A thread on it looks five thousand times a second.
//!
//! On a virtual machine the host stops a core whenever it likes, for milliseconds, and neither the oracle nor
//! the generator knows. A witness that runs before everybody else on a core sees just that. It
//! has to be put into a real-time class by whoever may; without one it sees the generator's own work as well.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use jissoku_os::clock::monotonic_ns;
use jissoku_os::{core, timer};
use serde::Serialize;

/// The name of its thread, by which it is found from outside.
pub const NAME: &str = "witness";

/// Between two looks: some 1 % of a core goes into looking.
const STEP: Duration = Duration::from_micros(200);

/// Stalls are counted by how long they are at least.
const STEPS_NS: [u64; 7] = [100_000, 200_000, 500_000, 1_000_000, 2_000_000, 5_000_000, 10_000_000];

/// How a core stood still.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the fields are named as in the JSON, and units end their names")]
pub struct Stalls {
    pub core: usize,
    /// How long was looked.
    pub watched_ns: u64,
    pub longest_ns: u64,
    /// The sum of all stalls' squares, in microseconds: what waits at random waits that by twice the time watched.
    pub squares_us2: u64,
    pub at_least: Vec<AtLeast>,
}

/// The stalls of at least some length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the fields are named as in the JSON, and units end their names")]
pub struct AtLeast {
    pub length_ns: u64,
    pub count: u64,
    pub total_ns: u64,
}

impl Stalls {
    fn none(core: usize) -> Self {
        let at_least = STEPS_NS.map(|length_ns| AtLeast { length_ns, count: 0, total_ns: 0 });
        Self { core, at_least: at_least.to_vec(), ..Self::default() }
    }

    /// A look came so long after the one before it.
    fn look(&mut self, after_ns: u64) {
        self.watched_ns += after_ns;
        let stall_ns = after_ns.saturating_sub(STEP.as_nanos().try_into().unwrap_or(u64::MAX));
        for step in self.at_least.iter_mut().filter(|it| it.length_ns <= stall_ns) {
            step.count += 1;
            step.total_ns += stall_ns;
        }
        if stall_ns >= STEPS_NS[0] {
            self.longest_ns = self.longest_ns.max(stall_ns);
            self.squares_us2 += (stall_ns / 1000).pow(2);
        }
    }
}

/// Witnesses at work, one for each core.
#[derive(Debug)]
pub struct Witness {
    threads: Vec<JoinHandle<Stalls>>,
    is_over: Arc<AtomicBool>,
}

impl Witness {
    /// Begins to look at `cores`.
    ///
    /// # Errors
    /// A core that cannot be used, or that of starting a thread.
    pub fn start(cores: &[usize]) -> io::Result<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        let mut witness = Self { threads: Vec::new(), is_over };
        for &core in cores {
            let is_over = Arc::clone(&witness.is_over);
            let (ready, is_ready) = std::sync::mpsc::channel();
            let look = move || {
                let pinned = core::pin(&[core]).and_then(|()| timer::wake_punctually());
                let is_pinned = pinned.is_ok();
                // Whoever started us waits for this, and for nothing else.
                let _heard = ready.send(pinned);
                if is_pinned { watch(core, &is_over) } else { Stalls::none(core) }
            };
            witness.threads.push(thread::Builder::new().name(NAME.to_owned()).spawn(look)?);
            is_ready.recv().map_err(io::Error::other)??;
        }
        Ok(witness)
    }

    /// Ends, and tells what each has seen.
    #[must_use]
    pub fn end(self) -> Vec<Stalls> {
        self.is_over.store(true, Ordering::Relaxed);
        // One that broke has seen nothing.
        self.threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    }
}

fn watch(core: usize, is_over: &AtomicBool) -> Stalls {
    let mut stalls = Stalls::none(core);
    let mut last = monotonic_ns();
    while !is_over.load(Ordering::Relaxed) {
        #[expect(
            clippy::disallowed_methods,
            reason = "how punctually it is woken is what it looks at"
        )]
        thread::sleep(STEP);
        let now = monotonic_ns();
        stalls.look(now - last);
        last = now;
    }
    stalls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_counts_in_each_class_that_it_reaches() {
        let mut stalls = Stalls::none(3);
        for after_ns in [200_000, 250_000, 400_000, 1_700_000] {
            stalls.look(after_ns);
        }
        assert_eq!((stalls.watched_ns, stalls.longest_ns), (2_550_000, 1_500_000));
        let totals = stalls.at_least.iter().map(|it| (it.count, it.total_ns)).collect::<Vec<_>>();
        let both = (2, 1_700_000);
        let long = (1, 1_500_000);
        assert_eq!(totals, [both, both, long, long, (0, 0), (0, 0), (0, 0)]);
        assert_eq!(stalls.squares_us2, 200 * 200 + 1500 * 1500);
    }

    #[test]
    fn a_witness_looks_until_it_is_ended() {
        let core = core::allowed().expect("affinity can be read")[0];
        let witness = Witness::start(&[core]).expect("it can be started");
        let start = monotonic_ns();
        while monotonic_ns() < start + 1_000_000 {}
        let seen = witness.end();
        assert_eq!(seen.len(), 1);
        assert_eq!(seen[0].core, core);
        assert!(
            seen[0].watched_ns > 0 && seen[0].watched_ns < monotonic_ns() - start + STEPS_NS[6]
        );
    }

    #[test]
    fn a_core_that_is_not_there_is_an_error() {
        assert!(Witness::start(&[1_000_000]).is_err());
    }
}
