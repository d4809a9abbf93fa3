//! TLS of a client: which certificates are accepted, and what is negotiated (RFC 8446 and RFC 5246,
//! by rustls).

use std::io;
use std::path::{Path, PathBuf};
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

/// Which certificates of servers are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Certificates for the name of the server, signed by one of these authorities, in PEM.
    Authorities(Vec<u8>),
    /// All, for any name.
    AnyCertificate,
}

/// TLS cannot be set up, and why.
#[derive(Clone, Debug, PartialEq)]
pub enum ConfigError {
    /// There is no certificate of an authority in PEM.
    NoAuthority,
    /// The library refuses the settings.
    Refused(Error),
}

/// TLS 1.3 and 1.2 for HTTP/1.1, with sessions that are resumed as `resumption` says.
///
/// # Errors
/// There is no valid authority.
pub fn client_config(
    trust: &Trust,
    resumption: Resumption,
) -> Result<Arc<ClientConfig>, ConfigError> {
    let provider = Arc::new(ring::default_provider());
    let algorithms = provider.signature_verification_algorithms;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13, &TLS12])
        .map_err(ConfigError::Refused)?;
    let mut config = match trust {
        Trust::Authorities(pem) => builder.with_root_certificates(authorities(pem)?),
        Trust::AnyCertificate => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyCertificate { algorithms })),
    }
    .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.resumption = resumption;
    Ok(Arc::new(config))
}

fn authorities(pem: &[u8]) -> Result<RootCertStore, ConfigError> {
    let mut roots = RootCertStore::empty();
    let found = CertificateDer::pem_slice_iter(pem).filter_map(Result::ok);
    // System bundles may contain certificates that are not supported; these are ignored.
    let (usable, _) = roots.add_parsable_certificates(found);
    if usable == 0 { Err(ConfigError::NoAuthority) } else { Ok(roots) }
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

/// Where systems keep the certificates of authorities.
const BUNDLES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// Names that file, as for OpenSSL.
const BUNDLE_VARIABLE: &str = "SSL_CERT_FILE";

/// Reads certificates of authorities in PEM by `read`: a file, or without one the bundle of the system.
/// Returns its path, too.
///
/// # Errors
/// There is none, or it cannot be read; `flags` are those to use then.
pub fn read_authorities(
    named: Option<&Path>,
    flags: &str,
    read: impl Fn(&Path) -> io::Result<Vec<u8>>,
) -> Result<(PathBuf, Vec<u8>), String> {
    let variable = || std::env::var_os(BUNDLE_VARIABLE).map(PathBuf::from);
    let usual = || BUNDLES.iter().map(Path::new).find(|path| path.exists()).map(Path::to_owned);
    let found = named.map(Path::to_owned).or_else(variable).or_else(usual);
    let path = found.ok_or_else(|| format!("no CA bundle found: give {flags}"))?;
    let pem = read(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    Ok((path, pem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_authorities_is_refused() {
        let config = |trust: Trust| client_config(&trust, Resumption::disabled()).map(|_| ());
        assert_eq!(config(Trust::Authorities(b"none".to_vec())), Err(ConfigError::NoAuthority));
        assert_eq!(config(Trust::AnyCertificate), Ok(()));
    }
}
