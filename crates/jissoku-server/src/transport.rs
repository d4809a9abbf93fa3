//! A connection over plain TCP or a Unix socket, or over TLS.

use jissoku_os::driver::{Next, SendBuffer};

use crate::connection::Connection;
use crate::context::WorkerContext;
use crate::handler::Handler;
use crate::tls_session::TlsSession;

/// Dispatches to a plain or a TLS connection. Most are plain, and a box would cost each an
/// allocation.
#[derive(Debug)]
pub(crate) enum Transport<H: Handler> {
    Plain(Connection<H>),
    Tls(Box<TlsSession<H>>),
}

impl<H: Handler> Transport<H> {
    #[inline]
    pub(crate) fn on_data(
        &mut self,
        bytes: &[u8],
        context: &mut WorkerContext<H>,
        output: &mut SendBuffer,
    ) -> Next {
        match self {
            Self::Plain(connection) => connection.on_data(bytes, context, output),
            Self::Tls(session) => session.on_data(bytes, context, output),
        }
    }

    pub(crate) fn on_eof(
        &mut self,
        context: &mut WorkerContext<H>,
        output: &mut SendBuffer,
    ) -> Next {
        match self {
            Self::Plain(connection) => connection.on_eof(context, output),
            Self::Tls(session) => session.on_eof(context, output),
        }
    }

    pub(crate) fn on_hangup(&mut self, context: &mut WorkerContext<H>) {
        match self {
            Self::Plain(connection) => connection.on_hangup(context),
            Self::Tls(session) => session.on_hangup(context),
        }
    }

    pub(crate) fn resume(
        &mut self,
        unsent: usize,
        context: &mut WorkerContext<H>,
        output: &mut SendBuffer,
    ) -> Next {
        match self {
            Self::Plain(connection) => connection.resume(unsent, context, output),
            Self::Tls(session) => session.resume(unsent, context, output),
        }
    }

    /// The connection inside.
    pub(crate) fn into_connection(self) -> Connection<H> {
        match self {
            Self::Plain(connection) => connection,
            Self::Tls(session) => session.into_connection(),
        }
    }
}
