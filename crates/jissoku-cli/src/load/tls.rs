//! TLS options.

use std::path::PathBuf;

use jissoku_load::{Address, SessionReuse, Tls, Trust};

use crate::units;

const SESSION_REUSE: [(&str, SessionReuse); 2] =
    [("on", SessionReuse::Resume), ("off", SessionReuse::Full)];

/// The TLS options.
#[derive(Debug, clap::Args)]
pub(crate) struct TlsArgs {
    /// Accept every certificate
    #[arg(long)]
    insecure: bool,
    /// File of CA certificates, in PEM [default: the system's]
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    cacert: Option<PathBuf>,
    /// Resume TLS sessions, or make full handshakes only [default: on]
    #[arg(long, value_parser = units::word(SESSION_REUSE), value_name = "on|off")]
    session_reuse: Option<SessionReuse>,
}

impl TlsArgs {
    /// The TLS settings for a URL; `None` for plain text.
    pub(super) fn config_for(&self, address: &Address) -> Result<Option<Tls>, String> {
        if !address.is_secure() {
            return Ok(None);
        }
        let sessions = self.session_reuse.unwrap_or(SessionReuse::Resume);
        let tls = Tls::new(address.host(), &self.trust()?, sessions);
        tls.map(Some).map_err(|bad| format!("{address}: {bad}"))
    }

    /// Validates the options.
    pub(super) fn check(&self, urls: &[Address]) -> Result<(), String> {
        let is_asked = self.insecure || self.cacert.is_some() || self.session_reuse.is_some();
        if is_asked && !urls.iter().any(Address::is_secure) {
            return Err("--insecure, --cacert and --session-reuse require an https URL".to_owned());
        }
        Ok(())
    }

    fn trust(&self) -> Result<Trust, String> {
        if self.insecure {
            return Ok(Trust::AnyCertificate);
        }
        let (file, flags) = (self.cacert.as_deref(), "--cacert or --insecure");
        let (_, pem) = jissoku_tls::read_authorities(file, flags, |path| std::fs::read(path))?;
        Ok(Trust::Authorities(pem))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(insecure: bool, cacert: Option<&str>) -> TlsArgs {
        TlsArgs { insecure, cacert: cacert.map(PathBuf::from), session_reuse: None }
    }

    #[test]
    fn only_https_goes_through_tls() {
        let plain: Address = "http://127.0.0.1/".parse().expect("it is a URL");
        let secure: Address = "https://127.0.0.1/".parse().expect("it is a URL");
        let flags = flags(true, None);
        assert!(flags.config_for(&plain).expect("it is fine").is_none());
        assert!(flags.config_for(&secure).expect("it is fine").is_some());
        assert!(flags.check(std::slice::from_ref(&plain)).is_err());
        assert!(flags.check(&[plain, secure]).is_ok());
    }

    #[test]
    fn authorities_that_are_not_there_are_named() {
        let secure: Address = "https://127.0.0.1/".parse().expect("it is a URL");
        let refusal = flags(false, Some("/nowhere/at/all")).config_for(&secure);
        assert!(refusal.is_err_and(|sentence| sentence.contains("/nowhere/at/all")));
    }
}
