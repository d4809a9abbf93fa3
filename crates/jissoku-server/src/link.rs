//! A client as the driver knows it: a connection, or one behind TLS.

use jissoku_os::driver::{Next, Output};

use crate::connection::Connection;
use crate::tls::Session;
use crate::worker::Desk;

/// What bytes are handed to.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "plain connections are the many, and a box would cost each an allocation and a hop"
)]
pub(crate) enum Link {
    Plain(Connection),
    Secure(Box<Session>),
}

impl Link {
    #[inline]
    pub(crate) fn receive(&mut self, bytes: &[u8], desk: &mut Desk, output: &mut Output) -> Next {
        match self {
            Self::Plain(connection) => connection.receive(bytes, desk, output),
            Self::Secure(session) => session.receive(bytes, desk, output),
        }
    }

    pub(crate) fn end(&mut self, desk: &mut Desk, output: &mut Output) -> Next {
        match self {
            Self::Plain(connection) => connection.end(),
            Self::Secure(session) => session.end(desk, output),
        }
    }

    pub(crate) fn proceed(&mut self, unsent: usize, desk: &mut Desk, output: &mut Output) -> Next {
        match self {
            Self::Plain(connection) => connection.proceed(unsent, desk, output),
            Self::Secure(session) => session.proceed(unsent, desk, output),
        }
    }

    /// The connection, whose bytes need no more thought.
    pub(crate) fn into_connection(self) -> Connection {
        match self {
            Self::Plain(connection) => connection,
            Self::Secure(session) => session.into_connection(),
        }
    }
}
