//! Bounds the folder: what no server has used for long is removed.
//!
//! Several servers may do so at once, and beside others that compile. One that uses a shared object
//! holds a lock on it (`flock(2)`), which ends with its process; whatever else is gone is compiled
//! again.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jissoku_os::clock;

/// Bytes of all shared objects: some thousand versions of a handler.
const SIZE_MAX: u64 = 128 << 20;

/// Time since the last use.
const AGE_MAX: Duration = Duration::from_hours(30 * 24);

/// Age of a file whose compiler was killed; others are complete after seconds.
const UNFINISHED_AGE_MAX: Duration = Duration::from_hours(24);

/// What is kept.
#[derive(Clone, Copy, Debug)]
struct Limits {
    size_max: u64,
    now: SystemTime,
}

/// Removes shared objects that are not in use, those first that were used last the longest time ago,
/// the lists of those that are gone, and files that were left behind.
///
/// # Errors
/// The folder cannot be read.
pub(super) fn make(folder: &Path) -> io::Result<()> {
    make_within(folder, Limits { size_max: SIZE_MAX, now: now() })
}

fn make_within(folder: &Path, Limits { size_max, now }: Limits) -> io::Result<()> {
    let is_older = |time: SystemTime, age| now.duration_since(time).is_ok_and(|it| it > age);
    let (mut libraries, mut lists) = (Vec::new(), Vec::new());
    for file in fs::read_dir(folder)?.flatten() {
        let path = file.path();
        let Ok(metadata) = file.metadata() else { continue };
        let (Ok(used), Ok(written)) = (metadata.accessed(), metadata.modified()) else { continue };
        match path.extension().and_then(|suffix| suffix.to_str()) {
            Some("so") => libraries.push((used, metadata.len(), path)),
            Some("files") => lists.push(path),
            Some("unfinished") if is_older(written, UNFINISHED_AGE_MAX) => remove(&path),
            _ => {}
        }
    }
    libraries.sort_unstable_by_key(|(used, ..)| std::cmp::Reverse(*used));
    let mut total = 0;
    for (used, size, path) in libraries {
        total += size;
        if (total > size_max || is_older(used, AGE_MAX)) && !is_in_use(&path) {
            remove(&path);
        }
    }
    for list in lists {
        if library_of(&list).is_some_and(|name| !folder.join(name).exists()) {
            remove(&list);
        }
    }
    Ok(())
}

fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(clock::wall_ns())
}

/// Another server may have removed it.
fn remove(path: &Path) {
    let _gone = fs::remove_file(path);
}

/// Whether a server holds the lock of a shared object, or that is not known.
fn is_in_use(path: &Path) -> bool {
    !File::open(path).is_ok_and(|file| file.try_lock().is_ok())
}

/// The name of the shared object that a list is for.
fn library_of(list: &Path) -> Option<PathBuf> {
    let text = fs::read_to_string(list).ok()?;
    text.lines().next().map(PathBuf::from)
}

/// Opens a shared object, and keeps it from being removed for as long as it is open.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    // The error is ignored: a file system without locks removes nothing.
    let _held = file.try_lock_shared();
    // Where access times are off, as well.
    let _noted = file.set_times(fs::FileTimes::new().set_accessed(now()));
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with files that were used some time ago.
    struct Folder(PathBuf, SystemTime);

    impl Folder {
        fn write(&self, name: &str, age: Duration, text: &str) {
            fs::write(self.0.join(name), text).expect("a file");
            let file = File::options().write(true).open(self.0.join(name)).expect("it is there");
            let times = fs::FileTimes::new().set_accessed(self.1 - age);
            file.set_times(times.set_modified(self.1 - age)).expect("it is ours");
        }

        fn make_within(&self, size_max: u64) -> Vec<String> {
            let limits = Limits { size_max, now: self.1 };
            make_within(&self.0, limits).expect("it can be read");
            let files = fs::read_dir(&self.0).expect("it can be read").flatten();
            let mut names: Vec<_> =
                files.map(|file| file.file_name().to_string_lossy().into_owned()).collect();
            names.sort_unstable();
            names
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _gone = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_was_used_last_stays_within_the_size_and_what_is_in_use_always() {
        let (hour, name) =
            (Duration::from_hours(1), format!("jissoku-room-{}", std::process::id()));
        let folder = Folder(std::env::temp_dir().join(name), now());
        fs::create_dir_all(folder.0.join("include-1")).expect("a folder");
        for (name, hours) in [("new", 1), ("second", 2), ("held", 3), ("third", 4)] {
            folder.write(&format!("{name}.so"), hour * hours, "1234567890");
            folder.write(&format!("{name}.files"), hour * hours, &format!("{name}.so\nabc /x\n"));
        }
        folder.write("old.so", AGE_MAX + hour, "1");
        folder.write("old.files", AGE_MAX + hour, "old.so\n");
        folder.write("1-0.unfinished", hour, "");
        folder.write("1-1.unfinished", hour * 25, "");
        let kept = ["1-0.unfinished", "held.files", "held.so", "include-1"];
        let others = ["new.files", "new.so", "second.files", "second.so"];
        let third = ["third.files", "third.so"];
        let all: Vec<_> = kept.into_iter().chain(others).chain(third).collect();
        assert_eq!(folder.make_within(40), all);
        let held = open(&folder.0.join("held.so")).expect("it is there");
        // It was used now, and so comes first.
        assert_eq!(folder.make_within(30), [&kept[..], &others[..]].concat());
        assert_eq!(folder.make_within(0), kept);
        drop(held);
        assert_eq!(folder.make_within(0), ["1-0.unfinished", "include-1"]);
    }
}
