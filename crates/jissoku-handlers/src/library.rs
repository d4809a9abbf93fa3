//! A shared object that stays what it is, whatever becomes of its path.

use std::fs::{self, File, Metadata};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// A shared object that is open. One of a cache is kept there for as long.
#[derive(Debug)]
pub struct Library {
    /// Where it was when it was opened.
    pub path: PathBuf,
    /// The shared object.
    pub file: File,
}

impl Library {
    /// Whether its path leads to it.
    pub(crate) fn is_there(&self) -> bool {
        let identity = |file: Metadata| (file.dev(), file.ino());
        let there = fs::metadata(&self.path).map(identity).ok();
        there.is_some() && there == self.file.metadata().map(identity).ok()
    }

    /// What the loader finds it by: its path, which stacks and debuggers show, unless that is gone or
    /// another file meanwhile.
    pub(crate) fn loadable(&self) -> PathBuf {
        let descriptor = || format!("/proc/self/fd/{}", self.file.as_raw_fd()).into();
        if self.is_there() { self.path.clone() } else { descriptor() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_found_by_its_path_while_that_is_the_same_file() {
        let name = format!("jissoku-library-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("a folder");
        let (path, other) = (folder.join("a.so"), folder.join("b.so"));
        fs::write(&path, "first").expect("a file");
        let file = File::open(&path).expect("it is there");
        let library = Library { path: path.clone(), file };
        assert_eq!(library.loadable(), path);
        fs::write(&other, "second").expect("a file");
        fs::rename(&other, &path).expect("it is ours");
        assert_eq!(fs::read(library.loadable()).expect("it is open"), b"first");
        fs::remove_dir_all(folder).expect("it is ours");
        assert_eq!(fs::read(library.loadable()).expect("it is open"), b"first");
    }
}
