//! The extension module through which Python runs the native commands.

use jissoku_apps::{AppSpec, LoadError, ServerInfo, WsgiService};
use jissoku_cli::flame_graph::{Interaction, draw};
use jissoku_cli::{AppError, AppRequest};
use jissoku_server::AnyService;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Runs `jissoku serve|load|floor …` and returns its exit code; Python's lock is free meanwhile.
#[pyfunction]
fn run(python: Python<'_>, arguments: Vec<String>) -> u8 {
    python.detach(|| jissoku_cli::run_with(arguments, Some(load_app)))
}

/// Imports the application of `jissoku serve MODULE:APP`.
fn load_app(request: &AppRequest) -> Result<AnyService, AppError> {
    let AppRequest { module, attribute, directory, is_factory, .. } = request.clone();
    let spec = AppSpec { module, attribute, directory, is_factory };
    let AppRequest { listeners, is_secure, is_multiprocess, .. } = request.clone();
    let server = ServerInfo { listeners, is_secure, is_multiprocess };
    match WsgiService::load(&spec, server) {
        Ok(service) => Ok(service.into()),
        Err(LoadError::Name(sentence)) => Err(AppError::Name(sentence)),
        Err(LoadError::Code(sentence)) => Err(AppError::Code(sentence)),
    }
}

/// Draws collapsed stacks as a flame graph (SVG), alone with a script or for a page without one.
#[pyfunction]
fn flame_graph(lines: &str, title: &str, count_name: &str, alone: bool) -> PyResult<String> {
    let interaction = if alone { Interaction::Script } else { Interaction::None };
    draw(lines, title, count_name, interaction).map_err(PyValueError::new_err)
}

/// The native half of jissoku.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("__build__", env!("JISSOKU_BUILD"))?;
    module.add_function(wrap_pyfunction!(flame_graph, module)?)?;
    module.add_function(wrap_pyfunction!(run, module)?)
}
