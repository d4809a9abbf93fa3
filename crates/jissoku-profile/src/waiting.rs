//! Where threads of Python wait. Their functions are read while they sleep, without stopping them: a
//! thread that sleeps changes nothing.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::fd::AsFd as _;
use std::time::Duration;

use jissoku_os::signal::Signals;
use jissoku_os::{clock, poll, process};
use serde::Serialize;

use crate::python::interpreter::Interpreter;

const PAUSE: Duration = Duration::from_millis(10);

/// Readings of a thread in one call of the kernel: most wait in the same function each time.
const READINGS_MAX: u64 = 10;

/// How often a thread was met in a system call, and in a function of Python.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Wait {
    /// Its number.
    pub thread: i32,
    /// The number of the call.
    pub call: i64,
    /// As in `get, called by page at app.py:31`.
    pub function: String,
    /// How often.
    pub count: u64,
}

/// Looks at all threads of some process trees, so long or until it is stopped.
///
/// # Errors
/// `/proc` cannot be read.
pub fn waits(roots: &[i32], duration_ns: Option<u64>, stop: &Signals) -> io::Result<Vec<Wait>> {
    let (mut looks, start_ns) = (Looks::default(), clock::monotonic_ns());
    let is_over = || duration_ns.is_some_and(|all| clock::monotonic_ns() - start_ns >= all);
    while poll::wait_readable(&[stop.as_fd()], Some(PAUSE))? == [false] && !is_over() {
        for &root in roots {
            process::process_tree(root)?.into_iter().for_each(|pid| looks.look(pid));
        }
    }
    let found = looks.found.into_iter();
    let wait = |((thread, call, function), count)| Wait { thread, call, function, count };
    Ok(found.map(wait).collect())
}

#[derive(Default)]
struct Looks {
    interpreters: HashMap<i32, Option<Interpreter>>,
    /// By thread and call.
    readings: HashMap<(i32, i64), u64>,
    found: HashMap<(i32, i64, String), u64>,
}

impl Looks {
    fn look(&mut self, pid: i32) {
        let find = || Interpreter::find(pid).and_then(Result::ok);
        let Some(interpreter) = self.interpreters.entry(pid).or_insert_with(find) else { return };
        for tid in threads(pid) {
            let Some(before) = sleeper(pid, tid) else { continue };
            let readings = self.readings.entry((tid, before.1)).or_default();
            if *readings >= READINGS_MAX {
                continue;
            }
            let place = interpreter.place(tid);
            if let Some(function) = place.filter(|_| sleeper(pid, tid) == Some(before)) {
                *readings += 1;
                *self.found.entry((tid, before.1, function)).or_default() += 1;
            }
        }
    }
}

fn threads(pid: i32) -> Vec<i32> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// How often a thread has had a core (`proc_pid_schedstat`) and the call that it is in; `None` if it
/// does not sleep.
fn sleeper(pid: i32, tid: i32) -> Option<(u64, i64)> {
    let read = |name| fs::read_to_string(format!("/proc/{pid}/task/{tid}/{name}")).ok();
    let turns = read("schedstat")?.split_whitespace().nth(2)?.parse().ok()?;
    let stat = read("stat")?;
    let state = stat.rsplit_once(')')?.1.trim_start().chars().next()?;
    let call = read("syscall")?.split_whitespace().next()?.parse().ok()?;
    matches!(state, 'S' | 'D').then_some((turns, call))
}
