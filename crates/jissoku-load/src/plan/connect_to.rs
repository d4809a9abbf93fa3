//! `HOST:PORT:HOST2:PORT2` (like curl's `--connect-to`): requests for the first host and port use
//! connections to the second ones; the Host field and TLS keep the first name.

use std::str::FromStr;

/// A rule that replaces the host and port to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectTo {
    /// The host and port that the rule applies to; `None` matches all.
    pub(crate) host: Option<String>,
    pub(crate) port: Option<u16>,
    /// The host and port to connect to; `None` keeps them.
    pub(crate) to_host: Option<String>,
    pub(crate) to_port: Option<u16>,
}

impl FromStr for ConnectTo {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad =
            || format!("invalid rule {text:?}: write HOST:PORT:HOST2:PORT2; each may be empty");
        let (host, rest) = name(text).ok_or_else(bad)?;
        let (port, rest) = rest.split_once(':').ok_or_else(bad)?;
        let (to_host, to_port) = name(rest).ok_or_else(bad)?;
        let number = |text: &str| match text {
            "" => Ok(None),
            digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().map(Some).map_err(|_| bad())
            }
            _ => Err(bad()),
        };
        Ok(Self { host, port: number(port)?, to_host, to_port: number(to_port)? })
    }
}

/// Parses a host, in brackets if it contains colons, and returns the text after its colon.
fn name(text: &str) -> Option<(Option<String>, &str)> {
    let (name, rest) = match text.strip_prefix('[') {
        Some(inner) => inner.split_once("]:")?,
        None => text.split_once(':')?,
    };
    Some(((!name.is_empty()).then(|| name.to_owned()), rest))
}

#[cfg(test)]
mod tests {
    use jissoku_os::socket::Endpoint;

    use super::*;
    use crate::plan::address::Address;

    fn led(url: &str, rules: &[&str]) -> String {
        let mut address: Address = url.parse().expect("it is a URL");
        for connect_to in rules {
            address = address.with_connect_to(&connect_to.parse().expect("it is a detour"));
        }
        let found = address.endpoints().expect("there are no names to look up");
        match &found[0] {
            Endpoint::Tcp(tcp) => tcp.to_string(),
            Endpoint::Unix(path) => path.display().to_string(),
        }
    }

    #[test]
    fn a_matching_rule_replaces_host_and_port() {
        let url = "http://site.example:8000/";
        for connect_to in ["site.example:8000:127.0.0.1:81", "::127.0.0.1:81", ":8000:127.0.0.1:81"]
        {
            assert_eq!(led(url, &[connect_to]), "127.0.0.1:81", "{connect_to}");
        }
        assert_eq!(led(url, &["site.example::127.0.0.1:"]), "127.0.0.1:8000");
        assert_eq!(led(url, &["site.example::[::1]:81"]), "[::1]:81");
        assert_eq!(led("http://[::2]/", &["[::2]:80:[::1]:81"]), "[::1]:81");
        assert_eq!(led("https://a/", &["a:443:127.0.0.1:"]), "127.0.0.1:443");
    }

    #[test]
    fn the_first_matching_rule_applies() {
        let url = "http://127.0.0.1:8000/";
        assert_eq!(led(url, &["a::127.0.0.2:", "::127.0.0.3:", "::127.0.0.4:"]), "127.0.0.3:8000");
        assert_eq!(led(url, &["127.0.0.1:81:127.0.0.2:1"]), "127.0.0.1:8000");
        assert_eq!(led("unix:/a.sock", &["::127.0.0.2:1"]), "/a.sock");
    }

    #[test]
    fn the_request_names_the_same_host_all_the_same() {
        let address: Address = "http://a:8000/".parse().expect("it is a URL");
        let led =
            address.clone().with_connect_to(&"::127.0.0.1:81".parse().expect("it is a detour"));
        assert_eq!((led.authority(), led.host()), ("a:8000", "a"));
        let named = address.with_host("b");
        assert_eq!((named.authority(), named.host()), ("b", "a"));
    }

    #[test]
    fn invalid_rules_are_rejected() {
        for text in ["", "a", "a:1", "a:1:b", "a:x:b:1", "a:1:b:99999", "[::1:1:b:2", "a:1:b:2:3"] {
            assert!(text.parse::<ConnectTo>().is_err(), "{text:?}");
        }
    }
}
