//! Peers that may identify the client of a request.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Addresses of trusted proxies. The default trusts no peer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedProxies {
    networks: Vec<Network>,
    /// Whether every peer of a Unix socket is trusted: the socket's mode restricts them.
    unix: bool,
}

/// An address and the length of its prefix in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    address: IpAddr,
    prefix: u32,
}

impl TrustedProxies {
    /// The peers on this machine: loopback addresses and Unix sockets.
    pub fn local() -> Self {
        let networks = vec![
            Network { address: Ipv4Addr::LOCALHOST.into(), prefix: 8 },
            Network { address: Ipv6Addr::LOCALHOST.into(), prefix: 128 },
        ];
        Self { networks, unix: true }
    }

    /// Whether no peer is trusted.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether a peer is trusted; `None` is the peer of a Unix socket.
    pub fn trusts(&self, peer: Option<IpAddr>) -> bool {
        match peer {
            None => self.unix,
            Some(address) => self.networks.iter().any(|network| network.contains(address)),
        }
    }
}

impl Network {
    fn contains(&self, address: IpAddr) -> bool {
        match (self.address.to_canonical(), address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let differing = own.to_bits() ^ other.to_bits();
                differing.leading_zeros() >= self.prefix
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let differing = own.to_bits() ^ other.to_bits();
                differing.leading_zeros() >= self.prefix
            }
            _ => false,
        }
    }
}

impl FromStr for TrustedProxies {
    type Err = String;

    /// Parses `ADDRESS[/PREFIX]` and `unix`, separated by commas.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut proxies = Self::default();
        for word in text.split(',').map(str::trim) {
            if word == "unix" {
                proxies.unix = true;
            } else {
                proxies.networks.push(Network::parse(word).ok_or_else(|| {
                    let form = "write addresses such as 10.0.0.0/8, fd00::/8 or 192.0.2.1, or unix";
                    format!("{word:?} is no proxy: {form}")
                })?);
            }
        }
        Ok(proxies)
    }
}

impl Network {
    fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = match text.split_once('/') {
            None => (text, None),
            Some((address, prefix)) => (address, Some(prefix)),
        };
        let address: IpAddr = address.parse().ok()?;
        let size = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.map_or(Some(size), |prefix| prefix.parse().ok())?;
        // An IPv4-mapped IPv6 address is compared as an IPv4 address.
        let is_mapped = address.to_canonical() != address;
        (prefix <= size && !is_mapped).then_some(Self { address, prefix })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trusts(list: &str, peer: &str) -> bool {
        let proxies: TrustedProxies = list.parse().expect("a valid list");
        proxies.trusts(Some(peer.parse().expect("an address")))
    }

    #[test]
    fn a_prefix_is_a_number_of_bits() {
        assert!(trusts("10.0.0.0/8", "10.255.0.1"));
        assert!(!trusts("10.0.0.0/8", "11.0.0.1"));
        assert!(trusts("192.0.2.128/25", "192.0.2.255"));
        assert!(!trusts("192.0.2.128/25", "192.0.2.127"));
        assert!(trusts("192.0.2.1", "192.0.2.1"));
        assert!(!trusts("192.0.2.1", "192.0.2.2"));
        assert!(trusts("192.0.2.1, 0.0.0.0/0", "198.51.100.1"));
        assert!(!trusts("0.0.0.0/0", "::1"));
        assert!(trusts("fd00::/8", "fd12::1"));
        assert!(!trusts("fd00::/8", "fe80::1"));
        assert!(trusts("::/0", "2001:db8::1"));
    }

    #[test]
    fn an_ipv4_mapped_address_is_trusted_as_its_ipv4_address() {
        assert!(trusts("10.0.0.0/8", "::ffff:10.1.2.3"));
        assert!(!trusts("10.0.0.0/8", "::ffff:11.1.2.3"));
        assert!(!trusts("::/0", "::ffff:11.1.2.3"));
    }

    #[test]
    fn peers_of_unix_sockets_are_trusted_by_name_only() {
        let proxies: TrustedProxies = "0.0.0.0/0,::/0".parse().expect("a valid list");
        assert!(!proxies.trusts(None));
        assert!("unix".parse::<TrustedProxies>().expect("a valid list").trusts(None));
        assert!(!TrustedProxies::default().trusts(None));
        assert!(TrustedProxies::local().trusts(None));
        assert!(TrustedProxies::local().trusts("127.1.2.3".parse().ok()));
        assert!(!TrustedProxies::local().trusts("192.0.2.1".parse().ok()));
    }

    #[test]
    fn invalid_lists_are_refused() {
        for text in [
            "",
            "10.0.0.0/33",
            "::/129",
            "10.0.0.0/-1",
            "a.b",
            "10.0.0.0/",
            "unix,,",
            "::ffff:10.0.0.1",
        ] {
            assert!(text.parse::<TrustedProxies>().is_err(), "{text:?}");
        }
    }
}
