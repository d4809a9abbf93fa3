//! An ASGI application as the content of a server with one worker.

use std::io;
use std::sync::Arc;

use jissoku_server::{Service, WorkerInfo};
use pyo3::prelude::*;

use super::handler::AsgiHandler;
use crate::environ::ServerInfo;

/// An ASGI application.
#[derive(Debug)]
pub(crate) struct AsgiService {
    app: Py<PyAny>,
    server: ServerInfo,
}

impl AsgiService {
    pub(crate) fn new(app: &Bound<'_, PyAny>, server: ServerInfo) -> Self {
        Self { app: app.clone().unbind(), server }
    }
}

impl Service for AsgiService {
    type Handler = AsgiHandler;

    fn handler(self: &Arc<Self>, worker: &WorkerInfo) -> io::Result<AsgiHandler> {
        Python::attach(|python| {
            AsgiHandler::new(python, self.app.bind(python), &self.server, worker)
                .map_err(|error| io::Error::other(error.value(python).to_string()))
        })
    }

    fn run_worker(&self, worker: &mut dyn FnMut()) {
        // Attached for as long as the worker lives, so that no request has to attach.
        Python::attach(|_| worker());
    }
}
