//! TLS (RFC 8446 and RFC 5246), by rustls.
//!
//! [`Tls`] is shared by all sessions and replaced at every reload; `tls_session` is one client.

use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jissoku_os::driver::SendBuffer;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::NoServerSessionStorage;
use rustls::version::{TLS12, TLS13};
use rustls::{Error, ServerConfig, ServerConnection};

/// A certificate chain, its key, and the TLS configuration.
#[derive(Clone, Debug)]
pub struct Tls {
    config: Arc<ServerConfig>,
}

/// A certificate or key that cannot be used.
#[derive(Debug)]
pub struct TlsError {
    path: PathBuf,
    kind: TlsErrorKind,
}

#[derive(Debug)]
enum TlsErrorKind {
    Unreadable(io::Error),
    NoCertificate,
    NoKey,
    Mismatch(PathBuf),
    Unusable(Error),
}

impl fmt::Display for TlsError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.kind {
            TlsErrorKind::Unreadable(error) => write!(formatter, "cannot read {path}: {error}"),
            TlsErrorKind::NoCertificate => {
                write!(
                    formatter,
                    "{path} holds no certificate: give a chain in PEM, the server's first"
                )
            }
            TlsErrorKind::NoKey => {
                write!(
                    formatter,
                    "{path} holds no private key: give one in PEM, without a password"
                )
            }
            TlsErrorKind::Mismatch(key) => {
                let key = key.display();
                write!(formatter, "the key in {key} does not belong to the certificate in {path}")
            }
            TlsErrorKind::Unusable(error) => {
                write!(formatter, "cannot use {path} for TLS: {error}")
            }
        }
    }
}

impl std::error::Error for TlsError {}

impl Tls {
    /// Reads a certificate chain and its private key, both PEM, and checks that they belong
    /// together.
    ///
    /// # Errors
    /// The file that cannot be used, and why.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let refuse = |path: &Path, kind| TlsError { path: path.to_owned(), kind };
        let read = |path: &Path| {
            fs::read(path).map_err(|error| refuse(path, TlsErrorKind::Unreadable(error)))
        };
        let text = read(certificate)?;
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
        let chain = chain.unwrap_or_default();
        if chain.is_empty() {
            return Err(refuse(certificate, TlsErrorKind::NoCertificate));
        }
        let der = PrivateKeyDer::from_pem_slice(&read(key)?)
            .map_err(|_| refuse(key, TlsErrorKind::NoKey))?;
        let config = build_config(chain, der).map_err(|error| match error {
            Error::InconsistentKeys(_) => {
                refuse(certificate, TlsErrorKind::Mismatch(key.to_owned()))
            }
            // rustls reports an unsupported key type as a general error.
            Error::General(_) => refuse(key, TlsErrorKind::Unusable(error)),
            error => refuse(certificate, TlsErrorKind::Unusable(error)),
        })?;
        Ok(Self { config: Arc::new(config) })
    }
}

impl Tls {
    /// A session with a new client.
    pub(crate) fn accept(&self) -> ServerConnection {
        let tls = ServerConnection::new(Arc::clone(&self.config));
        tls.expect("the fragment size, which is what could be wrong, is the usual one")
    }
}

/// TLS 1.3 and 1.2, ALPN http/1.1, and session tickets for abbreviated handshakes. No session state
/// is kept on the server.
fn build_config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<ServerConfig, Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13, &TLS12])?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.ticketer = ring::Ticketer::new()?;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(config)
}

/// Bytes encrypted ahead of a slow client.
pub(crate) const AHEAD_SIZE_MAX: usize = 256 * 1024;

/// Maximum plaintext of a record (RFC 8446 section 5.1).
const RECORD_SIZE: usize = 16 * 1024;

/// Writes records to a send buffer.
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
pub(crate) fn encrypt(
    tls: &mut ServerConnection,
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
pub(crate) fn flush(tls: &mut ServerConnection, output: &mut SendBuffer) {
    while tls.wants_write() && tls.write_tls(&mut Records(output)).is_ok_and(|size| size > 0) {}
}
