//! The folder of shared objects that were compiled before, and of the header for their sources.
//!
//! A name is the digest of all that the content depends on, so that a file never changes, and several
//! servers may use the folder. All of it may be removed at any time: who uses a shared object has it
//! open.

mod room;

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use jissoku_os::privilege;

use crate::library::Library;
use ring::digest::{SHA256, digest};

/// The permission of others than the owner to write.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Bytes of a digest in a name.
const NAME_SIZE: usize = 16;

/// A folder that only this user can write to, because its files are run.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// Opens the first of these folders that can be used; it is made unless it exists.
    ///
    /// # Errors
    /// None can: a sentence about the first.
    pub fn open(folders: &[PathBuf]) -> Result<Self, String> {
        let mut why = None;
        for folder in folders {
            match prepare(folder) {
                Ok(()) => return Ok(Self { folder: folder.clone() }),
                Err(error) => why = why.or(Some((folder, error))),
            }
        }
        Err(why.map_or_else(
            || "there is no folder for compiled handlers: set XDG_CACHE_HOME".to_owned(),
            |(folder, error)| {
                let folder = folder.display();
                format!("cannot use {folder} for compiled handlers: {error}; set XDG_CACHE_HOME")
            },
        ))
    }

    /// The path of a file in it.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A path for a file that is not complete yet, which nothing else uses.
    pub(crate) fn unfinished(&self) -> PathBuf {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        self.folder.join(format!("{}-{number}.unfinished", process::id()))
    }

    /// A shared object that was compiled before, if it is there.
    pub(crate) fn library(&self, name: &str) -> Option<Library> {
        let path = self.file(name);
        let library = Library { file: room::open(&path).ok()?, path };
        // Another server may have removed it before it was locked.
        library.is_there().then_some(library)
    }

    /// Keeps a new shared object by this name, and makes room for it.
    pub(crate) fn keep(&self, unfinished: &Path, name: &str) -> io::Result<Library> {
        let (path, file) = (self.file(name), room::open(unfinished)?);
        fs::rename(unfinished, &path)?;
        // The error is ignored: the folder is larger then.
        let _made = room::make(&self.folder);
        Ok(Library { path, file })
    }

    /// Writes a file, which others see as a whole or not at all.
    pub(crate) fn write(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let unfinished = self.unfinished();
        fs::write(&unfinished, content)?;
        fs::rename(unfinished, path)
    }
}

fn prepare(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let metadata = fs::metadata(folder)?;
    if metadata.uid() != privilege::effective_user() {
        return Err(io::Error::other("it belongs to another user"));
    }
    if metadata.mode() & WRITABLE_BY_OTHERS != 0 {
        return Err(io::Error::other("other users can write to it"));
    }
    Ok(())
}

/// A name for what depends on these parts.
pub(crate) fn name_of(parts: &[&[u8]]) -> String {
    let mut bytes = Vec::new();
    for part in parts {
        // The size comes before each, so that no two lists have the same bytes.
        bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
        bytes.extend_from_slice(part);
    }
    let found = digest(&SHA256, &bytes);
    let halves = found.as_ref()[..NAME_SIZE].iter().flat_map(|byte| [byte >> 4, byte & 15]);
    halves.filter_map(|half| char::from_digit(half.into(), 16)).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn names_depend_on_every_part_and_its_ends() {
        let names = [
            name_of(&[b"ab", b"c"]),
            name_of(&[b"a", b"bc"]),
            name_of(&[b"abc"]),
            name_of(&[b"abc", b""]),
        ];
        for (index, name) in names.iter().enumerate() {
            assert!(name.len() == 2 * NAME_SIZE && !names[..index].contains(name), "{names:?}");
        }
    }

    #[test]
    fn a_folder_that_others_can_write_to_is_refused() {
        let root = std::env::temp_dir().join(format!("jissoku-cache-{}", process::id()));
        let (open, own) = (root.join("open"), root.join("own/deep"));
        fs::create_dir_all(&open).expect("a folder");
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).expect("it is ours");
        let refused = Cache::open(std::slice::from_ref(&open)).expect_err("it is open to all");
        assert!(refused.contains("other users can write to it"), "{refused}");
        let cache = Cache::open(&[open, own.clone()]).expect("the other one is made");
        assert_eq!(cache.file("x"), own.join("x"));
        assert!(Cache::open(&[]).is_err());
        fs::remove_dir_all(root).expect("it is ours");
    }
}
