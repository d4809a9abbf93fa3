//! Flags for TLS.

use std::path::PathBuf;

use clap::{ArgMatches, Args};
use jissoku_server::{CertificateFiles, Tls};

use super::failure::Failure;

/// Flags for TLS.
#[derive(Debug, Args)]
pub(super) struct TlsArgs {
    /// Use TLS on TCP listeners, with the certificate chain in this PEM file; may be repeated, each
    /// with its --tls-key: a client gets the certificate of the name that it asks for (SNI), else the
    /// first one
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Vec<PathBuf>,
    /// Private key of the certificate, in PEM; may be repeated, in the order of the certificates
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Vec<PathBuf>,
}

impl TlsArgs {
    /// Reads the certificates and keys from disk, if they are configured.
    pub(super) fn load(&self) -> Result<Option<Tls>, Failure> {
        if self.tls_cert.is_empty() {
            return Ok(None);
        }
        let pairs = self.tls_cert.iter().zip(&self.tls_key);
        let files: Vec<CertificateFiles<'_>> = pairs.map(|(cert, key)| (&**cert, &**key)).collect();
        Tls::load(&files).map(Some).map_err(|error| Failure::of_input(&error))
    }
}

/// What is wrong with the number of keys.
pub(super) fn refusal_of_keys(matches: &ArgMatches) -> Option<String> {
    let count = |id| matches.try_get_many::<PathBuf>(id).ok().flatten().map_or(0, Iterator::count);
    let (certificates, keys) = (count("tls_cert"), count("tls_key"));
    (certificates != keys && keys > 0 && certificates > 0).then(|| {
        format!(
            "tls-key has {keys} files and tls-cert {certificates}: name the key of each \
             certificate, in the same order"
        )
    })
}
