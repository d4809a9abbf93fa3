//! `receive` and `send` of one request after the other.

use jissoku_os::driver::ConnectionId;
use pyo3::prelude::*;

use super::exchange::Exchange;
use crate::head::Expectation;
use crate::interpreter::references;

/// An [`Exchange`] with its methods for the application, reused for successive requests.
#[derive(Debug)]
pub(super) struct Callables {
    pub(super) exchange: Py<Exchange>,
    pub(super) receive: Py<PyAny>,
    pub(super) send: Py<PyAny>,
}

impl Callables {
    pub(super) fn new(python: Python<'_>, exchange: Exchange) -> PyResult<Self> {
        let exchange = Bound::new(python, exchange)?;
        let receive = exchange.getattr(pyo3::intern!(python, "receive"))?.unbind();
        let send = exchange.getattr(pyo3::intern!(python, "send"))?.unbind();
        Ok(Self { exchange: exchange.unbind(), receive, send })
    }

    pub(super) fn restart(
        self,
        python: Python<'_>,
        id: ConnectionId,
        request: Expectation,
        body: (bool, bool),
    ) -> Self {
        self.exchange.borrow_mut(python).restart(id, request, body);
        self
    }

    /// Whether they can be used for another request: the task has ended, and the application has
    /// kept no reference.
    pub(super) fn are_unused(&self, python: Python<'_>) -> bool {
        let exchange = self.exchange.bind(python);
        // References: this one, and those of the two methods.
        references(exchange) == 3
            && references(self.receive.bind(python)) == 1
            && references(self.send.bind(python)) == 1
            && exchange.borrow().has_ended
    }
}
