//! TLS to the servers that a handler opens connections to: which certificates are accepted, and for
//! which name (RFC 8446 and RFC 5246, by rustls). `upstream_session.rs` is one connection.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{
    HandshakeSignatureValid as Valid, ServerCertVerified, ServerCertVerifier,
};
use rustls::crypto::{
    WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    StreamOwned,
};

/// Names of servers whose sessions are kept for resumption.
const SESSIONS_MAX: usize = 256;

/// Which certificates of servers are accepted.
#[derive(Clone, Copy, Debug)]
pub enum TlsTrust<'a> {
    /// Those for the name of the server by one of these authorities, in PEM.
    Authorities(&'a [u8]),
    /// All, for any name.
    AnyCertificate,
}

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

/// TLS cannot be set up, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsClientError(String);

impl fmt::Display for TlsClientError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for TlsClientError {}

/// How TLS with a server has failed. It is the content of an [`io::Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsFailure {
    /// Its certificate is not accepted.
    Certificate,
    /// It has sent an alert.
    Alert,
    /// It does not keep to the protocol, or there is no common version or cipher.
    Protocol,
}

impl TlsFailure {
    /// The failure of an error, if it is one of TLS.
    #[must_use]
    pub fn of(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref().copied()
    }
}

impl fmt::Display for TlsFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Certificate => "the certificate of the server is not accepted",
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
            | Error::InvalidCertRevocationList(_) => Self::Certificate,
            Error::AlertReceived(_) => Self::Alert,
            _ => Self::Protocol,
        }
    }
}

impl TlsName {
    /// That of a server that is not known any more: no certificate has it.
    #[must_use]
    pub fn unknown() -> Self {
        Self(ServerName::from(IpAddr::from(Ipv6Addr::UNSPECIFIED)))
    }

    /// A name, or an IP address with or without brackets.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
        ServerName::try_from(bare.to_owned()).ok().map(Self)
    }
}

impl TlsClient {
    /// TLS 1.3 and 1.2 for HTTP/1.1, with resumption of sessions.
    ///
    /// # Errors
    /// There is no valid authority.
    pub fn new(trust: TlsTrust<'_>) -> Result<Self, TlsClientError> {
        let provider = Arc::new(ring::default_provider());
        let algorithms = provider.signature_verification_algorithms;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13, &TLS12])
            .map_err(|error| TlsClientError(format!("TLS cannot be set up: {error}")))?;
        let mut config = match trust {
            TlsTrust::Authorities(pem) => builder.with_root_certificates(authorities(pem)?),
            TlsTrust::AnyCertificate => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(AnyCertificate { algorithms })),
        }
        .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.resumption = Resumption::in_memory_sessions(SESSIONS_MAX);
        Ok(Self { config: Arc::new(config) })
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

fn authorities(pem: &[u8]) -> Result<RootCertStore, TlsClientError> {
    let mut roots = RootCertStore::empty();
    let found = CertificateDer::pem_slice_iter(pem).filter_map(Result::ok);
    // System bundles may contain certificates that are not supported; these are ignored.
    let (usable, _) = roots.add_parsable_certificates(found);
    if usable == 0 {
        return Err(TlsClientError("it holds no certificate of an authority in PEM".to_owned()));
    }
    Ok(roots)
}

/// Accepts every certificate; signatures are verified all the same.
#[derive(Debug)]
struct AnyCertificate {
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<Valid, Error> {
        verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<Valid, Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
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
        assert!(TlsClient::new(TlsTrust::Authorities(b"none")).is_err());
        assert!(TlsClient::new(TlsTrust::AnyCertificate).is_ok());
    }
}
