//! Files that say how to serve: the configuration, variables, certificates, keys.
//!
//! A worker process has them as its parent has read them, so that it can be replaced while they are
//! edited, and so that all workers of a pool have the same. Each reload reads them anew.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jissoku_os::inherited::Inherited;
use jissoku_os::sealed_file;

/// The names of the descriptors of a worker process: of what was read, and of each shared object of
/// handlers.
const FILES: &str = "jissoku-inputs";
const LIBRARY: &str = "jissoku-library";

/// What was read of files, by their paths.
#[derive(Default)]
pub(super) struct Inputs {
    files: RefCell<BTreeMap<PathBuf, Vec<u8>>>,
    /// The shared objects that a worker has got of its parent.
    libraries: Vec<OwnedFd>,
}

impl Inputs {
    /// Takes what the parent of this worker process has read out of the descriptors that it has
    /// inherited.
    pub(super) fn take(inherited: &mut Vec<Inherited>) -> io::Result<Self> {
        let mut inputs = Self::default();
        for Inherited { name, fd } in inherited.extract_if(.., |one| is_ours(&one.name)) {
            if name == LIBRARY {
                inputs.libraries.push(fd);
            } else {
                inputs.files = decode(&sealed_file::content(&File::from(fd))?)?.into();
            }
        }
        Ok(inputs)
    }

    /// The content of a file, the same as before if it was read before.
    pub(super) fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        if let Some(content) = self.files.borrow().get(path) {
            return Ok(content.clone());
        }
        let content = fs::read(path)?;
        self.files.borrow_mut().insert(path.to_owned(), content.clone());
        Ok(content)
    }

    /// As [`Inputs::read`], of a text.
    pub(super) fn read_text(&self, path: &Path) -> io::Result<String> {
        let invalid = |_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8");
        String::from_utf8(self.read(path)?).map_err(invalid)
    }

    /// What worker processes inherit: all that was read until now, and the shared objects.
    pub(super) fn for_workers(
        &self,
        libraries: Vec<File>,
    ) -> io::Result<Vec<(String, Arc<OwnedFd>)>> {
        let files = sealed_file::create(FILES, &encode(&self.files.borrow()))?;
        let libraries = libraries.into_iter().map(|library| (LIBRARY, library));
        let all = [(FILES, files)].into_iter().chain(libraries);
        Ok(all.map(|(name, file)| (name.to_owned(), Arc::new(file.into()))).collect())
    }

    /// The shared object of this index that the parent has passed.
    pub(super) fn library(&self, index: usize) -> io::Result<File> {
        let none = || io::Error::other("the parent process has passed no shared object");
        Ok(self.libraries.get(index).ok_or_else(none)?.try_clone()?.into())
    }
}

impl fmt::Debug for Inputs {
    /// Without what was read: keys are among it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Inputs").finish_non_exhaustive()
    }
}

fn is_ours(name: &str) -> bool {
    [FILES, LIBRARY].contains(&name)
}

/// Paths and contents, each after its size.
fn encode(files: &BTreeMap<PathBuf, Vec<u8>>) -> Vec<u8> {
    let parts = files.iter().flat_map(|(path, content)| [path.as_os_str().as_bytes(), content]);
    parts.flat_map(|part| [&(part.len() as u64).to_le_bytes()[..], part].concat()).collect()
}

fn decode(mut bytes: &[u8]) -> io::Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut files = BTreeMap::new();
    while !bytes.is_empty() {
        let (path, content) = (take_part(&mut bytes), take_part(&mut bytes));
        let (path, content) = path.zip(content).ok_or(io::ErrorKind::InvalidData)?;
        files.insert(OsString::from_vec(path).into(), content);
    }
    Ok(files)
}

fn take_part(bytes: &mut &[u8]) -> Option<Vec<u8>> {
    let (size, rest) = bytes.split_first_chunk()?;
    let (part, rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*size)).ok()?)?;
    *bytes = rest;
    Some(part.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a worker process gets.
    fn passed(inputs: &Inputs, libraries: Vec<File>) -> (Inputs, Vec<String>) {
        let all = inputs.for_workers(libraries).expect("there is memory");
        let socket = ("a socket".to_owned(), Arc::new(File::open("/dev/null").expect("it").into()));
        let all = all.into_iter().chain([socket]);
        let of_child = |(name, fd): (String, Arc<OwnedFd>)| Inherited {
            name,
            fd: fd.try_clone().expect("a descriptor"),
        };
        let mut inherited: Vec<_> = all.map(of_child).collect();
        let taken = Inputs::take(&mut inherited).expect("it is complete");
        (taken, inherited.into_iter().map(|left| left.name).collect())
    }

    #[test]
    fn a_worker_has_what_its_parent_has_read() {
        let name = format!("jissoku-inputs-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("a folder");
        let (text, bytes, later) =
            (folder.join("text"), folder.join("bytes"), folder.join("later"));
        fs::write(&text, "first").expect("a file");
        fs::write(&bytes, b"\xff\n\0").expect("a file");
        let parent = Inputs::default();
        assert_eq!(parent.read_text(&text).expect("it is there"), "first");
        assert_eq!(parent.read(&bytes).expect("it is there"), b"\xff\n\0");
        assert!(parent.read_text(&bytes).is_err() && parent.read(&later).is_err());
        fs::write(&text, "second").expect("it is ours");
        fs::remove_file(&bytes).expect("it is ours");
        let library = File::open(&text).expect("it is there");
        let (worker, left) = passed(&parent, vec![library]);
        assert_eq!(left, ["a socket"]);
        let library = worker.library(0).expect("it was passed");
        assert_eq!(io::read_to_string(library).expect("it is open"), "second");
        assert!(worker.library(1).is_err());
        for inputs in [&parent, &worker] {
            assert_eq!(inputs.read_text(&text).expect("it is known"), "first");
            assert_eq!(inputs.read(&bytes).expect("it is known"), b"\xff\n\0");
        }
        fs::write(&later, "not known before").expect("a file");
        assert_eq!(worker.read_text(&later).expect("it is there"), "not known before");
        assert_eq!(Inputs::default().read_text(&text).expect("it is there"), "second");
        assert!(!format!("{parent:?}").contains("first"), "contents are secret");
        fs::remove_dir_all(folder).expect("it is ours");
    }

    #[test]
    fn what_is_cut_off_is_an_error() {
        let files = BTreeMap::from([("a".into(), b"b".to_vec()), ("c".into(), Vec::new())]);
        let whole = encode(&files);
        assert_eq!(decode(&whole).expect("it is complete"), files);
        for size in (1..whole.len()).filter(|size| *size != 18) {
            assert!(decode(&whole[..size]).is_err(), "{size}");
        }
    }
}
