//! Whom to ask, and for what: a URL.

use std::fmt;
use std::net::ToSocketAddrs;
use std::path::Path;
use std::str::FromStr;

use jissoku_os::socket::Endpoint;

use crate::detour::Detour;

/// `http://HOST[:PORT]/PATH`, the same with `https`, or `unix:/PATH.sock:/URI`, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    text: String,
    authority: String,
    /// The value of the Host field, if it is not the authority.
    name: Option<String>,
    target: String,
    unix: Option<Box<Path>>,
    /// Host and port that are connected to, if not the authority's.
    detour: Option<(String, Option<u16>)>,
    is_secure: bool,
}

/// A URL that cannot be used, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadAddress(String);

impl fmt::Display for BadAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for BadAddress {}

impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        let bad = |why: &str| BadAddress(format!("{text:?} is no URL to load: {why}"));
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(bad("it holds spaces or other bytes that must be percent-encoded"));
        }
        if let Some(rest) = text.strip_prefix("unix:") {
            let (path, target) = match rest.find(":/") {
                Some(colon) => (&rest[..colon], &rest[colon + 1..]),
                None => (rest, "/"),
            };
            if path.is_empty() {
                return Err(bad("write unix:/path.sock:/uri"));
            }
            return Ok(Self {
                text: text.to_owned(),
                authority: "localhost".to_owned(),
                name: None,
                target: without_fragment(target),
                unix: Some(Path::new(path).into()),
                detour: None,
                is_secure: false,
            });
        }
        let is_secure = text.starts_with("https://");
        let rest = text
            .strip_prefix(if is_secure { "https://" } else { "http://" })
            .ok_or_else(|| bad("write http(s)://host:port/path or unix:/path.sock:/uri"))?;
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let (host, port) = host_and_port(authority);
        if host.is_empty() || host.contains('@') || port.is_err() {
            return Err(bad("its host and port make no sense"));
        }
        let slash = if path.starts_with('/') { "" } else { "/" };
        Ok(Self {
            text: text.to_owned(),
            authority: authority.to_owned(),
            name: None,
            target: without_fragment(&format!("{slash}{path}")),
            unix: None,
            detour: None,
            is_secure,
        })
    }
}

impl Address {
    /// The same request, through a Unix socket.
    #[must_use]
    pub fn through(self, socket: &Path) -> Self {
        Self { unix: Some(socket.into()), ..self }
    }

    /// The same request, with another name in its Host field.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self { name: Some(name.to_owned()), ..self }
    }

    /// The same request, over a connection to where the detour leads, if it is this one's.
    #[must_use]
    pub fn around(self, detour: &Detour) -> Self {
        let port = self.port();
        let is_meant = detour.host.as_deref().is_none_or(|host| host == self.host())
            && detour.port.is_none_or(|asked| asked == port);
        if !is_meant || self.unix.is_some() || self.detour.is_some() {
            return self;
        }
        let host = detour.to_host.clone().unwrap_or_else(|| self.host().to_owned());
        Self { detour: Some((host, detour.to_port)), ..self }
    }

    /// The value of the Host field.
    #[must_use]
    pub fn authority(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.authority)
    }

    /// Whether requests go through TLS.
    #[must_use]
    pub const fn is_secure(&self) -> bool {
        self.is_secure
    }

    /// The name or address of the server, without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        host_and_port(&self.authority).0.trim_start_matches('[').trim_end_matches(']')
    }

    /// Path and query, as they stand in the request line.
    #[must_use]
    pub fn target(&self) -> &str {
        &self.target
    }

    /// Where to connect to; of several addresses of a name the first, IPv4 before IPv6.
    ///
    /// # Errors
    /// The error of the look-up; `NotFound` when the name has no address.
    pub fn endpoint(&self) -> std::io::Result<Endpoint> {
        if let Some(path) = &self.unix {
            return Ok(Endpoint::Unix(path.to_path_buf()));
        }
        let (host, port) = match &self.detour {
            Some((host, port)) => (&**host, port.unwrap_or_else(|| self.port())),
            None => (self.host(), self.port()),
        };
        let found = (host, port).to_socket_addrs()?.min_by_key(std::net::SocketAddr::is_ipv6);
        found.map(Endpoint::Tcp).ok_or_else(|| std::io::ErrorKind::NotFound.into())
    }

    fn port(&self) -> u16 {
        let usual = if self.is_secure { 443 } else { 80 };
        host_and_port(&self.authority).1.ok().flatten().unwrap_or(usual)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

/// The host, in brackets if it had them, and the port, if one is given.
fn host_and_port(authority: &str) -> (&str, Result<Option<u16>, ()>) {
    let after_host = authority.rfind(']').map_or(0, |bracket| bracket + 1);
    match authority[after_host..].rfind(':') {
        Some(colon) => {
            let (host, port) = authority.split_at(after_host + colon);
            let digits = &port[1..];
            let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
            (host, if plain { digits.parse().map(Some).map_err(drop) } else { Err(()) })
        }
        None => (authority, Ok(None)),
    }
}

fn without_fragment(target: &str) -> String {
    target.split('#').next().unwrap_or(target).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_taken_apart() {
        let address: Address = "http://127.0.0.1:9001/a?b=c#d".parse().expect("it is a URL");
        assert_eq!((address.authority(), address.target()), ("127.0.0.1:9001", "/a?b=c"));
        let tcp = "127.0.0.1:9001".parse().expect("it is an address");
        assert_eq!(address.endpoint().expect("no name to look up"), Endpoint::Tcp(tcp));
    }

    #[test]
    fn what_is_left_out_has_its_usual_value() {
        for (text, target, port) in [
            ("http://127.0.0.1", "/", 80),
            ("http://127.0.0.1?x", "/?x", 80),
            ("http://[::1]:81", "/", 81),
            ("http://[::1]", "/", 80),
        ] {
            let address: Address = text.parse().expect("it is a URL");
            assert_eq!(address.target(), target);
            let Ok(Endpoint::Tcp(tcp)) = address.endpoint() else { panic!("{text} is TCP") };
            assert_eq!(tcp.port(), port);
        }
    }

    #[test]
    fn a_secure_url_has_another_port() {
        for (text, port) in [("https://[::1]/", 443), ("https://127.0.0.1:8443", 8443)] {
            let address: Address = text.parse().expect("it is a URL");
            let Ok(Endpoint::Tcp(tcp)) = address.endpoint() else { panic!("{text} is TCP") };
            assert_eq!((tcp.port(), address.is_secure()), (port, true));
            assert!(["::1", "127.0.0.1"].contains(&address.host()));
        }
        let plain: Address = "http://localhost".parse().expect("it is a URL");
        assert_eq!((plain.host(), plain.is_secure()), ("localhost", false));
    }

    #[test]
    fn a_unix_socket_has_two_spellings() {
        let short: Address = "unix:/run/a.sock:/x?u=http://y".parse().expect("it is a URL");
        assert_eq!(short.target(), "/x?u=http://y");
        let long: Address = "http://localhost/x?u=http://y".parse().expect("it is a URL");
        let long = long.through(Path::new("/run/a.sock"));
        assert_eq!(short.endpoint().expect("a path"), long.endpoint().expect("a path"));
        let bare: Address = "unix:a.sock".parse().expect("it is a URL");
        assert_eq!(bare.target(), "/");
    }

    #[test]
    fn what_is_no_url_is_refused() {
        for text in [
            "",
            "localhost",
            "ftp://localhost/",
            "https://",
            "http://",
            "http://:80/",
            "http://a:b/",
            "http://a:99999/",
            "http://a:+1/",
            "http://u@h/",
            "http://h/a b",
            "unix:",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text:?}");
        }
    }
}
