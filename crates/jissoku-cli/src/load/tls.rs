//! How servers behind TLS are spoken to, from the command line.

use std::fs;
use std::path::{Path, PathBuf};

use jissoku_load::{Address, Sessions, Tls, Trust};

use super::SwitchChoice;

/// Where systems keep the authorities that everybody believes.
const BUNDLES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// Names another such file, as it does for OpenSSL.
const BUNDLE_VARIABLE: &str = "SSL_CERT_FILE";

/// What `https` URLs go with.
#[derive(Debug, clap::Args)]
pub(crate) struct TlsFlags {
    /// Believe every certificate of an https URL
    #[arg(long)]
    insecure: bool,
    /// Believe what these authorities have signed [default: those of the system]
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    cacert: Option<PathBuf>,
    /// Whether a connection resumes an earlier TLS session or shakes hands in full [default: on]
    #[arg(long, value_enum, value_name = "on|off")]
    session_reuse: Option<SwitchChoice>,
}

impl TlsFlags {
    /// How a server is spoken to; nothing, if in the clear.
    pub(super) fn towards(&self, address: &Address) -> Result<Option<Tls>, String> {
        if !address.is_secure() {
            return Ok(None);
        }
        let sessions = match self.session_reuse {
            Some(SwitchChoice::Off) => Sessions::Fresh,
            Some(SwitchChoice::On) | None => Sessions::Resumed,
        };
        let tls = Tls::new(address.host(), &self.trust()?, sessions);
        tls.map(Some).map_err(|bad| format!("{address} cannot be loaded: {bad}"))
    }

    /// The sentence that says what is wrong when flags have no URL to go with.
    pub(super) fn check(&self, urls: &[Address]) -> Result<(), String> {
        let is_asked = self.insecure || self.cacert.is_some() || self.session_reuse.is_some();
        if is_asked && !urls.iter().any(Address::is_secure) {
            return Err("--insecure, --cacert and --session-reuse go with an https URL".to_owned());
        }
        Ok(())
    }

    fn trust(&self) -> Result<Trust, String> {
        if self.insecure {
            return Ok(Trust::Anybody);
        }
        let named =
            self.cacert.clone().or_else(|| std::env::var_os(BUNDLE_VARIABLE).map(PathBuf::from));
        let usual = || BUNDLES.iter().map(Path::new).find(|path| path.exists()).map(Path::to_owned);
        let Some(path) = named.or_else(usual) else {
            return Err(
                "this system has no file of authorities: give --cacert or --insecure".into()
            );
        };
        let pem = fs::read(&path)
            .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
        Ok(Trust::Authorities(pem))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(insecure: bool, cacert: Option<&str>) -> TlsFlags {
        TlsFlags { insecure, cacert: cacert.map(PathBuf::from), session_reuse: None }
    }

    #[test]
    fn only_https_goes_through_tls() {
        let plain: Address = "http://127.0.0.1/".parse().expect("it is a URL");
        let secure: Address = "https://127.0.0.1/".parse().expect("it is a URL");
        let flags = flags(true, None);
        assert!(flags.towards(&plain).expect("it is fine").is_none());
        assert!(flags.towards(&secure).expect("it is fine").is_some());
        assert!(flags.check(std::slice::from_ref(&plain)).is_err());
        assert!(flags.check(&[plain, secure]).is_ok());
    }

    #[test]
    fn authorities_that_are_not_there_are_named() {
        let secure: Address = "https://127.0.0.1/".parse().expect("it is a URL");
        let refusal = flags(false, Some("/nowhere/at/all")).towards(&secure);
        assert!(refusal.is_err_and(|sentence| sentence.contains("/nowhere/at/all")));
    }
}
