//! What the peers of a listener send.

use jissoku_os::driver::NewConnection;

use crate::intermediary::Intermediary;
use crate::trusted_proxies::TrustedProxies;

/// The protocol of a listener.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1.
    #[default]
    Http,
    /// The uwsgi protocol, from peers on this machine or trusted ones.
    Uwsgi,
}

/// What the peers of a listener send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListenerOptions {
    /// The protocol of requests.
    pub protocol: Protocol,
}

/// Which connections are those of intermediaries.
#[derive(Debug)]
pub(crate) struct Intermediaries {
    /// By the index of the endpoint.
    options: Vec<ListenerOptions>,
    /// `None` if the user has named none.
    trusted: Option<TrustedProxies>,
}

impl Intermediaries {
    /// `options` are by the index of the endpoint.
    pub(crate) fn new(options: &[ListenerOptions], trusted: Option<&TrustedProxies>) -> Self {
        let is_default = options.iter().all(|it| *it == <_>::default());
        Self {
            options: if is_default { Vec::new() } else { options.to_vec() },
            trusted: trusted.cloned(),
        }
    }

    /// What a new connection has besides that of a client, if anything; `arrival.listener` is the
    /// index of its endpoint.
    pub(crate) fn of(&self, arrival: &NewConnection<'_>) -> Option<Box<Intermediary>> {
        if self.options.is_empty() {
            return None;
        }
        let options = self.options.get(arrival.listener).copied().unwrap_or_default();
        match options.protocol {
            Protocol::Http => None,
            Protocol::Uwsgi => {
                let address = arrival.peer().map(|peer| peer.ip());
                let is_allowed = match &self.trusted {
                    Some(trusted) => trusted.trusts(address),
                    None => TrustedProxies::local().trusts(address),
                };
                Some(Box::new(Intermediary::of_uwsgi(is_allowed)))
            }
        }
    }
}
