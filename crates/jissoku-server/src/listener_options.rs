//! The protocol of the peers of a listener.

use std::sync::Arc;

use jissoku_http::forwarded::ForwardedFields;
use jissoku_os::driver::NewConnection;
use jissoku_os::socket::Endpoint;

use crate::intermediary::{Intermediary, Trust};
use crate::trusted_proxies::TrustedProxies;

/// The protocol of a listener.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1.
    #[default]
    Http,
    /// The uwsgi protocol, from trusted proxies.
    Uwsgi,
}

/// Whether a listener uses TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encryption {
    /// If the server has a certificate, and the listener is one of TCP.
    #[default]
    WithCertificate,
    /// Never.
    Plain,
    /// Never, and each request is only redirected to `https`, at this port.
    Redirect(u16),
}

/// The protocol of the peers of a listener.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListenerOptions {
    /// The protocol of requests.
    pub protocol: Protocol,
    /// Whether each connection starts with a header of the PROXY protocol, from trusted proxies.
    pub has_proxy_header: bool,
    /// Whether it uses TLS.
    pub encryption: Encryption,
}

impl ListenerOptions {
    /// Whether the listener at `endpoint` uses TLS, if the server has a certificate.
    pub const fn use_tls(self, endpoint: &Endpoint) -> bool {
        matches!((self.encryption, endpoint), (Encryption::WithCertificate, Endpoint::Tcp(_)))
    }

    fn are_of_intermediaries(self) -> bool {
        self.protocol != Protocol::Http || self.has_proxy_header
    }
}

/// Which listeners use TLS, by the index of the listener.
#[derive(Clone, Debug, Default)]
pub struct SecureListeners(Arc<[bool]>);

impl SecureListeners {
    /// Whether the clients of a listener use TLS.
    pub fn has(&self, listener: usize) -> bool {
        self.0.get(listener).copied().unwrap_or(false)
    }
}

impl FromIterator<bool> for SecureListeners {
    fn from_iter<T: IntoIterator<Item = bool>>(listeners: T) -> Self {
        Self(listeners.into_iter().collect())
    }
}

#[derive(Debug)]
pub(crate) struct Intermediaries {
    /// By the index of the endpoint; empty if all have the default.
    options: Vec<ListenerOptions>,
    trust: Arc<Trust>,
}

impl Intermediaries {
    /// `options` are by the index of the endpoint.
    pub(crate) fn new(
        options: &[ListenerOptions],
        trusted: Option<&TrustedProxies>,
        fields: ForwardedFields,
    ) -> Self {
        let is_default = !options.iter().any(|it| it.are_of_intermediaries());
        Self {
            options: if is_default { Vec::new() } else { options.to_vec() },
            trust: Arc::new(Trust {
                proxies: trusted.cloned().unwrap_or_default(),
                allowed: trusted.cloned().unwrap_or_else(TrustedProxies::local),
                fields,
            }),
        }
    }

    /// The additional state of a new connection if it is an intermediary's; `arrival.listener` is
    /// the index of its endpoint.
    pub(crate) fn of(&self, arrival: &NewConnection<'_>) -> Option<Box<Intermediary>> {
        if self.options.is_empty() && self.trust.proxies.is_empty() {
            return None;
        }
        let options = self.options.get(arrival.listener).copied().unwrap_or_default();
        let peer = arrival.peer();
        let address = peer.map(|peer| peer.ip());
        let is_plain = !options.are_of_intermediaries();
        if is_plain && !self.trust.proxies.trusts(address) {
            return None;
        }
        let is_allowed = is_plain || self.trust.allowed.trusts(address);
        let mut intermediary = Intermediary::new(peer, is_allowed, Arc::clone(&self.trust));
        if options.protocol == Protocol::Uwsgi {
            intermediary = intermediary.with_packet();
        }
        if options.has_proxy_header {
            intermediary = intermediary.with_proxy_header();
        }
        Some(Box::new(intermediary))
    }
}
