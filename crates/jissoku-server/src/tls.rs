//! TLS (RFC 8446 and RFC 5246), by rustls.
//!
//! [`Tls`] is shared by all sessions and replaced at every reload; `tls_session` is one client.

mod certificates;

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use jissoku_http::date;
use jissoku_os::clock;
use jissoku_os::driver::SendBuffer;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::NoServerSessionStorage;
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{ConnectionCommon, Error, ServerConfig, ServerConnection, SideData};

pub(crate) use certificates::{CertificateIndex, Certificates};

/// Certificate chains, their keys, and the TLS configuration.
#[derive(Clone, Debug)]
pub struct Tls {
    config: Arc<ServerConfig>,
    certificates: Arc<Certificates>,
    warnings: Arc<[String]>,
}

/// The files of a certificate chain and of its private key.
pub type CertificateFiles<'a> = (&'a Path, &'a Path);

/// Returns the content of a file.
type ReadFile<'a> = &'a dyn Fn(&Path) -> io::Result<Vec<u8>>;

impl Tls {
    /// Reads certificate chains and their private keys, all PEM, by `read`, and checks that they
    /// belong together. The first chain is for clients that ask for no name or for an unknown one (SNI).
    ///
    /// # Errors
    /// The file that cannot be used, and why, in one sentence.
    pub fn load(files: &[CertificateFiles<'_>], read: ReadFile<'_>) -> Result<Self, String> {
        let mut certificates = Certificates::default();
        let mut warnings = Vec::new();
        for (certificate, key) in files {
            let loaded = load_pair(certificate, key, read)?;
            let end_s = loaded.cert.first().and_then(|first| certificates::expiry_s(first));
            if let Some(end_s) = end_s.filter(|end_s| *end_s < clock::wall_ns() / 1_000_000_000) {
                let date = date::imf_fixdate(end_s);
                let (path, date) = (certificate.display(), String::from_utf8_lossy(&date));
                warnings.push(format!("the certificate in {path} expired on {date}"));
            }
            if !certificates.add(loaded) && certificates.count() > 1 {
                return Err(format!(
                    "the certificate in {} has no name of a host (Subject Alternative Name), by \
                     which clients could ask for it: only the first one may have none",
                    certificate.display()
                ));
            }
        }
        let certificates = Arc::new(certificates);
        let config = build_config(Arc::clone(&certificates)).map_err(|error| {
            let path = files.first().map_or(Path::new(""), |(certificate, _)| certificate);
            unusable(path, &error)
        })?;
        Ok(Self { config: Arc::new(config), certificates, warnings: warnings.into() })
    }

    /// What the operator should know of these certificates, one sentence each.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// A session with a new client.
    pub(crate) fn accept(&self) -> ServerConnection {
        let tls = ServerConnection::new(Arc::clone(&self.config));
        tls.expect("the fragment size, which is what could be wrong, is the usual one")
    }

    /// The certificates, if the one that a client gets depends on the name that it asks for.
    pub(crate) fn several(&self) -> Option<&Arc<Certificates>> {
        Some(&self.certificates).filter(|certificates| certificates.count() > 1)
    }
}

fn unusable(path: &Path, error: &Error) -> String {
    format!("cannot use {} for TLS: {error}", path.display())
}

fn load_pair(certificate: &Path, key: &Path, read: ReadFile<'_>) -> Result<CertifiedKey, String> {
    let read = |path: &Path| {
        read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
    };
    let text = read(certificate)?;
    let (certificate_name, key_name) = (certificate.display(), key.display());
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let chain = chain.unwrap_or_default();
    if chain.is_empty() {
        return Err(format!(
            "{certificate_name} holds no certificate: give a chain in PEM, the server's first"
        ));
    }
    let der = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|_| {
        format!("{key_name} holds no private key: give one in PEM, without a password")
    })?;
    CertifiedKey::from_der(chain, der, &ring::default_provider()).map_err(|error| match error {
        Error::InconsistentKeys(_) => format!(
            "the key in {key_name} does not belong to the certificate in {certificate_name}"
        ),
        // rustls reports an unsupported key type as a general error.
        Error::General(_) => unusable(key, &error),
        error => unusable(certificate, &error),
    })
}

/// TLS 1.3 and 1.2, ALPN http/1.1, and session tickets for abbreviated handshakes. No session state
/// is kept on the server.
fn build_config(certificates: Arc<Certificates>) -> Result<ServerConfig, Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13, &TLS12])?
        .with_no_client_auth()
        .with_cert_resolver(certificates);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.ticketer = ring::Ticketer::new()?;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(config)
}

/// Bytes encrypted ahead of a slow client.
pub(crate) const AHEAD_SIZE_MAX: usize = 256 * 1024;

/// Maximum plaintext of a record (RFC 8446 section 5.1).
const RECORD_SIZE: usize = 16 * 1024;

struct Records<'a>(&'a mut SendBuffer);

impl Write for Records<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.append(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Encrypts `plain` until it is empty or `ahead` bytes were produced.
pub(crate) fn encrypt<S: SideData>(
    tls: &mut ConnectionCommon<S>,
    plain: &mut SendBuffer,
    ahead: usize,
    output: &mut SendBuffer,
) -> io::Result<()> {
    let before = output.size();
    flush(tls, output);
    let mut record = [0; RECORD_SIZE];
    while !plain.is_empty() && output.size() - before < ahead {
        let size = plain.drain_into(&mut record)?;
        tls.writer().write_all(&record[..size])?;
        flush(tls, output);
    }
    Ok(())
}

/// Moves the records of a session to `output`.
pub(crate) fn flush<S: SideData>(tls: &mut ConnectionCommon<S>, output: &mut SendBuffer) {
    while tls.wants_write() && tls.write_tls(&mut Records(output)).is_ok_and(|size| size > 0) {}
}
