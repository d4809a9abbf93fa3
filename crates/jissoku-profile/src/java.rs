//! Names of the functions that a JVM has compiled: it writes them where it is asked to.
//!
//! `jcmd PID Compiler.perfmap` (JDK 17 and later) makes it write `/tmp/perf-PID.map`. It is asked when
//! sampling has ended, so that the functions that were compiled last are named and the work of writing
//! is in no sample.

use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use jissoku_os::{clock, poll};

/// How long a JVM may take to answer.
const ANSWER_MAX_NS: u64 = 20_000_000_000;

/// Asks those of the processes that are JVMs; returns in sentences what cannot be named.
pub(crate) fn write_perf_maps(pids: impl IntoIterator<Item = i32>) -> Vec<String> {
    let mut failures: Vec<String> = pids
        .into_iter()
        .filter(|&pid| runs_java(pid))
        .filter_map(|pid| write_perf_map(pid).err())
        .map(|reason| format!("Java functions are not named: {reason}"))
        .collect();
    failures.dedup();
    failures
}

/// Whether a process has the library of a JVM.
fn runs_java(pid: i32) -> bool {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    maps.lines().any(|line| line.ends_with("/libjvm.so"))
}

fn write_perf_map(pid: i32) -> Result<(), String> {
    let mut command = Command::new(program(pid));
    command.args([&pid.to_string(), "Compiler.perfmap"]).stdin(Stdio::null()).stderr(Stdio::null());
    match succeeds(&mut command) {
        Ok(Some(true)) => Ok(()),
        Ok(Some(false)) => Err("jcmd Compiler.perfmap failed; it needs JDK 17 or later".to_owned()),
        Ok(None) => Err("the JVM did not answer jcmd".to_owned()),
        Err(error) => Err(format!("jcmd of its JDK cannot be started ({error})")),
    }
}

/// `jcmd` beside the program, so of the same version, or else that of the path.
fn program(pid: i32) -> PathBuf {
    let own = std::fs::read_link(format!("/proc/{pid}/exe")).ok();
    let beside = own.and_then(|java| Some(java.parent()?.join("jcmd")));
    beside.filter(|jcmd| jcmd.exists()).unwrap_or_else(|| Path::new("jcmd").to_owned())
}

/// Whether a program succeeds; `None` if its output continues for too long.
fn succeeds(command: &mut Command) -> io::Result<Option<bool>> {
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let mut output = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let end_ns = clock::monotonic_ns() + ANSWER_MAX_NS;
    let mut bytes = [0; 4096];
    loop {
        let left = Duration::from_nanos(end_ns.saturating_sub(clock::monotonic_ns()));
        let is_readable = poll::wait_readable(&[output.as_fd()], Some(left))? == [true];
        if is_readable && output.read(&mut bytes)? == 0 {
            return Ok(Some(child.wait()?.success()));
        }
        if left.is_zero() {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_without_a_jvm_is_not_asked() {
        let own = i32::try_from(std::process::id()).expect("a process number");
        assert!(!runs_java(own));
        assert_eq!(write_perf_maps([own, i32::MAX]), Vec::<String>::new());
    }

    #[test]
    fn the_status_of_a_program_is_its_answer() {
        let answer = |program: &str| succeeds(&mut Command::new(program)).expect("it starts");
        assert_eq!((answer("true"), answer("false")), (Some(true), Some(false)));
        assert!(succeeds(&mut Command::new("/no/such/program")).is_err());
    }
}
