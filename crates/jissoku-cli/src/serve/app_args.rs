//! Flags for Python applications.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;

use clap::{Args, ValueEnum};
use jissoku_os::socket::Endpoint;
use jissoku_proxy::RouteContent;
use jissoku_server::{DynService, RunThere, SecureListeners};

use super::app_name::AppName;
use super::env_file;
use super::failure::Failure;
use super::files::is_plain_path;
use super::inputs::Inputs;
use super::watch::Files;
use crate::units;

/// More threads cost memory and context switches without a benefit.
const THREADS_MAX: usize = 1_024;

/// Versions of the specification of ASGI's HTTP messages.
const SPEC_VERSION: &str = "2.3";
const SPEC_VERSION_WITH_ERROR: &str = "2.4";

/// The application to import, and the attributes of its server.
#[derive(Clone, Debug)]
pub struct AppRequest {
    /// The module, as in an import statement.
    pub module: String,
    /// The attribute of the module, possibly with dots.
    pub attribute: String,
    /// The arguments of a call of the attribute that returns the application, as Python source.
    pub arguments: Option<String>,
    /// The directory to import from, before those of the Python path.
    pub directory: PathBuf,
    /// Whether the attribute is a function that returns the application.
    pub is_factory: bool,
    /// Whether it is an ASGI application; `None` to detect it.
    pub is_asgi: Option<bool>,
    /// The addresses of the listeners.
    pub listeners: Vec<Endpoint>,
    /// Those whose clients use TLS.
    pub secure_listeners: SecureListeners,
    /// Whether other processes serve the application, too.
    pub is_multiprocess: bool,
    /// Threads that call the application; 0 for the thread of the worker.
    pub threads: usize,
    /// The size up to which a request body for WSGI stays in memory, unless it is the default.
    pub body_memory_max: Option<u64>,
    /// The route table, if the configuration has one or directories are served beside the
    /// application; without it the application serves all requests.
    pub routes: Option<Arc<RouteContent>>,
    /// The prefix of the paths of clients that a proxy has removed, without a slash at its end.
    pub root_path: String,
    /// What is offered to it, if it is an ASGI application.
    pub asgi: AsgiRequest,
    /// What comes before the import.
    pub preparation: PreparationRequest,
}

/// What a process does before it imports an application.
#[derive(Clone, Debug, Default)]
pub struct PreparationRequest {
    /// The working directory.
    pub working_directory: Option<PathBuf>,
    /// Environment variables, unless they are set.
    pub variables: Vec<(String, String)>,
    /// The file that configures the logging module, and its content.
    pub log_config: Option<(PathBuf, Vec<u8>)>,
    /// The level of the root logger.
    pub log_level: Option<String>,
}

/// What is offered to an ASGI application.
#[derive(Clone, Copy, Debug, Default)]
pub struct AsgiRequest {
    /// Whether `send` raises an exception after the client has disconnected.
    pub raises_after_disconnect: bool,
    /// Whether the extension `http.response.pathsend` is offered.
    pub offers_path_send: bool,
    /// Whether it gets the lifespan protocol; `None` to find out.
    pub has_lifespan: Option<bool>,
}

/// Why an application cannot be served.
#[derive(Clone, Debug)]
pub enum AppError {
    /// No callable has this name.
    Name(String),
    /// Its code raised an exception, whose traceback is printed already.
    Code(String),
}

type Load = dyn Fn(&AppRequest) -> Result<DynService, AppError> + Send + Sync;

/// Loads an application. A program without Python has none.
pub struct LoadApp {
    load: Arc<Load>,
    /// Calls the application's functions for signals that have arrived.
    check_signals: fn(),
    /// Whether the application is a Python object of this process, rather than to be imported.
    is_given: bool,
}

impl LoadApp {
    /// Imports the application that is requested. `check_signals` is called on the main thread after
    /// it has waited.
    pub fn import(
        load: fn(&AppRequest) -> Result<DynService, AppError>,
        check_signals: fn(),
    ) -> Self {
        Self { load: Arc::new(load), check_signals, is_given: false }
    }

    /// As [`LoadApp::import`], for an object of this process, whatever name is requested.
    pub fn given(
        load: impl Fn(&AppRequest) -> Result<DynService, AppError> + Send + Sync + 'static,
        check_signals: fn(),
    ) -> Self {
        Self { load: Arc::new(load), check_signals, is_given: true }
    }

    /// The same, for another thread: the application is imported and called on the thread that calls
    /// what `run_there` gets, unless it has threads of its own.
    pub(super) fn on_thread(&self, run_there: RunThere) -> Self {
        let Self { check_signals, is_given, .. } = *self;
        let load = Arc::clone(&self.load);
        let load_there = move |request: &AppRequest| {
            let (sender, loaded) = mpsc::channel();
            let (load, request_there) = (Arc::clone(&load), request.clone());
            run_there(Box::new(move || {
                // Its receiver waits for it.
                let _sent = sender.send(load(&request_there));
            }));
            let panicked = |_| AppError::Code("a panic in jissoku, printed above".to_owned());
            let service = loaded.recv().map_err(panicked)??;
            let is_called_there = request.threads == 0;
            Ok(if is_called_there { service.on_thread(Arc::clone(&run_there)) } else { service })
        };
        Self { load: Arc::new(load_there), check_signals, is_given }
    }

    /// Calls the application's functions for signals that have arrived.
    pub(super) fn check_signals(&self) {
        (self.check_signals)();
    }

    /// Whether the application is a Python object of this process.
    pub(super) const fn is_given(&self) -> bool {
        self.is_given
    }
}

impl fmt::Debug for LoadApp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LoadApp").field("is_given", &self.is_given).finish_non_exhaustive()
    }
}

/// Flags for an application.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(super) struct AppArgs {
    /// Directory to import MODULE from, before those of the Python path
    #[arg(long, value_name = "DIR", default_value = ".")]
    app_dir: PathBuf,
    /// Call APP without arguments, and serve the application that it returns
    #[arg(long)]
    factory: bool,
    /// Threads of each worker that call a WSGI application which blocks; 0: the worker calls it
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    threads: usize,
    /// Size up to which a request body for WSGI stays in memory; a larger one is written to a
    /// temporary file [default: 1MiB]
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    body_memory_max: Option<u64>,
    /// Path at which clients see the application, if a proxy removes it
    #[arg(long, value_name = "/PATH", value_parser = root_path)]
    root_path: Option<String>,
    /// Set the environment variables of a file of lines NAME=VALUE, unless they are set
    #[arg(long, value_name = "FILE")]
    pub(super) env_file: Option<PathBuf>,
    /// Working directory of the application; --app-dir is relative to it
    #[arg(long, value_name = "DIR")]
    chdir: Option<PathBuf>,
    /// Whether an ASGI application gets the lifespan protocol; with `on` it has to answer
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    lifespan: Lifespan,
    /// Level of Python's root logger: critical, error, warning, info or debug
    #[arg(long, value_name = "LEVEL", ignore_case = true,
        value_parser = ["critical", "error", "warning", "info", "debug"])]
    log_level: Option<String>,
    /// Configure Python's logging by a file: .json, .yaml, or another suffix for INI
    #[arg(long, value_name = "FILE")]
    log_config: Option<PathBuf>,
    /// For development: reload when a Python file below --app-dir changes, for a handler a source or a
    /// header beside or below it; and when the file of --config or --env-file does
    #[arg(long)]
    pub(super) reload: bool,
    /// Serve APP by WSGI [default: detected]
    #[arg(long, conflicts_with = "asgi")]
    wsgi: bool,
    /// Serve APP by ASGI [default: detected]
    #[arg(long)]
    asgi: bool,
    /// Version of the ASGI specification for HTTP requests. With 2.4, to send to a client that has left
    /// raises an exception, and frameworks do not listen for its end: a generator that waits for
    /// something else continues
    #[arg(long, value_name = "VERSION", value_parser = [SPEC_VERSION, SPEC_VERSION_WITH_ERROR],
        default_value = SPEC_VERSION)]
    asgi_spec_version: String,
    /// Offer the ASGI extension http.response.pathsend, by which files are sent with sendfile;
    /// middleware that reads response bodies may not know it
    #[arg(long)]
    asgi_path_send: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Lifespan {
    /// Unless the application raises an exception instead of an answer
    Auto,
    /// Always
    On,
    /// Never
    Off,
}

impl AppArgs {
    /// Rejects flags that need an application, or one that is imported. `is_object`: it is an object
    /// of this process. `has_other_files`: without one, `--reload` has something to watch.
    pub(super) fn check(
        &self,
        app: Option<&AppName>,
        has_other_files: bool,
        is_object: bool,
        inputs: &Inputs,
    ) -> Result<(), Failure> {
        let of_import = [
            ("--env-file", self.env_file.is_some()),
            ("--chdir", self.chdir.is_some()),
            ("--log-level", self.log_level.is_some()),
            ("--log-config", self.log_config.is_some()),
        ];
        let given = [
            ("--reload", self.reload && !has_other_files),
            ("--threads", self.threads > 0),
            ("--body-memory-max", self.body_memory_max.is_some()),
            ("--factory", self.factory),
            ("--wsgi", self.wsgi),
            ("--asgi", self.asgi),
            ("--asgi-spec-version", self.asgi_spec_version != SPEC_VERSION),
            ("--asgi-path-send", self.asgi_path_send),
            ("--root-path", self.root_path.is_some()),
            ("--lifespan", self.lifespan != Lifespan::Auto),
        ];
        if app.is_none() {
            let needs_app = |flag: &str| {
                let or_else = if flag == "--reload" { ", a handler or --config FILE" } else { "" };
                format!("{flag} needs an application, MODULE:APP{or_else}")
            };
            Failure::of_first(&given, needs_app)?;
            Failure::of_first(&of_import, needs_app)?;
        }
        if is_object {
            let why = "the program has imported the application already: do it there";
            Failure::of_first(&of_import, |flag| format!("{flag}: {why}"))?;
        }
        self.preparation(inputs)?;
        let directory = self.directory();
        if app.is_some() && !is_object && !directory.is_dir() {
            let why = format!("--app-dir: there is no directory {}", directory.display());
            return Err(Failure::of_input(&why));
        }
        if self.factory && app.is_some_and(|app| app.arguments.is_some()) {
            return Err(Failure::of_input("--factory calls APP: leave the parentheses out"));
        }
        if self.threads > THREADS_MAX {
            let sentence = format!("--threads {}: at most {THREADS_MAX}", self.threads);
            return Err(Failure::of_input(&sentence));
        }
        Ok(())
    }

    /// What comes before the import of the application.
    fn preparation(&self, inputs: &Inputs) -> Result<PreparationRequest, Failure> {
        let absolute = |path: &PathBuf| {
            let refuse = |error| Failure::of_input(&format!("{}: {error}", path.display()));
            std::path::absolute(path).map_err(refuse)
        };
        if let Some(directory) = self.chdir.as_ref().filter(|directory| !directory.is_dir()) {
            let why = format!("--chdir: there is no directory {}", directory.display());
            return Err(Failure::of_input(&why));
        }
        let log_config = self.log_config.as_ref().map(|file| {
            let content = inputs.read(file).map_err(|error| {
                let file = file.display();
                Failure::of_input(&format!("--log-config: cannot read {file}: {error}"))
            });
            Ok((absolute(file)?, content?))
        });
        let variables = self.env_file.as_deref().map(|file| env_file::read(file, inputs));
        Ok(PreparationRequest {
            working_directory: self.chdir.as_ref().map(absolute).transpose()?,
            variables: variables.unwrap_or(Ok(Vec::new()))?,
            log_config: log_config.transpose()?,
            log_level: self.log_level.as_ref().map(|level| level.to_ascii_uppercase()),
        })
    }

    fn directory(&self) -> PathBuf {
        self.chdir.as_ref().map_or_else(|| self.app_dir.clone(), |above| above.join(&self.app_dir))
    }

    /// The files of an application whose changes `--reload` acts on.
    pub(super) fn watched(&self) -> Files {
        Files::Below(self.directory(), &["py"])
    }

    /// Loads the application that the positional argument names.
    pub(super) fn service(
        &self,
        name: AppName,
        load: &LoadApp,
        (listeners, secure_listeners, is_multiprocess): (Vec<Endpoint>, SecureListeners, bool),
        routes: Option<Arc<RouteContent>>,
        inputs: &Inputs,
    ) -> Result<DynService, Failure> {
        let request = AppRequest {
            module: name.module,
            attribute: name.attribute,
            arguments: name.arguments,
            // Absolute, because the working directory changes.
            directory: std::path::absolute(self.directory()).unwrap_or_else(|_| self.directory()),
            is_factory: self.factory,
            is_asgi: (self.asgi || self.wsgi).then_some(self.asgi),
            listeners,
            secure_listeners,
            is_multiprocess,
            threads: self.threads,
            body_memory_max: self.body_memory_max,
            routes,
            root_path: self.root_path.clone().unwrap_or_default(),
            preparation: self.preparation(inputs)?,
            asgi: AsgiRequest {
                raises_after_disconnect: self.asgi_spec_version == SPEC_VERSION_WITH_ERROR,
                offers_path_send: self.asgi_path_send,
                has_lifespan: match self.lifespan {
                    Lifespan::Auto => None,
                    Lifespan::On => Some(true),
                    Lifespan::Off => Some(false),
                },
            },
        };
        (load.load)(&request).map_err(|error| match error {
            AppError::Name(sentence) => Failure::of_input(&sentence),
            AppError::Code(sentence) => Failure::of_work(&sentence),
        })
    }
}

/// A prefix such as `/api`, without a slash at its end.
fn root_path(text: &str) -> Result<String, String> {
    let path = text.strip_suffix('/').unwrap_or(text);
    if !is_plain_path(path) {
        return Err("a path is /NAME or /NAME/NAME, of ASCII letters, digits and -._~".to_owned());
    }
    Ok(path.to_owned())
}
