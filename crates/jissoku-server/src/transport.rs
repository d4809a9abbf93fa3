//! A connection over plain TCP or a Unix socket, or over TLS; or one that the handler has opened.

use jissoku_os::driver::{Action, SendBuffer};

use crate::connection::Connection;
use crate::context::WorkerContext;
use crate::handler::{Handler, Outbound, UpstreamEvent, UpstreamEventKind};
use crate::tls_session::TlsSession;

/// Dispatches to a plain or a TLS connection.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "most connections are plain, and a box would cost each an allocation"
)]
pub(crate) enum Transport<H: Handler> {
    Plain(Connection<H>),
    Tls(Box<TlsSession<H>>),
    /// A connection that the handler has opened and keeps the state of: its token.
    Upstream(u64),
}

impl<H: Handler> Transport<H> {
    #[inline]
    pub(crate) fn on_data(
        &mut self,
        bytes: &[u8],
        context: &mut WorkerContext<H>,
        output: &mut SendBuffer,
    ) -> Action {
        match self {
            Self::Plain(connection) if connection.awaits_proxy_header() => {
                match connection.read_proxy_header(bytes, context, output) {
                    Ok(used) if used == bytes.len() => Action::Receive,
                    Ok(used) => connection.on_data(&bytes[used..], context, output),
                    Err(next) => next,
                }
            }
            Self::Tls(session) if session.awaits_proxy_header() => {
                match session.connection().read_proxy_header(bytes, context, output) {
                    Ok(used) if used == bytes.len() => Action::Receive,
                    Ok(used) => session.on_data(&bytes[used..], context, output),
                    Err(next) => {
                        session.close_if(next);
                        next
                    }
                }
            }
            Self::Plain(connection) => connection.on_data(bytes, context, output),
            Self::Tls(session) => session.on_data(bytes, context, output),
            Self::Upstream(token) => {
                let kind = UpstreamEventKind::Data { bytes, unsent: 0 };
                call_handler(*token, kind, context, output)
            }
        }
    }

    pub(crate) fn on_eof(
        &mut self,
        context: &mut WorkerContext<H>,
        output: &mut SendBuffer,
    ) -> Action {
        match self {
            Self::Plain(connection) => connection.on_eof(context, output),
            Self::Tls(session) => session.on_eof(context, output),
            Self::Upstream(token) => call_handler(*token, UpstreamEventKind::Eof, context, output),
        }
    }

    /// As [`Connection::on_unread`]: TLS has said its end before.
    pub(crate) fn on_unread(&mut self, context: &mut WorkerContext<H>) -> Action {
        match self {
            Self::Plain(connection) => connection.on_unread(context),
            Self::Tls(session) => session.on_unread(context),
            Self::Upstream(_) => Action::Close,
        }
    }

    pub(crate) fn on_hangup(&mut self, context: &mut WorkerContext<H>) {
        match self {
            Self::Plain(connection) => connection.on_hangup(context),
            Self::Tls(session) => session.on_hangup(context),
            Self::Upstream(_) => {}
        }
    }

    pub(crate) fn resume(
        &mut self,
        unsent: usize,
        context: &mut WorkerContext<H>,
        output: &mut SendBuffer,
    ) -> Action {
        match self {
            Self::Plain(connection) => connection.resume(unsent, context, output),
            Self::Tls(session) => session.resume(unsent, context, output),
            Self::Upstream(token) => {
                call_handler(*token, UpstreamEventKind::Resumed { unsent }, context, output)
            }
        }
    }

    /// As the last of these, for other events of an opened connection.
    pub(crate) fn on_upstream(
        &self,
        kind: UpstreamEventKind<'_>,
        context: &mut WorkerContext<H>,
        output: &mut SendBuffer,
    ) -> Action {
        match self {
            Self::Upstream(token) => call_handler(*token, kind, context, output),
            Self::Plain(_) | Self::Tls(_) => Action::Close,
        }
    }

    /// As [`Connection::check`].
    #[cfg(test)]
    pub(crate) fn check(&mut self) {
        match self {
            Self::Plain(connection) => connection.check(),
            Self::Tls(session) => session.connection().check(),
            Self::Upstream(_) => {}
        }
    }

    /// The connection of a client inside, or the token of an opened one.
    pub(crate) fn into_connection(self) -> Result<Connection<H>, u64> {
        match self {
            Self::Plain(connection) => Ok(connection),
            Self::Tls(session) => Ok(session.into_connection()),
            Self::Upstream(token) => Err(token),
        }
    }
}

fn call_handler<H: Handler>(
    token: u64,
    kind: UpstreamEventKind<'_>,
    context: &mut WorkerContext<H>,
    output: &mut SendBuffer,
) -> Action {
    let event = UpstreamEvent { token, kind, now_ns: context.now_ns };
    context.handler.outbound().map_or(Action::Close, |outbound| outbound.on_event(event, output))
}
