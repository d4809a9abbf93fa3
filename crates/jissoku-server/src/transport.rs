//! A connection over plain TCP or a Unix socket, or over TLS; or one that the handler has opened.

use std::io;

use jissoku_os::driver::{Action, SendBuffer};

use crate::connection::Connection;
use crate::context::WorkerContext;
use crate::handler::{Handler, UpstreamEventKind};
use crate::tls_session::TlsSession;
use crate::upstream_session::UpstreamSession;

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
    /// The same with TLS.
    UpstreamTls(Box<UpstreamSession>),
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
            Self::Upstream(_) | Self::UpstreamTls(_) => {
                self.on_upstream(UpstreamEventKind::Data { bytes, unsent: 0 }, context, output)
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
            Self::Upstream(_) | Self::UpstreamTls(_) => {
                self.on_upstream(UpstreamEventKind::Eof { is_clean: true }, context, output)
            }
        }
    }

    /// As [`Connection::on_unread`]: TLS has said its end before.
    pub(crate) fn on_unread(&mut self, context: &mut WorkerContext<H>) -> Action {
        match self {
            Self::Plain(connection) => connection.on_unread(context),
            Self::Tls(session) => session.on_unread(context),
            Self::Upstream(_) | Self::UpstreamTls(_) => Action::Close,
        }
    }

    pub(crate) fn on_hangup(&mut self, context: &mut WorkerContext<H>) {
        match self {
            Self::Plain(connection) => connection.on_hangup(context),
            Self::Tls(session) => session.on_hangup(context),
            Self::Upstream(_) | Self::UpstreamTls(_) => {}
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
            Self::Upstream(_) | Self::UpstreamTls(_) => {
                self.on_upstream(UpstreamEventKind::Resumed { unsent }, context, output)
            }
        }
    }

    /// An event of an opened connection.
    #[inline]
    pub(crate) fn on_upstream(
        &mut self,
        kind: UpstreamEventKind<'_>,
        context: &mut WorkerContext<H>,
        output: &mut SendBuffer,
    ) -> Action {
        match self {
            Self::Upstream(token) => context.call_outbound(*token, kind, output),
            Self::UpstreamTls(session) => session.on_event(kind, context, output),
            Self::Plain(_) | Self::Tls(_) => Action::Close,
        }
    }

    /// As [`Connection::check`].
    #[cfg(test)]
    pub(crate) fn check(&mut self) {
        match self {
            Self::Plain(connection) => connection.check(),
            Self::Tls(session) => session.connection().check(),
            Self::Upstream(_) | Self::UpstreamTls(_) => {}
        }
    }

    /// The token of a connection that the handler has opened.
    pub(crate) fn token(&self) -> Option<u64> {
        match self {
            Self::Upstream(token) => Some(*token),
            Self::UpstreamTls(session) => Some(session.token()),
            Self::Plain(_) | Self::Tls(_) => None,
        }
    }

    /// The connection of a client inside; or the token of an opened one, and why it ends if TLS is the
    /// reason.
    pub(crate) fn into_connection(self) -> Result<Connection<H>, (u64, Option<io::Error>)> {
        match self {
            Self::Plain(connection) => Ok(connection),
            Self::Tls(session) => Ok(session.into_connection()),
            Self::Upstream(token) => Err((token, None)),
            Self::UpstreamTls(session) => Err((session.token(), session.error())),
        }
    }
}
