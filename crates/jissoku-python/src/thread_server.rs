//! A server of an object of this process, in a thread of Python: for tests of applications.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use jissoku_apps::{ServerInfo, python_thread, serve_object};
use jissoku_os::socket::Endpoint;
use jissoku_server::{Limits, RunningServer, Server, Settings};
use pyo3::exceptions::{PyOSError, PyTypeError};
use pyo3::prelude::*;

/// A running server. It leaves the signals of the process alone.
#[pyclass]
#[derive(Debug)]
pub(crate) struct ThreadServer {
    /// `None` once it has stopped.
    running: Option<RunningServer>,
    /// The `threading.Thread` of the first worker; there is another if that has failed.
    thread: Arc<OnceLock<Py<PyAny>>>,
    address: SocketAddr,
}

#[pymethods]
impl ThreadServer {
    /// Serves `app` on the TCP address `listen`, of which port 0 selects a free port, with request
    /// bodies of up to `body_size_max` bytes.
    #[new]
    fn new(
        python: Python<'_>,
        app: &Bound<'_, PyAny>,
        listen: &str,
        body_size_max: u64,
    ) -> PyResult<Self> {
        let endpoint: SocketAddr = listen.parse().map_err(|_| {
            PyOSError::new_err(format!("invalid address {listen:?}: write HOST:PORT with a number"))
        })?;
        let mut limits = Limits { stop_idle_ns: 0, ..Limits::APPLICATION };
        limits.request.body_size_max = body_size_max;
        let settings = Settings { limits, ..Settings::new(Endpoint::Tcp(endpoint)) };
        let server = Server::listen(settings).map_err(PyOSError::new_err)?;
        let listeners = server.endpoints();
        let Some(&Endpoint::Tcp(address)) = listeners.first() else {
            server.close();
            return Err(PyOSError::new_err("the address is not one of TCP"));
        };
        let info = ServerInfo {
            listeners,
            secure_listeners: <_>::default(),
            is_multiprocess: false,
            threads: 0,
            body_memory_max: jissoku_apps::BODY_MEMORY_MAX,
            root_path: String::new(),
            asgi: jissoku_apps::AsgiOptions::default(),
        };
        let service = match serve_object(app, None, info, None) {
            Ok(service) => service,
            Err(error) => {
                server.close();
                return Err(PyTypeError::new_err(error.to_string()));
            }
        };
        let thread = Arc::new(OnceLock::new());
        let started = Arc::clone(&thread);
        let service = service.on_thread(Arc::new(move |worker| {
            // Without a thread the worker is dropped, which its pool reports.
            let new =
                Python::attach(|python| python_thread::start(python, "jissoku", |_| worker()));
            let _first = new.map(|new| started.set(new));
        }));
        let running = python.detach(|| server.start(service)).map_err(PyErr::from)?;
        Ok(Self { running: Some(running), thread, address })
    }

    /// Host and port.
    #[getter]
    fn address(&self) -> (String, u16) {
        (self.address.ip().to_string(), self.address.port())
    }

    /// Answers the requests in flight, closes all connections, and ends the thread. A second call
    /// has no effect.
    fn stop(&mut self, python: Python<'_>) -> PyResult<()> {
        let Some(mut running) = self.running.take() else { return Ok(()) };
        python.detach(move || {
            running.stop()?;
            running.join()
        })?;
        // No thread is left for those who look for leaks.
        self.thread.get().map_or(Ok(()), |thread| thread.call_method0(python, "join").map(drop))
    }
}
