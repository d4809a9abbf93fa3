//! Does a core stand still? A thread on it is to be woken a thousand times a second, and sees how late that is.
//!
//! On a virtual machine the host stops a core whenever it likes, for milliseconds, and neither the oracle nor
//! the generator knows. A witness that runs before everybody else on a core sees just that. It has to be put
//! into a real-time class by whoever may; without one it sees the generator's own work as well.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use jissoku_os::clock::monotonic_ns;
use jissoku_os::{core, timer};
use serde::Serialize;

use crate::delay::Rng;

/// The name of its thread, by which it is found from outside.
const NAME: &str = "witness";

/// Between two looks, on average. They come at random, so that what they see is what happens to any moment,
/// and an evenly paced load does not meet all of them. Five thousand a second made the gaps of such a load uneven.
const STEP_S: f64 = 0.001;

/// Looks are counted by how late they are at least.
const STEPS_NS: [u64; 7] = [100_000, 200_000, 500_000, 1_000_000, 2_000_000, 5_000_000, 10_000_000];

/// How a core stood still.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the fields are named as in the JSON, and units end their names")]
pub struct Stalls {
    pub core: usize,
    /// At how many moments was looked.
    pub looks: u64,
    pub longest_ns: u64,
    /// How long all looks together waited, but for those that waited less than the shortest length below.
    pub waited_ns: u64,
    pub at_least: Vec<AtLeast>,
}

/// The looks that were so late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the fields are named as in the JSON, and units end their names")]
pub struct AtLeast {
    pub length_ns: u64,
    pub looks: u64,
}

impl Stalls {
    fn none(core: usize) -> Self {
        let at_least = STEPS_NS.map(|length_ns| AtLeast { length_ns, looks: 0 });
        Self { core, at_least: at_least.to_vec(), ..Self::default() }
    }

    fn look(&mut self, late_ns: u64) {
        self.looks += 1;
        for step in self.at_least.iter_mut().filter(|it| it.length_ns <= late_ns) {
            step.looks += 1;
        }
        if late_ns >= STEPS_NS[0] {
            self.longest_ns = self.longest_ns.max(late_ns);
            self.waited_ns += late_ns;
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
    let mut rng = Rng::new(core.try_into().unwrap_or_default());
    while !is_over.load(Ordering::Relaxed) {
        let step = Duration::from_secs_f64(STEP_S * (0.5 + rng.fraction()));
        let due = monotonic_ns() + u64::try_from(step.as_nanos()).unwrap_or(u64::MAX);
        #[expect(
            clippy::disallowed_methods,
            reason = "how punctually it is woken is what it looks at"
        )]
        thread::sleep(step);
        stalls.look(monotonic_ns().saturating_sub(due));
    }
    stalls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_counts_in_each_class_that_it_reaches() {
        let mut stalls = Stalls::none(3);
        for late_ns in [0, 50_000, 200_000, 1_500_000] {
            stalls.look(late_ns);
        }
        assert_eq!((stalls.looks, stalls.longest_ns, stalls.waited_ns), (4, 1_500_000, 1_700_000));
        let looks = stalls.at_least.iter().map(|it| it.looks).collect::<Vec<_>>();
        assert_eq!(looks, [2, 2, 1, 1, 0, 0, 0]);
    }

    #[test]
    fn a_witness_looks_until_it_is_ended() {
        let core = core::allowed().expect("affinity can be read")[0];
        let witness = Witness::start(&[core]).expect("it can be started");
        let start = monotonic_ns();
        while monotonic_ns() < start + 5 * STEPS_NS[3] {}
        let seen = witness.end();
        assert_eq!(seen.len(), 1);
        assert_eq!(seen[0].core, core);
        assert!(seen[0].looks > 0);
    }

    #[test]
    fn a_core_that_is_not_there_is_an_error() {
        assert!(Witness::start(&[1_000_000]).is_err());
    }
}
