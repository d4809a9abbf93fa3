//! Imports an application by its name.

use std::ffi::CString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::PyModuleNotFoundError;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict, PyModule, PyString, PyTuple};

use jissoku_proxy::RouteContent;
use jissoku_server::DynService;

use crate::asgi::AsgiService;
use crate::environ::{Lifespan, ServerInfo};
use crate::handler::{WsgiService, content_of};
use crate::text::class_name;

/// The usual names of applications.
const USUAL_NAMES: [&str; 2] = ["application", "app"];

/// The name of an application.
#[derive(Clone, Debug)]
pub struct AppSpec {
    /// The module, as in an import statement.
    pub module: String,
    /// The attribute of the module, possibly with dots.
    pub attribute: String,
    /// The arguments of a call of the attribute that returns the application: literals, as Python
    /// source.
    pub arguments: Option<String>,
    /// The directory to import from, before those of the Python path.
    pub directory: PathBuf,
    /// Whether the attribute is a function that returns the application.
    pub is_factory: bool,
    /// What comes before the import.
    pub preparation: Preparation,
}

/// What a process does before it imports an application.
#[derive(Clone, Debug, Default)]
pub struct Preparation {
    /// The working directory.
    pub directory: Option<PathBuf>,
    /// Environment variables, unless they are set.
    pub variables: Vec<(String, String)>,
    /// The file that configures the logging module, and its content.
    pub log_config: Option<(PathBuf, Vec<u8>)>,
    /// The level of the root logger.
    pub log_level: Option<String>,
}

/// The protocol between server and application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// PEP 3333.
    Wsgi,
    /// ASGI 3.
    Asgi,
}

/// Imports an application as the content of a server, with the other contents of `routes`. Without
/// `interface`, it is ASGI if it or its `__call__` is a coroutine function.
///
/// # Errors
/// Why there is none; the traceback of an exception is printed already.
pub fn load(
    spec: &AppSpec,
    interface: Option<Interface>,
    server: ServerInfo,
    routes: Option<&Arc<RouteContent>>,
) -> Result<DynService, LoadError> {
    Python::attach(|python| {
        spec.preparation.run(python)?;
        let app = spec.load(python)?;
        // Objects created by the import live as long as the process: the collector need not scan
        // them.
        let _frozen = python.import("gc").and_then(|gc| gc.call_method0("freeze"));
        service_of(&app, interface, server, routes)
    })
}

/// Serves an object of this process.
///
/// # Errors
/// It is not callable.
pub fn serve_object(
    app: &Bound<'_, PyAny>,
    interface: Option<Interface>,
    server: ServerInfo,
    routes: Option<&Arc<RouteContent>>,
) -> Result<DynService, LoadError> {
    check_callable(app, &"the application")?;
    service_of(app, interface, server, routes)
}

fn service_of(
    app: &Bound<'_, PyAny>,
    interface: Option<Interface>,
    server: ServerInfo,
    routes: Option<&Arc<RouteContent>>,
) -> Result<DynService, LoadError> {
    let detected = || if is_asgi(app).unwrap_or(false) { Interface::Asgi } else { Interface::Wsgi };
    match interface.unwrap_or_else(detected) {
        Interface::Wsgi if server.asgi.lifespan == Lifespan::On => Err(LoadError::Name(
            "--lifespan on is for ASGI applications, and this is a WSGI application".to_owned(),
        )),
        Interface::Wsgi => Ok(WsgiService::new(app, server).into_service(routes)),
        Interface::Asgi if server.threads > 0 => Err(LoadError::Name(
            "--threads is for WSGI applications, and this is an ASGI application: its event loop \
             runs on one thread; use --workers"
                .to_owned(),
        )),
        Interface::Asgi => Ok(content_of(AsgiService::new(app, server), routes)),
    }
}

/// Why an application cannot be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// No callable has this name.
    Name(String),
    /// Its code raised an exception, whose traceback is printed already.
    Code(String),
}

impl fmt::Display for LoadError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Name(sentence) | Self::Code(sentence)) = self;
        formatter.write_str(sentence)
    }
}

impl std::error::Error for LoadError {}

impl Preparation {
    fn run(&self, python: Python<'_>) -> Result<(), LoadError> {
        let Self { directory, variables, log_config, log_level } = self;
        let is_needed = directory.is_some()
            || !variables.is_empty()
            || log_config.is_some()
            || log_level.is_some();
        if !is_needed {
            return Ok(());
        }
        let run = || -> PyResult<Option<String>> {
            let source = CString::new(include_str!("prepare.py"))?;
            let name = c"jissoku_prepare";
            let module = PyModule::from_code(python, &source, c"jissoku/prepare.py", name)?;
            let directory = directory.as_ref().map(|it| it.as_os_str());
            let log_config = log_config.as_ref().map(|(path, text)| (path.as_os_str(), &**text));
            let arguments = (directory, variables.clone(), log_config, log_level);
            module.getattr("prepare")?.call1(arguments)?.extract()
        };
        match run() {
            Ok(None) => Ok(()),
            Ok(Some(sentence)) => Err(LoadError::Name(sentence)),
            Err(error) => Err(failed(python, "cannot prepare the import", &error)),
        }
    }
}

impl AppSpec {
    /// Imports the application.
    pub(crate) fn load<'py>(&self, python: Python<'py>) -> Result<Bound<'py, PyAny>, LoadError> {
        self.prepare_path(python).map_err(|error| failed(python, "cannot import", &error))?;
        let module = self.import(python)?.into_any();
        let found = self.find(&module)?;
        let found = match &self.arguments {
            Some(arguments) => self.call(&found, arguments)?,
            None if self.is_factory => self.call(&found, "")?,
            None => found,
        };
        check_callable(&found, self)?;
        if is_factory(&found).unwrap_or(false) {
            let sentence = format!(
                "{self} is a function that needs no arguments: to serve what it returns, write \
                 '{self}()' or --factory"
            );
            return Err(LoadError::Name(sentence));
        }
        Ok(found)
    }

    /// The attribute of the module.
    fn find<'py>(&self, module: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>, LoadError> {
        let Self { module: module_name, attribute, .. } = self;
        attribute.split('.').try_fold(module.clone(), |found, name| {
            found.getattr(name).map_err(|_| {
                let sentence = format!("the module {module_name} has no attribute {attribute}");
                let has = |name: &&str| module.hasattr(*name).unwrap_or(false);
                LoadError::Name(match USUAL_NAMES.iter().find(|name| has(name)) {
                    Some(usual) => format!("{sentence}, but {usual}"),
                    None => sentence,
                })
            })
        })
    }

    /// Calls the attribute with literals.
    fn call<'py>(
        &self,
        found: &Bound<'py, PyAny>,
        arguments: &str,
    ) -> Result<Bound<'py, PyAny>, LoadError> {
        check_callable(found, self)?;
        let python = found.py();
        let (positional, named) = literals(python, arguments).map_err(|_| {
            LoadError::Name(format!("the arguments of {self} are not literals, such as 1 or 'a'"))
        })?;
        let called = found.call(positional, Some(&named));
        let app = called.map_err(|error| failed(python, &format!("{self} has failed"), &error))?;
        if app.is_callable() {
            return Ok(app);
        }
        let class = class_name(&app);
        let what = format!("has not returned an application, but a value of type {class}");
        Err(LoadError::Name(format!("{self} {what}")))
    }

    fn prepare_path(&self, python: Python<'_>) -> PyResult<()> {
        let directory = std::path::absolute(&self.directory)?;
        let path = python.import("sys")?.getattr("path")?;
        path.call_method1("insert", (0, directory.into_os_string())).map(drop)
    }

    fn import<'py>(&self, python: Python<'py>) -> Result<Bound<'py, PyModule>, LoadError> {
        python.import(self.module.as_str()).map_err(|error| {
            if self.is_absent(python, &error) {
                let sentence = format!(
                    "there is no module named {} in {} or on the Python path",
                    self.module,
                    self.directory.display()
                );
                // The path of a file is no name of a module.
                let hint = self.module.strip_suffix(".py").map(|module| {
                    format!("; a module has no suffix: write {module}:{}", self.attribute)
                });
                return LoadError::Name(sentence + &hint.unwrap_or_default());
            }
            failed(python, &format!("cannot import {}", self.module), &error)
        })
    }

    /// Whether the module or a package that it is in was not found, rather than one that it
    /// imports.
    fn is_absent(&self, python: Python<'_>, error: &PyErr) -> bool {
        let name = || -> PyResult<String> { error.value(python).getattr("name")?.extract() };
        let is_ours = |name: &str| {
            self.module == name
                || self.module.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'))
        };
        error.is_instance_of::<PyModuleNotFoundError>(python) && name().is_ok_and(|n| is_ours(&n))
    }
}

impl fmt::Display for AppSpec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.module, self.attribute)?;
        match &self.arguments {
            Some(arguments) => write!(formatter, "({arguments})"),
            None => Ok(()),
        }
    }
}

/// The values of the arguments of a call.
fn literals<'py>(
    python: Python<'py>,
    arguments: &str,
) -> PyResult<(Bound<'py, PyTuple>, Bound<'py, PyDict>)> {
    let ast = python.import("ast")?;
    let evaluate = |node: &Bound<'py, PyAny>| ast.call_method1("literal_eval", (node,));
    let source = format!("call({arguments})");
    let call = ast.call_method1("parse", (source, "<arguments>", "eval"))?.getattr("body")?;
    // An expression such as `call() + f()` has none.
    call.getattr("func")?.getattr("id")?;
    let mut positional = Vec::new();
    for node in call.getattr("args")?.try_iter()? {
        positional.push(evaluate(&node?)?);
    }
    let named = PyDict::new(python);
    for keyword in call.getattr("keywords")?.try_iter()? {
        let keyword = keyword?;
        let key: String = keyword.getattr("arg")?.extract()?;
        named.set_item(key, evaluate(&keyword.getattr("value")?)?)?;
    }
    Ok((PyTuple::new(python, positional)?, named))
}

/// Whether it is a function that needs no argument, as no application is: one is called with two or
/// three.
fn is_factory(found: &Bound<'_, PyAny>) -> PyResult<bool> {
    let inspect = found.py().import("inspect")?;
    if !inspect.call_method1("isfunction", (found,))?.is_truthy()? {
        return Ok(false);
    }
    let own = [("follow_wrapped", false)].into_py_dict(found.py())?;
    let signature = inspect.call_method("signature", (found,), Some(&own))?;
    let class = inspect.getattr("Parameter")?;
    let none = class.getattr("empty")?;
    let positional = [class.getattr("POSITIONAL_ONLY")?, class.getattr("POSITIONAL_OR_KEYWORD")?];
    let any_number = class.getattr("VAR_POSITIONAL")?;
    for parameter in signature.getattr("parameters")?.call_method0("values")?.try_iter()? {
        let parameter = parameter?;
        let kind = parameter.getattr("kind")?;
        let is_positional = positional.iter().any(|positional| kind.is(positional));
        let is_required = is_positional && parameter.getattr("default")?.is(&none);
        if is_required || kind.is(&any_number) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Rejects what cannot be served; `name` is that of the object.
fn check_callable(found: &Bound<'_, PyAny>, name: &dyn fmt::Display) -> Result<(), LoadError> {
    if found.is_callable() {
        return Ok(());
    }
    let class = class_name(found);
    Err(LoadError::Name(format!("{name} is not callable: it is of type {class}")))
}

/// Prints the traceback of `error`.
fn failed(python: Python<'_>, place: &str, error: &PyErr) -> LoadError {
    error.display(python);
    let class = class_name(error.value(python));
    let message = error.value(python).str().unwrap_or_else(|_| PyString::new(python, ""));
    let text = message.to_string_lossy();
    let line = text.lines().next().unwrap_or_default();
    LoadError::Code(format!("{place}: {class}: {line}"))
}

/// Whether the application or its `__call__` is a coroutine function.
fn is_asgi(app: &Bound<'_, PyAny>) -> PyResult<bool> {
    let inspect = app.py().import("inspect")?;
    let is_coroutine = |function: &Bound<'_, PyAny>| {
        inspect.call_method1("iscoroutinefunction", (function,))?.is_truthy()
    };
    Ok(is_coroutine(app)? || is_coroutine(&app.getattr("__call__")?)?)
}
