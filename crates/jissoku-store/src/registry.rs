//! The stores that this process has open, each once, and the folder in which they are looked for.
#![expect(clippy::disallowed_types, reason = "locked when a store is opened, and never to use it")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// LMDB's locks of a process end when it closes any descriptor of the lock file, so it must not open
/// a file twice.
#[derive(Debug)]
pub(crate) struct Registry<T> {
    open: Mutex<BTreeMap<PathBuf, Weak<T>>>,
}

impl<T> Registry<T> {
    pub(crate) const fn new() -> Self {
        Self { open: Mutex::new(BTreeMap::new()) }
    }

    /// The open store of a place, or the one that `open` makes. The flag says whether it was open.
    pub(crate) fn get_or_open<E>(
        &self,
        place: &Path,
        open: impl FnOnce() -> Result<T, E>,
    ) -> Result<(Arc<T>, bool), E> {
        let mut all = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = all.get(place).and_then(Weak::upgrade) {
            return Ok((found, true));
        }
        let opened = Arc::new(open()?);
        all.retain(|_, store| store.strong_count() > 0);
        all.insert(place.to_owned(), Arc::downgrade(&opened));
        Ok((opened, false))
    }

    /// All that are open, by their places.
    pub(crate) fn all(&self) -> Vec<(PathBuf, Arc<T>)> {
        let all = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter_map(|(place, it)| Some((place.clone(), it.upgrade()?))).collect()
    }
}

static DEFAULT_FOLDER: OnceLock<PathBuf> = OnceLock::new();

/// Sets the folder of the stores of this process, once: that of the server's configuration.
pub fn set_default_folder(folder: PathBuf) {
    DEFAULT_FOLDER.get_or_init(|| folder);
}

/// The folder of the stores of this process, if its server has stores.
pub fn default_folder() -> Option<&'static Path> {
    DEFAULT_FOLDER.get().map(PathBuf::as_path)
}
