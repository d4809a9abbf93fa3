//! The extension module through which Python runs the native commands.

mod charts;
mod load_run;
mod store;
mod thread_server;

use jissoku_apps::{AppSpec, AsgiOptions, Interface, Lifespan, LoadError, Preparation, ServerInfo};
use jissoku_cli::flame_graph::{Interaction, draw};
use jissoku_cli::{AppError, AppRequest, LoadApp, PreparationRequest};
use jissoku_server::DynService;
use load_run::LoadRun;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use thread_server::ThreadServer;

/// Runs `jissoku serve|load|floor …` and returns its exit code; Python's lock is free meanwhile.
#[pyfunction]
fn run(python: Python<'_>, arguments: Vec<String>) -> u8 {
    let load = LoadApp::import(load_app, jissoku_apps::check_signals);
    python.detach(|| jissoku_cli::run_with(arguments, Some(&load)))
}

/// The attributes of the server that an application sees.
fn server_info(request: &AppRequest) -> ServerInfo {
    let AppRequest { listeners, secure_listeners, is_multiprocess, threads, .. } = request.clone();
    let asgi = AsgiOptions {
        raises_after_disconnect: request.asgi.raises_after_disconnect,
        offers_path_send: request.asgi.offers_path_send,
        lifespan: match request.asgi.has_lifespan {
            None => Lifespan::Auto,
            Some(true) => Lifespan::On,
            Some(false) => Lifespan::Off,
        },
    };
    let body_memory_max = request.body_memory_max.unwrap_or(jissoku_apps::BODY_MEMORY_MAX);
    let root_path = request.root_path.clone();
    ServerInfo {
        listeners,
        secure_listeners,
        is_multiprocess,
        threads,
        body_memory_max,
        root_path,
        asgi,
    }
}

/// Imports the application of `jissoku serve MODULE:APP`.
fn load_app(request: &AppRequest) -> Result<DynService, AppError> {
    let AppRequest { module, attribute, arguments, directory, is_factory, .. } = request.clone();
    let PreparationRequest { working_directory, variables, log_config, log_level } =
        request.preparation.clone();
    let preparation =
        Preparation { directory: working_directory, variables, log_config, log_level };
    let spec = AppSpec { module, attribute, arguments, directory, is_factory, preparation };
    jissoku_apps::name_verb(jissoku_cli::verb());
    // Stacks on standard error after a crash, and when a worker hangs.
    Python::attach(|python| {
        // Without a standard error there is nowhere to write to.
        let _enabled = python.import("faulthandler").and_then(|it| it.call_method0("enable"));
    });
    let routes = request.routes.as_ref();
    match jissoku_apps::load(&spec, interface(request), server_info(request), routes) {
        Ok(service) => Ok(service),
        Err(LoadError::Name(sentence)) => Err(AppError::Name(sentence)),
        Err(LoadError::Code(sentence)) => Err(AppError::Code(sentence)),
    }
}

/// As `run`, for `serve` of an application that is an object of this process.
#[pyfunction]
fn run_app(python: Python<'_>, app: Py<PyAny>, arguments: Vec<String>) -> u8 {
    let load = move |request: &AppRequest| {
        let serve = |python: Python<'_>| {
            let (interface, routes) = (interface(request), request.routes.as_ref());
            jissoku_apps::serve_object(app.bind(python), interface, server_info(request), routes)
        };
        Python::attach(serve).map_err(|error| AppError::Name(error.to_string()))
    };
    let load = LoadApp::given(load, jissoku_apps::check_signals);
    python.detach(move || jissoku_cli::run_with(arguments, Some(&load)))
}

/// The interface that was asked for.
fn interface(request: &AppRequest) -> Option<Interface> {
    request.is_asgi.map(|is_asgi| if is_asgi { Interface::Asgi } else { Interface::Wsgi })
}

/// Draws collapsed stacks as a flame graph (SVG), alone with a script or for a page without one.
#[pyfunction]
fn flame_graph(lines: &str, title: &str, count_name: &str, alone: bool) -> PyResult<String> {
    let interaction = if alone { Interaction::Script } else { Interaction::None };
    draw(lines, title, count_name, interaction).map_err(PyValueError::new_err)
}

/// The sources that the floor was compiled from, each behind its name.
#[pyfunction]
fn floor_sources() -> &'static [u8] {
    include_bytes!(concat!(env!("OUT_DIR"), "/floor-sources"))
}

/// The native half of jissoku.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("__build__", jissoku_cli::BUILD)?;
    module.add_function(wrap_pyfunction!(charts::chart, module)?)?;
    module.add_function(wrap_pyfunction!(charts::chart_style_sheet, module)?)?;
    module.add_function(wrap_pyfunction!(flame_graph, module)?)?;
    module.add_function(wrap_pyfunction!(floor_sources, module)?)?;
    module.add_function(wrap_pyfunction!(run, module)?)?;
    module.add_function(wrap_pyfunction!(run_app, module)?)?;
    module.add_class::<LoadRun>()?;
    module.add_class::<store::Store>()?;
    module.add_class::<ThreadServer>()
}
