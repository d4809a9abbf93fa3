//! The file of a handler in C, as the user names it.

use std::path::{Path, PathBuf};

use jissoku_handlers::Language;

use super::failure::Failure;
use super::watch::Files;

/// The suffix of a shared object.
const LIBRARY: &str = "so";

/// What `--reload` looks at: below the folder of a source, and of a shared object.
const SOURCES: &[&str] = &["c", "h", "cc", "cpp", "cxx", "hh", "hpp", "hxx", "inc"];
const LIBRARIES: &[&str] = &[LIBRARY];

/// A source or a shared object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HandlerFile(PathBuf);

impl HandlerFile {
    /// The positional argument, if it is one by its suffix and not a directory.
    pub(super) fn parse(argument: Option<&Path>) -> Option<Self> {
        let path = argument?;
        let is_library = path.extension().is_some_and(|suffix| suffix == LIBRARY);
        let is_one = (is_library || Language::of(path).is_some()) && !path.is_dir();
        is_one.then(|| Self(path.to_owned()))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// The language of a source.
    pub(super) fn language(&self) -> Option<Language> {
        Language::of(&self.0)
    }

    /// As the user has written it.
    pub(super) fn name(&self) -> String {
        self.0.display().to_string()
    }

    /// Rejects a file that is not there.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let refuse =
            |error| Failure::of_input(&format!("cannot read {}: {error}", self.0.display()));
        std::fs::File::open(&self.0).map(drop).map_err(refuse)
    }

    /// The files whose changes `--reload` acts on.
    pub(super) fn watched(&self) -> Files {
        let folder = self.0.parent().filter(|folder| !folder.as_os_str().is_empty());
        let suffixes = if self.language().is_some() { SOURCES } else { LIBRARIES };
        Files::Below(folder.unwrap_or_else(|| Path::new(".")).to_owned(), suffixes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handler_is_known_by_its_suffix() {
        for name in ["hello.c", "./a.b/hello.so", "x.cc", "x.cpp", "x.cxx"] {
            let found = HandlerFile::parse(Some(Path::new(name))).expect("it is one");
            assert_eq!(found.name(), name);
        }
        for name in ["hello", "hello.h", "hello.py", "c", ".c", "app:c", "page.html"] {
            assert_eq!(HandlerFile::parse(Some(Path::new(name))), None, "{name}");
        }
        assert_eq!(HandlerFile::parse(None), None);
    }

    #[test]
    fn the_folder_of_a_source_is_watched() {
        let watched = |name: &str| HandlerFile(name.into()).watched();
        assert_eq!(watched("hello.c"), Files::Below(".".into(), SOURCES));
        assert_eq!(watched("src/hello.c"), Files::Below("src".into(), SOURCES));
        assert_eq!(watched("a/hello.so"), Files::Below("a".into(), LIBRARIES));
    }
}
