//! TLS settings of a target: certificate verification, ALPN, and the session cache (RFC 8446 and
//! RFC 5246, by rustls). `tls_session.rs` is the state of one connection.

use std::fmt;
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
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// Size of the session cache; a target is one server.
const SERVERS_MAX: usize = 32;

/// Which certificates are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Certificates signed by one of these authorities, in PEM.
    Authorities(Vec<u8>),
    /// All.
    AnyCertificate,
}

/// Whether TLS sessions are resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionReuse {
    /// A session is resumed if the server issued a ticket.
    Resume,
    /// All handshakes are full ones.
    Full,
}

/// The TLS settings of a target.
#[derive(Clone, Debug)]
pub struct Tls {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) name: ServerName<'static>,
}

/// Invalid TLS settings, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsError(String);

impl fmt::Display for TlsError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for TlsError {}

impl From<Error> for TlsError {
    fn from(error: Error) -> Self {
        Self(format!("TLS cannot be set up: {error}"))
    }
}

impl Tls {
    /// TLS 1.3 and 1.2 with `host`, for HTTP/1.1.
    ///
    /// # Errors
    /// The host is neither a name nor an address, or there is no valid authority.
    pub fn new(host: &str, trust: &Trust, sessions: SessionReuse) -> Result<Self, TlsError> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| TlsError(format!("invalid TLS server name {host:?}")))?;
        let provider = Arc::new(ring::default_provider());
        let algorithms = provider.signature_verification_algorithms;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13, &TLS12])?;
        let mut config = match trust {
            Trust::Authorities(pem) => builder.with_root_certificates(authorities(pem)?),
            Trust::AnyCertificate => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(AcceptAnyCert { algorithms })),
        }
        .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.resumption = match sessions {
            SessionReuse::Resume => Resumption::in_memory_sessions(SERVERS_MAX),
            SessionReuse::Full => Resumption::disabled(),
        };
        Ok(Self { config: Arc::new(config), name })
    }
}

fn authorities(pem: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    let found = CertificateDer::pem_slice_iter(pem).filter_map(Result::ok);
    // System bundles may contain certificates that are not supported; these are ignored.
    let (believed, _) = roots.add_parsable_certificates(found);
    if believed == 0 {
        return Err(TlsError("no certificate in PEM in the CA file".to_owned()));
    }
    Ok(roots)
}

/// Accepts every certificate; signatures are verified all the same.
#[derive(Debug)]
struct AcceptAnyCert {
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for AcceptAnyCert {
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
    fn invalid_tls_settings_are_reported() {
        let refusal = |host, trust| {
            let bad = Tls::new(host, &trust, SessionReuse::Full);
            bad.expect_err("it cannot be set up").to_string()
        };
        assert!(refusal("a..b", Trust::AnyCertificate).contains("a..b"));
        assert!(refusal("a", Trust::Authorities(b"none".to_vec())).contains("no certificate"));
        for host in ["localhost", "127.0.0.1", "::1"] {
            assert!(Tls::new(host, &Trust::AnyCertificate, SessionReuse::Full).is_ok(), "{host}");
        }
    }
}
