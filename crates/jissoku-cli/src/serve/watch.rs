//! `--reload`: sends this process the signal to reload when a source changes, the configuration file,
//! or that of `--env-file`.
//!
//! The files are compared several times a second instead of watched by the kernel: that also works
//! on network and container file systems, needs no library, and costs a few milliseconds per
//! thousand files, which matters little during development.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
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

/// Files that are watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Files {
    /// Those below a folder that have one of these suffixes.
    Below(PathBuf, &'static [&'static str]),
    /// This one, unless it is a pipe or a device.
    One(PathBuf),
}

/// Files, and how they were when they were first read.
#[derive(Debug, Default)]
pub(super) struct Watched {
    files: Vec<Files>,
    seen: Snapshot,
}

/// The thread that watches, once there is something to watch.
#[derive(Debug, Default)]
pub(super) struct Watcher(Option<Sender<Watched>>);

impl Watcher {
    /// Reloads the server from now on when one of these files has changed; `None` is no file.
    pub(super) fn watch(&mut self, watched: Option<Watched>) -> Result<(), Failure> {
        if let Some(sender) = &self.0 {
            // The thread receives as long as the process lives.
            let _sent = sender.send(watched.unwrap_or_default());
            return Ok(());
        }
        let Some(watched) = watched else { return Ok(()) };
        let (sender, others) = mpsc::channel();
        let watcher = thread::Builder::new().name("watcher".to_owned());
        let started = watcher.spawn(move || watched.reload_on_changes(&others));
        started.map_err(|error| Failure::of_work(&error))?;
        self.0 = Some(sender);
        Ok(())
    }
}

impl Watched {
    /// Reads these files.
    pub(super) fn of(files: Vec<Files>) -> Self {
        let seen = snapshot(&files);
        Self { files, seen }
    }

    /// Reloads the server when a file has changed, of these or of `others` from when they come.
    fn reload_on_changes(mut self, others: &Receiver<Self>) {
        loop {
            pause();
            for other in others.try_iter() {
                self.replace(other);
            }
            if self.take_change() {
                signal::reload_this_process();
            }
        }
    }

    /// Watches other files. Those that were watched before are compared with how they were then, so
    /// that no change of them is missed.
    pub(super) fn replace(&mut self, other: Self) {
        let before = std::mem::replace(self, other).seen;
        for (path, stamp) in &mut self.seen {
            *stamp = before.get(path).copied().unwrap_or(*stamp);
        }
    }

    /// Waits for a change, or for a signal to reload, which both return `true`, or to stop.
    pub(super) fn wait_for_change_or_signal(
        &mut self,
        signals: &mut SignalSet,
    ) -> Result<bool, Failure> {
        print_error(&format!("waiting for a change {}", places(&self.files)));
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

/// Where files are, in the words that follow "a change".
fn places(files: &[Files]) -> String {
    let (mut places, mut preposition) = (String::new(), "");
    for file in files {
        let (of_this, path) = match file {
            Files::Below(folder, _) => ("below", folder),
            Files::One(file) => ("of", file),
        };
        if !places.is_empty() {
            places.push_str(if preposition == of_this { ", " } else { " or " });
        }
        if preposition != of_this {
            places.push_str(of_this);
            places.push(' ');
        }
        preposition = of_this;
        places.push_str(&path.display().to_string());
    }
    places
}

/// Waits for [`INTERVAL`].
fn pause() {
    // Without descriptors only the timeout ends it; an error ends it early.
    let _ready = poll::wait_readable(&[], Some(INTERVAL));
}

fn snapshot(watched: &[Files]) -> Snapshot {
    let mut files = Snapshot::new();
    for file in watched {
        match file {
            Files::Below(folder, suffixes) => add_below((folder, suffixes), &mut files),
            Files::One(file) => add(file.clone(), &mut files),
        }
    }
    files
}

/// Adds a file. One that is unreadable is omitted: it may have been removed.
fn add(path: PathBuf, files: &mut Snapshot) {
    if let Ok(metadata) = fs::metadata(&path)
        && metadata.is_file()
    {
        files.insert(path, (metadata.len(), metadata.modified().ok()));
    }
}

/// Adds the files with these suffixes below `directory`.
fn add_below((directory, suffixes): (&Path, &[&str]), files: &mut Snapshot) {
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
                add_below((&path, suffixes), files);
            }
        } else if path.extension().is_some_and(|it| suffixes.iter().any(|suffix| it == *suffix)) {
            add(path, files);
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
        let files = [Files::Below(root.clone(), &["py"])];
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

    #[test]
    fn a_file_that_stays_is_compared_with_how_it_was() {
        let name = format!("jissoku-watch-others-{}", std::process::id());
        let root = std::env::temp_dir().join(name);
        fs::create_dir_all(&root).expect("a directory");
        let [stays, comes, goes] = ["stays", "comes", "goes"].map(|name| root.join(name));
        for path in [&stays, &comes, &goes] {
            fs::write(path, "1").expect("a file");
        }
        let of = |files: [&PathBuf; 2]| Watched::of(files.map(|it| Files::One(it.clone())).into());
        let mut watched = of([&stays, &goes]);
        fs::write(&stays, "22").expect("a file");
        watched.replace(of([&stays, &comes]));
        let changed = |watched: &Watched| {
            let now = snapshot(&watched.files);
            first_difference(&watched.seen, &now).map(Path::to_owned)
        };
        assert_eq!(changed(&watched).as_ref(), Some(&stays));
        watched.seen = snapshot(&watched.files);
        fs::write(&goes, "22").expect("a file");
        assert_eq!(changed(&watched), None);
        fs::write(&comes, "22").expect("a file");
        assert_eq!(changed(&watched).as_ref(), Some(&comes));
        watched.replace(Watched::default());
        assert_eq!(changed(&watched), None);
        fs::remove_dir_all(&root).expect("the directory can be removed");
    }

    #[test]
    fn a_device_is_no_file_that_changes() {
        assert_eq!(snapshot(&[Files::One("/dev/null".into())]), Snapshot::new());
    }

    #[test]
    fn places_are_words() {
        let below = |name: &str| Files::Below(name.into(), &[]);
        let one = |name: &str| Files::One(name.into());
        assert_eq!(places(&[below("a")]), "below a");
        assert_eq!(places(&[below("a"), below("b"), one("c"), one("d")]), "below a, b or of c, d");
        assert_eq!(places(&[one("c")]), "of c");
    }
}
