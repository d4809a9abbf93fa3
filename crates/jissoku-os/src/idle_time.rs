//! How long cores had nothing to do, from `/proc/stat`.
//!
//! The kernel counts idle time exactly and prints it in ticks, mostly of 10 ms: a difference of two
//! readings is off by less than one of them for each core.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// More than the lines of a thousand cores, which come first.
const LENGTH_MAX: usize = 1 << 17;

/// The idle time of some cores. The file stays open.
#[derive(Debug)]
pub struct IdleTime {
    stat: File,
    cores: Vec<usize>,
    text: Vec<u8>,
}

impl IdleTime {
    /// Opens the file.
    ///
    /// # Errors
    /// The error of `open(2)`.
    pub fn of(cores: Vec<usize>) -> io::Result<Self> {
        Ok(Self { stat: File::open("/proc/stat")?, cores, text: vec![0; LENGTH_MAX] })
    }

    /// The cores.
    pub fn cores(&self) -> &[usize] {
        &self.cores
    }

    /// Idle nanoseconds so far, of all cores together; `None` if one of them is not there.
    pub fn idle_ns(&mut self) -> Option<u64> {
        let length = self.stat.read_at(&mut self.text, 0).ok()?;
        // The last line may be cut off.
        let text = str::from_utf8(&self.text[..length]).ok()?;
        let ticks = self.cores.iter().map(|&core| idle_ticks(text, core)).sum::<Option<u64>>()?;
        Some(ticks * (1_000_000_000 / rustix::param::clock_ticks_per_second()))
    }
}

/// Fields 4 and 5 of a core's line: idle, and idle with outstanding I/O (`proc_stat(5)`).
fn idle_ticks(text: &str, core: usize) -> Option<u64> {
    let name = format!("cpu{core}");
    let line = text.lines().find(|line| line.split(' ').next() == Some(&name))?;
    let mut fields = line.split_ascii_whitespace().skip(4);
    let mut field = || fields.next()?.parse::<u64>().ok();
    Some(field()? + field()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::affinity;

    #[test]
    fn idle_time_is_that_of_a_core_and_includes_outstanding_io() {
        let stat = "cpu  9 9 9 9 9\ncpu1 1 2 3 40 5 6\ncpu11 1 2 3 50 6 7\nintr 1 2\n";
        assert_eq!(idle_ticks(stat, 1), Some(45));
        assert_eq!(idle_ticks(stat, 11), Some(56));
        assert_eq!(idle_ticks(stat, 2), None);
    }

    #[test]
    fn this_machine_has_idle_time() {
        let cores = affinity::allowed().expect("it has cores");
        let mut idle = IdleTime::of(cores.clone()).expect("there is the file");
        let first = idle.idle_ns().expect("they are there");
        assert!(idle.idle_ns() >= Some(first));
        assert_eq!(idle.cores(), cores);
        assert_eq!(IdleTime::of(vec![1 << 20]).expect("there is the file").idle_ns(), None);
    }
}
