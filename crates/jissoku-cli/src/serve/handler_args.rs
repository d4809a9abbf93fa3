//! Handlers in C: their compilation, and how workers get them.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use jissoku_handlers::{Cache, Compiler, HandlerService, Library};
use jissoku_os::privilege;
use jissoku_proxy::RouteContent;
use jissoku_server::{DynService, SecureListeners};

use super::Serve;
use super::failure::{Failure, print_error};
use super::handler_file::HandlerFile;

/// Names the shared objects to a worker process, which has inherited them: those which were compiled
/// last may not be in service.
const VARIABLE: &str = "JISSOKU_HANDLER_LIBRARY";

/// Flags for handlers.
#[derive(Debug, Args)]
pub(super) struct HandlerArgs {
    /// Flags for the compiler of a handler, beside -O2 -Wall, such as '-g -O0'
    #[arg(long, value_name = "FLAGS", allow_hyphen_values = true)]
    cflags: Option<String>,
    /// Flags for the linker of a handler, such as -lz
    #[arg(long, value_name = "FLAGS", allow_hyphen_values = true)]
    libs: Option<String>,
}

impl HandlerArgs {
    /// Rejects flags without a source that they are for.
    pub(super) fn check(&self, handlers: &[HandlerFile]) -> Result<(), Failure> {
        let given = [("--cflags", self.cflags.is_some()), ("--libs", self.libs.is_some())];
        let flag = given.into_iter().find(|(_, is_given)| *is_given);
        let is_source = |file: &HandlerFile| file.language().is_some();
        match (flag, handlers) {
            (Some((flag, _)), []) => {
                Err(Failure::of_input(&format!("{flag} needs a handler, such as hello.c")))
            }
            (Some((flag, _)), [file, ..]) if !handlers.iter().any(is_source) => {
                Err(Failure::of_input(&format!("{flag}: {} is compiled already", file.name())))
            }
            _ => handlers.iter().try_for_each(HandlerFile::check),
        }
    }

    /// The shared object of a handler: itself, or that of its source.
    fn library(&self, file: &HandlerFile) -> Result<Library, Failure> {
        let Some(language) = file.language() else {
            let path = std::path::absolute(file.path());
            let opened = path.and_then(|path| Ok(Library { file: File::open(&path)?, path }));
            let name = file.name();
            return opened.map_err(|why| Failure::of_input(&format!("cannot read {name}: {why}")));
        };
        let cache = Cache::open(&cache_folders()).map_err(|why| Failure::of_input(&why))?;
        let command = std::env::var_os(language.variable());
        let flags = [&self.cflags, &self.libs].map(|flags| flags.as_deref().unwrap_or_default());
        let compiler = Compiler::new(language, command.as_deref(), flags[0], flags[1]);
        compiler.compile(file.path(), &cache).map_err(|error| Failure::of_input(&error))
    }
}

impl Serve {
    /// Worker processes for handlers.
    pub(super) fn handler_processes(&self, files: &[HandlerFile]) -> Result<DynService, Failure> {
        let libraries = files.iter().map(|file| self.handler.library(file));
        let libraries: Vec<Library> = libraries.collect::<Result<_, _>>()?;
        let (paths, opened): (Vec<_>, Vec<_>) =
            libraries.into_iter().map(|library| (library.path, library.file)).unzip();
        let paths = std::env::join_paths(paths).map_err(|error| Failure::of_input(&error))?;
        let mut processes = self.processes(opened)?;
        processes.variables.push((VARIABLE.into(), paths));
        Ok(DynService::processes(processes))
    }

    /// The content of a worker process: handlers, and what `routes` or flags serve beside them.
    pub(super) fn handler_service(
        &self,
        files: &[HandlerFile],
        secure: &SecureListeners,
        routes: Option<&Arc<RouteContent>>,
    ) -> Result<DynService, Failure> {
        let paths = std::env::var_os(VARIABLE).unwrap_or_default();
        let libraries = std::env::split_paths(&paths).enumerate();
        let passed = |(index, path)| Ok(Library { file: self.inputs.library(index)?, path });
        let libraries: Vec<Library> = libraries
            .map(passed)
            .collect::<io::Result<_>>()
            .map_err(|error| Failure::of_work(&error))?;
        let named: Vec<_> =
            libraries.into_iter().zip(files.iter().map(HandlerFile::name)).collect();
        let service = HandlerService::load(&named, secure.clone(), print_error)
            .map_err(|error| Failure::of_input(&error))?;
        if let Some(routes) = routes {
            return Ok(routes.with(service).into());
        }
        let folders = self.files.beside_app()?;
        if folders.is_empty() {
            return Ok(service.into());
        }
        let body_size_max = self.limits().request.body_size_max;
        Ok(Arc::new(RouteContent::beside_app(folders, body_size_max)).with(service).into())
    }
}

/// Where compiled handlers may be kept, the best first. After `--user`, the home directory may be that
/// of another user.
fn cache_folders() -> Vec<PathBuf> {
    let variable = |name| {
        let value: Option<OsString> = std::env::var_os(name);
        value.map(PathBuf::from).filter(|path| path.is_absolute())
    };
    let of_service = variable("CACHE_DIRECTORY").map(|folder| folder.join("handlers"));
    let of_user = variable("XDG_CACHE_HOME")
        .or_else(|| variable("HOME").map(|home| home.join(".cache")))
        .map(|folder| folder.join("jissoku").join("handlers"));
    let temporary = format!("jissoku-handlers-{}", privilege::effective_user());
    let temporary = std::env::temp_dir().join(temporary);
    of_service.into_iter().chain(of_user).chain([temporary]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(arguments: &[&str]) -> String {
        let all: Vec<String> = ["serve"].iter().chain(arguments).map(ToString::to_string).collect();
        let serve = Serve::read(&all, None).expect("the flags are valid");
        let refused = serve.settings(&[], &<_>::default(), None);
        refused.expect_err("it cannot be served").to_string()
    }

    #[test]
    fn flags_without_a_source_are_refused() {
        assert_eq!(
            refusal(&["/nowhere/a.c"]),
            "cannot read /nowhere/a.c: No such file or directory (os error 2)"
        );
        assert_eq!(
            refusal(&["--fixed", "x", "--libs", "-lz"]),
            "--libs needs a handler, such as hello.c"
        );
        assert_eq!(
            refusal(&["/no/a.so", "--cflags", "-g"]),
            "--cflags: /no/a.so is compiled already"
        );
        assert_eq!(
            refusal(&["/nowhere/a.c", "--threads", "2"]),
            "--threads needs an application, MODULE:APP"
        );
    }
}
