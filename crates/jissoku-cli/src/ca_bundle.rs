//! Certificates of authorities: those of the system, or of a file.

use std::fs;
use std::path::{Path, PathBuf};

/// Where systems keep their CA bundle.
const BUNDLES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// Names the CA bundle, as for OpenSSL.
const BUNDLE_VARIABLE: &str = "SSL_CERT_FILE";

/// Reads a file, or without one the bundle of the system, in PEM. Returns its path, too. `flags` are
/// those that make it dispensable.
pub(crate) fn read(named: Option<&Path>, flags: &str) -> Result<(PathBuf, Vec<u8>), String> {
    let variable = || std::env::var_os(BUNDLE_VARIABLE).map(PathBuf::from);
    let usual = || BUNDLES.iter().map(Path::new).find(|path| path.exists()).map(Path::to_owned);
    let found = named.map(Path::to_owned).or_else(variable).or_else(usual);
    let path = found.ok_or_else(|| format!("no CA bundle found: give {flags}"))?;
    let pem =
        fs::read(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    Ok((path, pem))
}
