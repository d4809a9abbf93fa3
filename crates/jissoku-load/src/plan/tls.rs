//! TLS settings of a target: certificate verification, ALPN, and the session cache (RFC 8446 and
//! RFC 5246, by rustls). `tls_session.rs` is the state of one connection.

use std::sync::Arc;

use jissoku_tls::{ConfigError, Trust};
use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;

use crate::plan::invalid::Invalid;

/// Size of the session cache; a target is one server.
const SERVERS_MAX: usize = 32;

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

impl From<ConfigError> for Invalid {
    fn from(error: ConfigError) -> Self {
        Self(match error {
            ConfigError::NoAuthority => "no certificate in PEM in the CA file".to_owned(),
            ConfigError::Refused(error) => format!("TLS cannot be set up: {error}"),
        })
    }
}

impl Tls {
    /// TLS 1.3 and 1.2 with `host`, for HTTP/1.1.
    ///
    /// # Errors
    /// The host is neither a name nor an address, or there is no valid authority.
    pub fn new(host: &str, trust: &Trust, sessions: SessionReuse) -> Result<Self, Invalid> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| Invalid(format!("invalid TLS server name {host:?}")))?;
        let resumption = match sessions {
            SessionReuse::Resume => Resumption::in_memory_sessions(SERVERS_MAX),
            SessionReuse::Full => Resumption::disabled(),
        };
        Ok(Self { config: jissoku_tls::client_config(trust, resumption)?, name })
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
