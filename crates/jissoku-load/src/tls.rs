//! What all connections to a server behind TLS share: whom to believe, what is offered, and the tickets
//! of earlier sessions (RFC 8446 and RFC 5246, by rustls). `session.rs` is one connection's.

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

/// Servers whose tickets are kept; a lane has one.
const SERVERS_MAX: usize = 32;

/// Whose certificates are believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Those that one of these authorities has signed, in PEM.
    Authorities(Vec<u8>),
    /// Anybody's.
    Anybody,
}

/// Whether a server that has been visited before is shaken hands with in full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sessions {
    /// A session that the server gave a ticket for is resumed.
    Resumed,
    /// Every handshake is a full one.
    Fresh,
}

/// What a lane's connections share.
#[derive(Clone, Debug)]
pub struct Tls {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) name: ServerName<'static>,
}

/// A server that cannot be spoken to in this way, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadTls(String);

impl fmt::Display for BadTls {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for BadTls {}

impl From<Error> for BadTls {
    fn from(error: Error) -> Self {
        Self(format!("TLS cannot be set up: {error}"))
    }
}

impl Tls {
    /// TLS 1.3 and 1.2 towards `host`, for HTTP/1.1 and nothing else.
    ///
    /// # Errors
    /// The host is neither a name nor an address, or there is no authority to believe.
    pub fn new(host: &str, trust: &Trust, sessions: Sessions) -> Result<Self, BadTls> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| BadTls(format!("{host:?} is no name that a certificate could have")))?;
        let provider = Arc::new(ring::default_provider());
        let algorithms = provider.signature_verification_algorithms;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13, &TLS12])?;
        let mut config = match trust {
            Trust::Authorities(pem) => builder.with_root_certificates(authorities(pem)?),
            Trust::Anybody => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Credulous { algorithms })),
        }
        .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.resumption = match sessions {
            Sessions::Resumed => Resumption::in_memory_sessions(SERVERS_MAX),
            Sessions::Fresh => Resumption::disabled(),
        };
        Ok(Self { config: Arc::new(config), name })
    }
}

fn authorities(pem: &[u8]) -> Result<RootCertStore, BadTls> {
    let mut roots = RootCertStore::empty();
    let found = CertificateDer::pem_slice_iter(pem).filter_map(Result::ok);
    // A bundle of a system may hold some that are not understood here; they are not believed then.
    let (believed, _) = roots.add_parsable_certificates(found);
    if believed == 0 {
        return Err(BadTls("there is no certificate in PEM among the authorities".to_owned()));
    }
    Ok(roots)
}

/// Believes every certificate, whose key has to be the server's all the same.
#[derive(Debug)]
struct Credulous {
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Credulous {
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
    fn what_cannot_be_set_up_is_said() {
        let refusal = |host, trust| {
            let bad = Tls::new(host, &trust, Sessions::Fresh);
            bad.expect_err("it cannot be set up").to_string()
        };
        assert!(refusal("a..b", Trust::Anybody).contains("a..b"));
        assert!(refusal("a", Trust::Authorities(b"none".to_vec())).contains("no certificate"));
        for host in ["localhost", "127.0.0.1", "::1"] {
            assert!(Tls::new(host, &Trust::Anybody, Sessions::Fresh).is_ok(), "{host}");
        }
    }
}
