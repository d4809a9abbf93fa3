//! The tables against a model, and what a store promises of its options and files.

mod batches;
mod damage;
mod model;
mod options;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::options::{Options, WhenFull};
use crate::{SIZE_MIN, Store};

/// A folder that is removed with all in it.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let name = format!("jissoku-store-{}-{number}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    fn path(&self) -> &Path {
        &self.0
    }

    fn open(&self, options: Options) -> Store {
        Store::open(self.path(), "shop", Some(&options)).expect("it opens")
    }

    /// The file of a store that is not in memory.
    fn data(&self) -> PathBuf {
        self.path().join("shop").join("data.mdb")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _removed = std::fs::remove_dir_all(&self.0);
    }
}

const SMALL: Options = Options { size: SIZE_MIN, when_full: WhenFull::Refuse, ..Options::DEFAULT };
