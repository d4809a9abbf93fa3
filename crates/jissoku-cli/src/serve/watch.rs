//! `--reload`: sends this process the signal to reload when a source changes.
//!
//! The files are compared several times a second instead of watched by the kernel: that also works
//! on network and container file systems, needs no library, and costs a few milliseconds per
//! thousand files, which matters little during development.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

use jissoku_os::{poll, signal};
use jissoku_server::SignalSet;

use super::failure::{Failure, print_error};

/// Time between two comparisons. A change is reported after an interval without a further change.
const INTERVAL: Duration = Duration::from_millis(250);

/// Directories below the first that are not visited, besides hidden ones.
const SKIPPED: [&str; 2] = ["__pycache__", "node_modules"];

/// Size and modification time of each file.
type Snapshot = BTreeMap<PathBuf, (u64, Option<SystemTime>)>;

/// The files below a folder that have one of these suffixes.
#[derive(Clone, Debug)]
pub(super) struct Files {
    pub(super) folder: PathBuf,
    pub(super) suffixes: &'static [&'static str],
}

/// Files, and how they were when they were first read.
pub(super) struct Watched {
    files: Vec<Files>,
    seen: Snapshot,
}

impl Watched {
    /// Reads these files.
    pub(super) fn of(files: Vec<Files>) -> Self {
        let seen = snapshot(&files);
        Self { files, seen }
    }

    /// Starts a thread that reloads the server when a file has changed.
    pub(super) fn reload_on_change(mut self) -> Result<(), Failure> {
        let watcher = thread::Builder::new().name("watcher".to_owned());
        let started = watcher.spawn(move || {
            loop {
                self.wait_for_change();
                signal::reload_this_process();
            }
        });
        started.map(drop).map_err(|error| Failure::of_work(&error))
    }

    /// Waits for a change, or for a signal to reload, which both return `true`, or to stop.
    pub(super) fn wait_for_change_or_signal(
        &mut self,
        signals: &mut SignalSet,
    ) -> Result<bool, Failure> {
        let folders: Vec<_> = self.files.iter().map(|it| it.folder.display().to_string()).collect();
        print_error(&format!("waiting for a change below {}", folders.join(", ")));
        loop {
            let sources =
                [&signals.terminate, &signals.interrupt, &signals.reload].map(AsFd::as_fd);
            let ready = poll::wait_readable(&sources, Some(INTERVAL));
            ready.map_err(|error| Failure::of_work(&error))?;
            if signals.terminate.count() + signals.interrupt.count() > 0 {
                return Ok(false);
            }
            if signals.reload.count() > 0 || self.take_change() {
                return Ok(true);
            }
        }
    }

    /// Returns after a change, once an interval has passed without a further one.
    fn wait_for_change(&mut self) {
        pause();
        while !self.take_change() {
            pause();
        }
    }

    /// Returns whether files have changed, and waits then until an interval has passed without a
    /// further change.
    fn take_change(&mut self) -> bool {
        let mut now = snapshot(&self.files);
        let Some(changed) = first_difference(&self.seen, &now) else { return false };
        print_error(&format!("{} has changed", changed.display()));
        loop {
            pause();
            let next = snapshot(&self.files);
            if next == now {
                break;
            }
            now = next;
        }
        self.seen = now;
        true
    }
}

/// Waits for [`INTERVAL`].
fn pause() {
    // Without descriptors only the timeout ends it; an error ends it early.
    let _ready = poll::wait_readable(&[], Some(INTERVAL));
}

fn snapshot(watched: &[Files]) -> Snapshot {
    let mut files = Snapshot::new();
    for Files { folder, suffixes } in watched {
        add((folder, suffixes), &mut files);
    }
    files
}

/// Adds the files with these suffixes below `directory`. Unreadable ones are omitted: they may have
/// been removed.
fn add((directory, suffixes): (&Path, &[&str]), files: &mut Snapshot) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        let name = name.to_string_lossy();
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            // This file marks a virtual environment.
            let is_skipped = name.starts_with('.')
                || SKIPPED.contains(&&*name)
                || path.join("pyvenv.cfg").exists();
            if !is_skipped {
                add((&path, suffixes), files);
            }
        } else if path.extension().is_some_and(|it| suffixes.iter().any(|suffix| it == *suffix))
            && let Ok(metadata) = fs::metadata(&path)
        {
            files.insert(path, (metadata.len(), metadata.modified().ok()));
        }
    }
}

/// The first file that was added, changed or removed.
fn first_difference<'a>(before: &'a Snapshot, now: &'a Snapshot) -> Option<&'a Path> {
    let changed = now.iter().find(|(path, stamp)| before.get(*path) != Some(*stamp));
    let removed = before.iter().find(|(path, _)| !now.contains_key(*path));
    changed.or(removed).map(|(path, _)| &**path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_changed_and_removed_python_files_are_differences() {
        let name = format!("jissoku-watch-{}", std::process::id());
        let root = std::env::temp_dir().join(name);
        for below in ["package", ".hidden", "__pycache__", "venv"] {
            fs::create_dir_all(root.join(below)).expect("a directory");
        }
        fs::write(root.join("venv/pyvenv.cfg"), "").expect("a file");
        let files = [Files { folder: root.clone(), suffixes: &["py"] }];
        let snapshot = || snapshot(&files);
        let empty = snapshot();
        for ignored in ["x.txt", ".hidden/x.py", "__pycache__/x.py", "venv/x.py"] {
            fs::write(root.join(ignored), "x").expect("a file");
        }
        assert_eq!(first_difference(&empty, &snapshot()), None);
        let module = root.join("package/x.py");
        fs::write(&module, "1").expect("a file");
        let one = snapshot();
        assert_eq!(first_difference(&empty, &one), Some(&*module));
        fs::write(&module, "22").expect("a file");
        assert_eq!(first_difference(&one, &snapshot()), Some(&*module));
        fs::remove_dir_all(&root).expect("the directory can be removed");
        assert_eq!(first_difference(&one, &snapshot()), Some(&*module));
    }
}
