//! Calls a WSGI application (PEP 3333) and writes its response.

use jissoku_http::date::DateCache;
use jissoku_os::clock;
use jissoku_os::driver::SendBuffer;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::body_writer::WriteOutcome;
use crate::environ::{Environ, Environs};
use crate::request_name::RequestNames;
use crate::response::Response;
use crate::response_head::Expectation;
use crate::sink::Sink;
use crate::start_response::Starter;

/// The application as called by one worker.
#[derive(Debug)]
pub(crate) struct Wsgi {
    app: Py<PyAny>,
    pub(crate) environs: Environs,
    pub(crate) names: RequestNames,
    /// For the next response.
    starter: Option<Starter>,
    date: DateCache,
}

impl Wsgi {
    pub(crate) fn new(app: Py<PyAny>, environs: Environs) -> Self {
        Self {
            app,
            environs,
            names: RequestNames::default(),
            starter: None,
            date: DateCache::default(),
        }
    }

    /// Sets the time, on the monotonic clock.
    pub(crate) fn set_now(&mut self, now_ns: u64) {
        self.date.refresh(now_ns, clock::wall_ns);
    }

    /// Calls the application, and writes the available part of its response to `sink`, which is
    /// returned. `environ` is an error if it could not be built.
    pub(crate) fn respond(
        &mut self,
        python: Python<'_>,
        environ: PyResult<Environ>,
        request: Expectation,
        sink: Sink,
    ) -> (WriteOutcome, Response, Sink) {
        let mut response = Response::new(request);
        let mut sink = Some(sink);
        let outcome = environ.and_then(|environ| {
            let starter = self.starter.take().map_or_else(|| Starter::new(python), Ok)?;
            let start = response.set_start(python, starter);
            self.set_hinted(python, &response);
            response.set_sink(python, sink.take().unwrap_or_default(), self.date.text());
            let returned = self.app.bind(python).call1((environ.dict.bind(python), start));
            sink = response.take_sink(python);
            let output = sink.get_or_insert_default().output();
            let outcome = response.begin(returned?, self.date.text(), output)?;
            self.environs.take_back(python, environ);
            Ok(outcome)
        });
        let mut sink = sink.unwrap_or_default();
        let outcome = self.complete(python, outcome, &mut response, sink.output());
        (outcome, response, sink)
    }

    /// Writes the next part of a response.
    pub(crate) fn resume(
        &mut self,
        python: Python<'_>,
        response: &mut Response,
        output: &mut SendBuffer,
    ) -> WriteOutcome {
        self.set_hinted(python, response);
        let outcome = response.pull(python, self.date.text(), output);
        self.complete(python, outcome, response, output)
    }

    fn set_hinted(&self, python: Python<'_>, response: &Response) {
        let hinted = response.hinted(python);
        self.environs.hints.bind(python).borrow_mut().set_current(hinted);
    }

    /// Reports an error of the application, and answers 500 if nothing was sent.
    fn complete(
        &mut self,
        python: Python<'_>,
        outcome: PyResult<WriteOutcome>,
        response: &mut Response,
        output: &mut SendBuffer,
    ) -> WriteOutcome {
        // It would keep a reference to the response.
        self.environs.hints.bind(python).borrow_mut().set_current(None);
        let report = |error: &PyErr, response: &Response| {
            response.body.request.report(python, error, "in the application");
        };
        let outcome = outcome.unwrap_or_else(|error| {
            report(&error, response);
            response.fail(python, self.date.text(), output)
        });
        if let Some(fault) = response.body.take_length_fault() {
            report(&PyRuntimeError::new_err(fault), response);
        }
        if outcome != WriteOutcome::More {
            self.starter = response.take_start().and_then(|starter| starter.reset(python));
        }
        outcome
    }
}
