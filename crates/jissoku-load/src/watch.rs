//! How much CPU time do the servers use meanwhile?
//!
//! Who belongs to a server is looked up shortly before and after the window, since that takes long; what
//! they have used is read at its very edges.

use std::io;
use std::sync::OnceLock;

use jissoku_os::{clock, process};

/// The processes behind each lane.
#[derive(Debug)]
pub(crate) struct Watch {
    roots: Vec<Option<i32>>,
    families: OnceLock<Vec<Vec<i32>>>,
}

/// CPU time so far of every process of every lane; `None` for one that is gone.
pub(crate) type Reading = Vec<Vec<Option<u64>>>;

/// What one server used in the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used {
    /// CPU time of all its processes; `None` when one of them ended, since its share is lost then.
    pub cpu_ns: Option<u64>,
    /// How many processes there were.
    pub processes: u64,
}

impl Watch {
    pub(crate) fn new(roots: Vec<Option<i32>>) -> Self {
        Self { roots, families: OnceLock::new() }
    }

    /// Whether anybody is watched.
    pub(crate) fn is_asked(&self) -> bool {
        self.roots.iter().any(Option::is_some)
    }

    /// Looks up who belongs to whom; the first time counts.
    pub(crate) fn look_up(&self) -> &[Vec<i32>] {
        self.families.get_or_init(|| self.find().unwrap_or_default())
    }

    /// Reads every clock, lane after lane. Two readings lie exactly one window apart for each lane.
    pub(crate) fn read(&self) -> Reading {
        let read =
            |family: &Vec<i32>| family.iter().map(|&pid| clock::process_cpu_ns(pid)).collect();
        self.look_up().iter().map(read).collect()
    }

    /// What each lane's server used between two readings, processes that were born between them included.
    pub(crate) fn used(&self, open: &Reading, close: &Reading) -> Vec<Option<Used>> {
        let now = self.find().unwrap_or_default();
        let known = self.look_up();
        let used = |lane: usize| {
            let (open, close) = (open.get(lane)?, close.get(lane)?);
            let newborn = now.get(lane)?.iter().filter(|pid| !known[lane].contains(pid));
            let newborn: Vec<u64> = newborn.filter_map(|&pid| clock::process_cpu_ns(pid)).collect();
            let spent = open.iter().zip(close).map(|(open, close)| Some((*close)? - (*open)?));
            let cpu_ns = spent.sum::<Option<u64>>().map(|sum| sum + newborn.iter().sum::<u64>());
            Some(Used { cpu_ns, processes: (open.len() + newborn.len()) as u64 })
        };
        (0..self.roots.len()).map(|lane| self.roots[lane].and_then(|_| used(lane))).collect()
    }

    fn find(&self) -> io::Result<Vec<Vec<i32>>> {
        let family = |root: &Option<i32>| root.map_or(Ok(Vec::new()), process::family);
        self.roots.iter().map(family).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_work_is_seen() {
        let me = i32::try_from(std::process::id()).expect("a pid is positive");
        let watch = Watch::new(vec![None, Some(me)]);
        let start = clock::own_cpu_ns();
        let open = watch.read();
        let before = clock::own_cpu_ns();
        let mut sum = 0_u64;
        for number in 0..1_000_000_u64 {
            sum = std::hint::black_box(sum ^ number);
        }
        let worked = clock::own_cpu_ns() - before;
        let used = watch.used(&open, &watch.read());
        let all = clock::own_cpu_ns() - start;
        assert_eq!(used[0], None);
        let ours = used[1].expect("we are watched");
        assert!((worked..=all).contains(&ours.cpu_ns.expect("we did not end")));
        assert_eq!(ours.processes, watch.look_up()[1].len() as u64);
    }

    #[test]
    fn a_process_that_ended_leaves_no_number() {
        let watch = Watch::new(vec![Some(1)]);
        watch.families.get_or_init(|| vec![vec![1, 2]]);
        let used = watch.used(&vec![vec![Some(5), Some(7)]], &vec![vec![Some(6), None]]);
        assert_eq!(used[0].expect("it is watched").cpu_ns, None);
    }
}
