//! TLS to the servers that a handler opens connections to: the name that is asked for, and how it
//! fails. `upstream_session.rs` is one connection.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use jissoku_tls::{ConfigError, Trust};
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::{CertificateError, ClientConfig, ClientConnection, Error, StreamOwned};

/// Names of servers whose sessions are kept for resumption.
const SESSIONS_MAX: usize = 256;

/// TLS to servers, and the sessions that can be resumed there.
#[derive(Clone, Debug)]
pub struct TlsClient {
    config: Arc<ClientConfig>,
}

/// The name that a server is asked for (SNI, unless it is an address), and that its certificate is to
/// have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsName(ServerName<'static>);

/// TLS of a connection that is being opened.
#[derive(Clone, Debug)]
pub struct TlsOpening {
    /// The certificates that are accepted.
    pub client: TlsClient,
    /// The name that is asked for.
    pub name: TlsName,
}

/// How TLS with a server has failed. It is the content of an [`io::Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsFailure {
    /// Its certificate is not accepted.
    Certificate(CertificateFault),
    /// It has sent an alert.
    Alert,
    /// It does not keep to the protocol, or there is no common version or cipher.
    Protocol,
}

/// Why a certificate is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateFault {
    /// It has expired.
    Expired,
    /// Its time begins later.
    NotYetValid,
    /// It has another name.
    OtherName,
    /// No authority that is trusted has signed it.
    UnknownIssuer,
    /// It is that of an authority, as `openssl req -x509` makes them.
    IsAuthority,
    /// There is none, or it is malformed, revoked or for another purpose.
    Other,
}

impl TlsFailure {
    /// The failure of an error, if it is one of TLS.
    pub fn of(error: &io::Error) -> Option<Self> {
        let inner = error.get_ref()?;
        let of_stream = || inner.downcast_ref::<Error>().map(Self::from);
        inner.downcast_ref().copied().or_else(of_stream)
    }
}

impl From<&Error> for CertificateFault {
    fn from(error: &Error) -> Self {
        let Error::InvalidCertificate(error) = error else { return Self::Other };
        match error {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Self::Expired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                Self::NotYetValid
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                Self::OtherName
            }
            CertificateError::UnknownIssuer => Self::UnknownIssuer,
            CertificateError::Other(error) => match error.0.downcast_ref() {
                Some(webpki::Error::CaUsedAsEndEntity) => Self::IsAuthority,
                _ => Self::Other,
            },
            _ => Self::Other,
        }
    }
}

impl fmt::Display for CertificateFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Expired => "expired",
            Self::NotYetValid => "not valid yet",
            Self::OtherName => "its name does not match",
            Self::UnknownIssuer => "unknown issuer",
            Self::IsAuthority => "it is an authority's own (CA:TRUE), not a server's",
            Self::Other => "missing, malformed, revoked or not for servers",
        })
    }
}

impl fmt::Display for TlsFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Certificate(fault) => return write!(formatter, "certificate: {fault}"),
            Self::Alert => "the server has sent a TLS alert",
            Self::Protocol => "TLS with the server has failed",
        })
    }
}

impl std::error::Error for TlsFailure {}

impl From<&Error> for TlsFailure {
    fn from(error: &Error) -> Self {
        match error {
            Error::InvalidCertificate(_)
            | Error::NoCertificatesPresented
            | Error::UnsupportedNameType
            | Error::InvalidCertRevocationList(_) => Self::Certificate(error.into()),
            Error::AlertReceived(_) => Self::Alert,
            _ => Self::Protocol,
        }
    }
}

impl fmt::Display for TlsName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.to_str())
    }
}

impl TlsName {
    /// That of a server that is not known any more: no certificate has it.
    pub fn unknown() -> Self {
        Self(ServerName::from(IpAddr::from(Ipv6Addr::UNSPECIFIED)))
    }

    /// A name, or an IP address with or without brackets.
    pub fn parse(text: &str) -> Option<Self> {
        let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
        ServerName::try_from(bare.to_owned()).ok().map(Self)
    }
}

impl TlsClient {
    /// TLS 1.3 and 1.2 for HTTP/1.1, with resumption of sessions.
    ///
    /// # Errors
    /// There is no valid authority: one sentence.
    pub fn new(trust: &Trust) -> Result<Self, String> {
        match jissoku_tls::client_config(trust, Resumption::in_memory_sessions(SESSIONS_MAX)) {
            Ok(config) => Ok(Self { config }),
            Err(ConfigError::NoAuthority) => {
                Err("it holds no certificate of an authority in PEM".to_owned())
            }
            Err(ConfigError::Refused(error)) => Err(format!("TLS cannot be set up: {error}")),
        }
    }

    /// TLS over a socket that blocks.
    ///
    /// # Errors
    /// It cannot be set up.
    pub fn stream<S: Read + Write>(
        &self,
        name: &TlsName,
        socket: S,
    ) -> io::Result<StreamOwned<ClientConnection, S>> {
        Ok(StreamOwned::new(self.session(name).map_err(io::Error::other)?, socket))
    }

    pub(crate) fn session(&self, name: &TlsName) -> Result<ClientConnection, Error> {
        ClientConnection::new(Arc::clone(&self.config), name.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_are_asked_for() {
        for name in ["localhost", "a.example", "127.0.0.1", "[::1]", "::1"] {
            assert!(TlsName::parse(name).is_some(), "{name}");
        }
        for name in ["", "a..b", "a b", "*.a", "a:443"] {
            assert_eq!(TlsName::parse(name), None, "{name}");
        }
    }

    #[test]
    fn a_file_without_authorities_is_refused() {
        assert!(TlsClient::new(&Trust::Authorities(b"none".to_vec())).is_err());
        assert!(TlsClient::new(&Trust::AnyCertificate).is_ok());
    }
}
