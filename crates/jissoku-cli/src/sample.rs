//! `jissoku sample`: where the CPU time of running processes goes.

use std::io::{self, Write as _};

use jissoku_os::affinity;
use jissoku_os::signal::{SIGINT, SIGTERM, SIGUSR1, SIGUSR2, Signals};
use jissoku_profile::{Clock, Controls, Plan, Scope};

use crate::units;
use crate::usage::{ExitError, exit_code};

/// Sample the CPU time of running processes by thread, library, function and line
///
/// Prints one JSON object when it ends. SIGUSR1 forgets all samples taken so far; SIGUSR2 pauses
/// sampling, and the next one resumes it.
#[derive(Debug, clap::Args)]
pub(crate) struct Sample {
    /// First processes: they, all that they started and all that they start are sampled
    #[arg(required = true, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pids: Vec<i32>,
    /// How long, such as 5s; without it until SIGINT or SIGTERM, or until all have ended
    #[arg(short, long, value_parser = units::duration_ns)]
    duration: Option<u64>,
    /// Samples per second of CPU time
    #[arg(short = 'F', long, value_name = "HZ", default_value_t = 199,
        value_parser = clap::value_parser!(u32).range(1..=20_000))]
    frequency: u32,
    /// What a sample is taken after
    #[arg(long, value_parser = units::word(CLOCKS), default_value = "cpu-time")]
    clock: Clock,
    /// Leave out the kernel, also where it may be sampled
    #[arg(long)]
    user_only: bool,
    /// Bytes of the stack copied with each sample, to unwind programs without frame pointers; 0
    /// walks frame pointers only
    #[arg(long, value_name = "BYTES", default_value = "16KiB", value_parser = stack_size)]
    stack_size: u32,
    /// Print the Python functions in which threads wait, in place of where CPU time goes
    #[arg(long)]
    waiting: bool,
    /// Do not read the frames of Python's interpreter
    #[arg(long)]
    no_interpreters: bool,
    /// Cores of the sampler itself, such as 1
    #[arg(long, value_name = "LIST", value_parser = units::cores)]
    cores: Option<Cores>,
}

type Cores = Vec<usize>;

const CLOCKS: [(&str, Clock); 2] = [("cpu-time", Clock::CpuTime), ("cycles", Clock::Cycles)];

impl Sample {
    pub(crate) fn run(self) -> u8 {
        exit_code("sample", self.sample())
    }

    fn sample(self) -> Result<(), ExitError> {
        if let Some(cores) = &self.cores {
            affinity::pin(cores).map_err(|error| (2, format!("--cores: {error}")))?;
        }
        let register = |signals: &[i32]| {
            Signals::register(signals).map_err(|error| (1, format!("cannot register: {error}")))
        };
        let (stop, mut reset) = (register(&[SIGTERM, SIGINT])?, register(&[SIGUSR1])?);
        if self.waiting {
            let _written = writeln!(io::stderr(), "sampling");
            let found = jissoku_profile::waits(&self.pids, self.duration, &stop);
            let found = found.map_err(|error| (1, format!("/proc cannot be read: {error}")))?;
            return print(|out| serde_json::to_writer(out, &found));
        }
        let mut pause = register(&[SIGUSR2])?;
        let plan = Plan {
            roots: self.pids,
            duration_ns: self.duration,
            frequency: self.frequency,
            clock: self.clock,
            scope: if self.user_only { Scope::UserSpace } else { Scope::Everything },
            stack_size: self.stack_size,
            interpreters: !self.no_interpreters,
        };
        let begun = || {
            let _written = writeln!(io::stderr(), "sampling");
        };
        let controls = Controls { stop: &stop, reset: &mut reset, pause: &mut pause };
        let profile = jissoku_profile::sample(&plan, controls, begun);
        let profile = profile.map_err(|sentence| (1, sentence))?;
        print(|out| serde_json::to_writer(out, &profile))
    }
}

fn print(
    write: impl FnOnce(&mut dyn io::Write) -> serde_json::Result<()>,
) -> Result<(), ExitError> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    write(&mut out).map_err(|error| (1, format!("cannot print: {error}")))?;
    // A closed stdout has no reader.
    let _written = writeln!(out).and_then(|()| out.flush());
    Ok(())
}

/// A multiple of eight, as the kernel demands.
fn stack_size(text: &str) -> Result<u32, String> {
    let bytes = u32::try_from(units::size(text)?).ok().filter(|bytes| *bytes <= 65_528);
    bytes.map(|bytes| bytes & !7).ok_or_else(|| "at most 65,528 bytes can be copied".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_are_copied_in_words() {
        assert_eq!(
            (stack_size("8KiB"), stack_size("13"), stack_size("0")),
            (Ok(8192), Ok(8), Ok(0))
        );
        assert!(stack_size("64KiB").is_err());
    }
}
