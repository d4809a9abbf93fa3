//! How long threads were ready and had no core, from `/proc/PID/task/TID/schedstat`.
//!
//! The files stay open, so that a reading is one `pread(2)` for each thread, and one `statx(2)` for each
//! process: the number of links of its folder of threads says how many there are (`proc(5)`). Only when
//! that changes, or a thread has ended, the folder is listed again.
//!
//! A thread that starts counts from its start. One that ends keeps what was read of it last: what it
//! waited after that is lost, and no sum ever becomes less.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// What threads have waited, since they started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waited {
    /// Nanoseconds in which they were ready and had no core. A wake-up counts from the moment at
    /// which the thread is ready until it runs.
    pub wait_ns: u64,
    /// How often one of them got a core.
    pub runs: u64,
}

impl Waited {
    /// What was added since an earlier reading.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            wait_ns: self.wait_ns.saturating_sub(earlier.wait_ns),
            runs: self.runs.saturating_sub(earlier.runs),
        }
    }

    fn add(&mut self, other: Self) {
        self.wait_ns += other.wait_ns;
        self.runs += other.runs;
    }
}

/// The threads of some processes.
#[derive(Debug)]
pub struct RunQueue {
    processes: Vec<Process>,
    /// The sum over threads that have ended.
    ended: Waited,
}

impl RunQueue {
    /// Opens the files of all threads of `pids`; `None` if this kernel counts no waiting
    /// (`CONFIG_SCHED_INFO`), or if the files of one of the processes cannot be read.
    pub fn of(pids: &[i32]) -> Option<Self> {
        Self::below(Path::new("/proc"), pids)
    }

    fn below(proc: &Path, pids: &[i32]) -> Option<Self> {
        let open = |pid: &i32| Process::open(proc.join(pid.to_string()).join("task")).ok();
        let processes = pids.iter().map(open).collect::<Option<Vec<_>>>()?;
        (!processes.is_empty()).then(|| Self { processes, ended: Waited::default() })
    }

    /// What all threads have waited so far.
    pub fn waited(&mut self) -> Waited {
        let mut sum = Waited::default();
        for process in &mut self.processes {
            sum.add(process.waited(&mut self.ended));
        }
        sum.add(self.ended);
        sum
    }
}

/// One process.
#[derive(Debug)]
struct Process {
    /// The folder of its threads, to list them.
    path: PathBuf,
    /// The same, open.
    folder: File,
    /// Links of the folder when it was listed.
    links: u64,
    threads: BTreeMap<i32, Thread>,
}

/// One thread: its file, and what was read last.
#[derive(Debug)]
struct Thread {
    file: File,
    waited: Waited,
}

impl Process {
    fn open(path: PathBuf) -> io::Result<Self> {
        let folder = File::open(&path)?;
        let mut process = Self { path, folder, links: 0, threads: BTreeMap::new() };
        process.list()?;
        if process.threads.is_empty() { Err(io::ErrorKind::NotFound.into()) } else { Ok(process) }
    }

    /// Opens the files of new threads.
    fn list(&mut self) -> io::Result<()> {
        self.links = self.folder.metadata()?.nlink();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let Some(tid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            if self.threads.contains_key(&tid) {
                continue;
            }
            // A thread may end between listing and opening.
            let Ok(file) = File::open(entry.path().join("schedstat")) else { continue };
            self.threads.insert(tid, Thread { file, waited: Waited::default() });
        }
        Ok(())
    }

    /// Reads all threads, after looking for new ones if their number has changed; adds those that have
    /// ended to `ended`.
    fn waited(&mut self, ended: &mut Waited) -> Waited {
        let links = self.folder.metadata().map_or(0, |found| found.nlink());
        let (mut sum, has_ended) = self.read(ended);
        if has_ended || links != self.links {
            // A process that has ended has no threads to list.
            let _gone = self.list();
            let (again, _) = self.read(ended);
            sum = again;
        }
        sum
    }

    fn read(&mut self, ended: &mut Waited) -> (Waited, bool) {
        let (mut sum, before) = (Waited::default(), self.threads.len());
        self.threads.retain(|_, thread| {
            let read = read_waited(&thread.file);
            thread.waited = read.unwrap_or(thread.waited);
            if read.is_some() { &mut sum } else { &mut *ended }.add(thread.waited);
            read.is_some()
        });
        (sum, self.threads.len() < before)
    }
}

/// Reads one file; `None` if its thread has ended.
fn read_waited(file: &File) -> Option<Waited> {
    let mut text = [0; 80];
    let length = file.read_at(&mut text, 0).ok()?;
    parse(std::str::from_utf8(&text[..length]).ok()?)
}

/// Time on a core, time ready for one, and how often one was got (`proc_pid_schedstat(5)`).
fn parse(text: &str) -> Option<Waited> {
    let mut fields = text.split_ascii_whitespace().skip(1);
    let mut field = || fields.next()?.parse().ok();
    Some(Waited { wait_ns: field()?, runs: field()? })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::{env, process, thread};

    use super::*;

    /// A folder like `/proc` with one process that has these threads; `None` for one without the file.
    struct Proc(PathBuf);

    impl Proc {
        fn new(name: &str, threads: &[(&str, Option<&str>)]) -> Self {
            let proc = Self(env::temp_dir().join(format!("jissoku-{name}-{}", process::id())));
            for (tid, text) in threads {
                proc.write(tid, *text);
            }
            proc
        }

        fn write(&self, tid: &str, text: Option<&str>) {
            let folder = self.0.join("7/task").join(tid);
            fs::create_dir_all(&folder).expect("a folder can be made");
            if let Some(text) = text {
                fs::write(folder.join("schedstat"), text).expect("a file can be written");
            }
        }
    }

    impl Drop for Proc {
        fn drop(&mut self) {
            let _left = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_waiting_of_all_threads_is_added_up() {
        let proc = Proc::new("waits", &[("7", Some("900 20 3\n")), ("8", Some("1 5 4\n"))]);
        let mut queue = RunQueue::below(&proc.0, &[7]).expect("there are files");
        let first = queue.waited();
        assert_eq!(first, Waited { wait_ns: 25, runs: 7 });
        proc.write("8", Some("5000000000 1005 14\n"));
        let waited = queue.waited();
        assert_eq!(waited.since(first), Waited { wait_ns: 1_000, runs: 10 });
        assert_eq!(first.since(waited), Waited::default());
    }

    #[test]
    fn what_a_thread_waited_that_has_ended_stays_in_the_sum() {
        let proc = Proc::new("ended", &[("7", Some("1 20 3\n")), ("8", Some("1 5 4\n"))]);
        let mut queue = RunQueue::below(&proc.0, &[7]).expect("there are files");
        let first = queue.waited();
        // The kernel fails such a read; a file without text is as unreadable.
        proc.write("8", Some(""));
        assert_eq!(queue.waited(), first);
        proc.write("7", Some("1 21 4\n"));
        assert_eq!(queue.waited(), Waited { wait_ns: 26, runs: 8 });
    }

    #[test]
    fn without_the_files_or_the_process_nothing_is_known() {
        let proc = Proc::new("without", &[("7", None)]);
        assert!(RunQueue::below(&proc.0, &[7]).is_none());
        assert!(RunQueue::below(&proc.0, &[8]).is_none());
        assert!(RunQueue::below(&proc.0, &[]).is_none());
        let one = Proc::new("one-without", &[("7", None), ("8", Some("1 2 3\n"))]);
        let mut queue = RunQueue::below(&one.0, &[7]).expect("there is a file");
        assert_eq!(queue.waited(), Waited { wait_ns: 2, runs: 3 });
    }

    #[test]
    fn threads_of_this_process_are_seen_when_they_start_and_after_they_end() {
        let us = i32::try_from(process::id()).expect("a pid is positive");
        let mut queue = RunQueue::of(&[us]).expect("this kernel counts it");
        let before = queue.waited();
        let (end, ends) = channel::<()>();
        let (start, started) = channel();
        let worker = thread::spawn(move || {
            start.send(own_tid()).expect("it is awaited");
            let _ended = ends.recv();
        });
        let tid = started.recv().expect("it starts");
        let during = queue.waited();
        assert!(queue.processes[0].threads.contains_key(&tid));
        assert!(during.runs > before.runs, "{before:?} {during:?}");
        drop(end);
        worker.join().expect("it ends");
        let after = queue.waited();
        assert!(after.runs >= during.runs && after.wait_ns >= during.wait_ns);
    }

    fn own_tid() -> i32 {
        rustix::thread::gettid().as_raw_nonzero().get()
    }
}
