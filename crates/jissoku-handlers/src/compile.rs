//! Compiles handlers, unless that was done before.
//!
//! A list is kept for each combination of source, compiler, flags and header, named by a digest of
//! these. It names the shared object, and has the digest of each file that the compiler has read: the
//! object is used again only if none of these files has changed.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use jissoku_os::clock;

use crate::HEADER;
use crate::cache::{Cache, name_of};
use crate::dependencies;
use crate::error::HandlerError;
use crate::library::Library;

/// The flags of every handler.
const FLAGS: [&str; 4] = ["-O2", "-shared", "-fPIC", "-Wall"];

/// The language of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// Compiled with `$CC`, or `cc`.
    C,
    /// Compiled with `$CXX`, or `c++`.
    Cpp,
}

impl Language {
    /// The language of a file with this name, if it is a source.
    pub fn of(file: &Path) -> Option<Self> {
        match file.extension()?.to_str()? {
            "c" => Some(Self::C),
            "cc" | "cpp" | "cxx" => Some(Self::Cpp),
            _ => None,
        }
    }

    /// The environment variable that names the compiler.
    pub const fn variable(self) -> &'static str {
        match self {
            Self::C => "CC",
            Self::Cpp => "CXX",
        }
    }

    const fn usual_compiler(self) -> &'static str {
        match self {
            Self::C => "cc",
            Self::Cpp => "c++",
        }
    }
}

/// A compiler and its flags.
#[derive(Clone, Debug)]
pub struct Compiler {
    language: Language,
    program: OsString,
    /// Words behind the program, as in `ccache gcc`.
    words: Vec<OsString>,
    flags: Vec<String>,
    libraries: Vec<String>,
}

impl Compiler {
    /// The compiler of a language: `command` if it is given, which may have several words. `flags` and
    /// `libraries` are for compiler and linker, separated by white space.
    pub fn new(language: Language, command: Option<&OsStr>, flags: &str, libraries: &str) -> Self {
        let command = command.unwrap_or_default().as_bytes();
        let words = command.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let mut words = words.map(|word| OsString::from_vec(word.to_vec()));
        let split = |text: &str| text.split_whitespace().map(str::to_owned).collect();
        Self {
            language,
            program: words.next().unwrap_or_else(|| language.usual_compiler().into()),
            words: words.collect(),
            flags: split(flags),
            libraries: split(libraries),
        }
    }

    /// The shared object of a source: one of the cache, or a new one. What the compiler prints goes to
    /// standard error.
    ///
    /// # Errors
    /// Why there is none.
    pub fn compile(&self, source: &Path, cache: &Cache) -> Result<Library, HandlerError> {
        let unreadable =
            |error: io::Error| HandlerError(format!("cannot read {}: {error}", source.display()));
        let content = fs::read(source).map_err(unreadable)?;
        let place = std::path::absolute(source).map_err(unreadable)?;
        let version = self.version()?;
        let words = self.words.iter().map(|word| word.as_bytes().to_vec());
        let flags = self.flags.iter().chain(&self.libraries).map(|flag| flag.as_bytes().to_vec());
        let command: Vec<u8> = words.chain(flags).collect::<Vec<_>>().join(&b'\0');
        let name = name_of(&[
            place.as_os_str().as_bytes(),
            source.as_os_str().as_bytes(),
            &content,
            self.program.as_bytes(),
            &command,
            self.flags.len().to_string().as_bytes(),
            &version,
            HEADER.as_bytes(),
        ]);
        let list = cache.file(&format!("{name}.files"));
        if let Some(library) = compiled_before(&list, cache) {
            return Ok(library);
        }
        self.compile_now(source, cache, &name, &list)
    }

    /// What the compiler says about its version.
    fn version(&self) -> Result<Vec<u8>, HandlerError> {
        let output = self.command().arg("--version").stdin(Stdio::null()).output();
        output.map(|output| output.stdout).map_err(|error| self.cannot_run(&error))
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.words);
        command
    }

    fn cannot_run(&self, error: &io::Error) -> HandlerError {
        HandlerError(format!(
            "cannot run the compiler {}: {error}; install it, or name another in {}",
            self.program.display(),
            self.language.variable()
        ))
    }

    fn compile_now(
        &self,
        source: &Path,
        cache: &Cache,
        name: &str,
        list: &Path,
    ) -> Result<Library, HandlerError> {
        let headers = cache.file(&format!("include-{}", name_of(&[HEADER.as_bytes()])));
        let header = headers.join("jissoku.h");
        if !fs::read(&header).is_ok_and(|content| content == HEADER.as_bytes()) {
            fs::create_dir_all(&headers)
                .and_then(|()| cache.write(&header, HEADER.as_bytes()))
                .map_err(|error| unkept(&error))?;
        }
        let (library, rule) = (cache.unfinished(), cache.unfinished());
        let start_ns = clock::wall_ns();
        let mut command = self.command();
        command.args(FLAGS).arg("-I").arg(headers).arg("-MD").arg("-MF").arg(&rule);
        command.args(&self.flags).arg("-o").arg(&library).arg(source).args(&self.libraries);
        let status = command.stdin(Stdio::null()).status();
        let outcome = match status {
            Err(error) => Err(self.cannot_run(&error)),
            Ok(status) if status.success() => {
                let files = fs::read(&rule).map(|rule| dependencies::of_rule(&rule));
                keep(cache, &library, (name, list), files.unwrap_or_default(), start_ns)
                    .map_err(|error| unkept(&error))
            }
            Ok(status) => Err(HandlerError(format!(
                "{} does not compile: {} has printed why ({status})",
                source.display(),
                self.program.display()
            ))),
        };
        for unfinished in [library, rule] {
            // It was not written, or is kept by another name.
            let _gone = fs::remove_file(unfinished);
        }
        outcome
    }
}

fn unkept(error: &io::Error) -> HandlerError {
    HandlerError(format!("cannot keep a compiled handler: {error}"))
}

/// Keeps a shared object that was compiled of `files`, and the list of them unless one has changed
/// since `start_ns`.
fn keep(
    cache: &Cache,
    library: &Path,
    (name, list): (&str, &Path),
    files: Vec<PathBuf>,
    start_ns: u64,
) -> io::Result<Library> {
    let mut digests = Vec::new();
    let mut lines = Vec::new();
    let mut is_settled = !files.is_empty();
    for file in files {
        let file = std::path::absolute(file)?;
        let metadata = fs::metadata(&file)?;
        let changed_ns =
            i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
        is_settled &= changed_ns < i128::from(start_ns);
        let digest = name_of(&[&fs::read(&file)?]);
        let path = file.as_os_str().as_bytes();
        is_settled &= !path.contains(&b'\n');
        lines.extend([digest.as_bytes(), b" ", path, b"\n"].concat());
        digests.push(digest);
    }
    let library_name = format!("{}.so", name_of(&[name.as_bytes(), digests.join(" ").as_bytes()]));
    let kept = cache.keep(library, &library_name)?;
    if is_settled {
        cache.write(list, &[library_name.as_bytes(), b"\n", &lines].concat())?;
    }
    Ok(kept)
}

/// The shared object that a list is for, if the files on it are as they were.
fn compiled_before(list: &Path, cache: &Cache) -> Option<Library> {
    let list = fs::read(list).ok()?;
    let mut lines = list.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    let library = cache.library(str::from_utf8(lines.next()?).ok()?)?;
    let is_as_before = |line: &[u8]| {
        let (digest, path) = line.split_at_checked(line.iter().position(|&byte| byte == b' ')?)?;
        let content = fs::read(OsStr::from_bytes(&path[1..])).ok()?;
        (name_of(&[&content]).as_bytes() == digest).then_some(())
    };
    lines.all(|line| is_as_before(line).is_some()).then_some(library)
}

#[cfg(test)]
mod tests;
