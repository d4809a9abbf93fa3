//! The URL of a target.

use std::fmt;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use jissoku_os::socket::Endpoint;

use crate::plan::connect_to::ConnectTo;
use crate::plan::invalid::Invalid;

/// A parsed URL: `http://HOST[:PORT]/PATH`, `https://...`, or `unix:/PATH.sock:/URI`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    text: String,
    authority: String,
    /// The value of the Host field, if it differs from the authority.
    name: Option<String>,
    request_target: String,
    unix: Option<Box<Path>>,
    /// Host and port to connect to, if they differ from the authority's (`--connect-to`).
    connect_to: Option<(String, Option<u16>)>,
    is_secure: bool,
}

impl FromStr for Address {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let bad = |why: &str| Invalid(format!("invalid URL {text:?}: {why}"));
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(bad("spaces and other special bytes must be percent-encoded"));
        }
        if let Some(rest) = text.strip_prefix("unix:") {
            let (path, request_target) = match rest.find(":/") {
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
                request_target: without_fragment(request_target),
                unix: Some(Path::new(path).into()),
                connect_to: None,
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
            return Err(bad("invalid host or port"));
        }
        let slash = if path.starts_with('/') { "" } else { "/" };
        Ok(Self {
            text: text.to_owned(),
            authority: authority.to_owned(),
            name: None,
            request_target: without_fragment(&format!("{slash}{path}")),
            unix: None,
            connect_to: None,
            is_secure,
        })
    }
}

impl Address {
    /// The URL of the root of the same server.
    #[must_use]
    pub fn root(&self) -> Self {
        let text = match &self.unix {
            Some(path) => format!("unix:{}:/", path.display()),
            None if self.is_secure => format!("https://{}/", self.authority),
            None => format!("http://{}/", self.authority),
        };
        Self { text, request_target: "/".to_owned(), ..self.clone() }
    }

    /// The same URL, reached through a Unix socket.
    #[must_use]
    pub fn with_unix_socket(self, socket: &Path) -> Self {
        Self { unix: Some(socket.into()), ..self }
    }

    /// The same URL, with another value of the Host field.
    #[must_use]
    pub fn with_host(self, name: &str) -> Self {
        Self { name: Some(name.to_owned()), ..self }
    }

    /// The same URL, connected to where `connect_to` says, if that rule applies to it.
    #[must_use]
    pub fn with_connect_to(self, connect_to: &ConnectTo) -> Self {
        let port = self.port();
        let is_meant = connect_to.host.as_deref().is_none_or(|host| host == self.host())
            && connect_to.port.is_none_or(|rule| rule == port);
        if !is_meant || self.unix.is_some() || self.connect_to.is_some() {
            return self;
        }
        let host = connect_to.to_host.clone().unwrap_or_else(|| self.host().to_owned());
        Self { connect_to: Some((host, connect_to.to_port)), ..self }
    }

    /// The value of the Host field.
    pub fn authority(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.authority)
    }

    /// Whether the URL is an `https` one.
    pub const fn is_secure(&self) -> bool {
        self.is_secure
    }

    /// The name or address of the server, without brackets.
    pub fn host(&self) -> &str {
        host_and_port(&self.authority).0.trim_start_matches('[').trim_end_matches(']')
    }

    /// Path and query, as in the request line (RFC 9112 section 3.2.1).
    pub fn request_target(&self) -> &str {
        &self.request_target
    }

    /// Where to connect to: all addresses of a name, IPv4 before IPv6; at least one.
    ///
    /// # Errors
    /// The error of the look-up; `NotFound` if the name has no address.
    pub fn endpoints(&self) -> std::io::Result<Vec<Endpoint>> {
        if let Some(path) = &self.unix {
            return Ok(vec![Endpoint::Unix(path.to_path_buf())]);
        }
        let (host, port) = match &self.connect_to {
            Some((host, port)) => (&**host, port.unwrap_or_else(|| self.port())),
            None => (self.host(), self.port()),
        };
        let mut found: Vec<SocketAddr> = (host, port).to_socket_addrs()?.collect();
        found.sort_by_key(SocketAddr::is_ipv6);
        found.dedup();
        if found.is_empty() {
            return Err(std::io::ErrorKind::NotFound.into());
        }
        Ok(found.into_iter().map(Endpoint::Tcp).collect())
    }

    /// The first address that accepts a connection within `timeout`; the first one if none does, or
    /// if there is one only, which is then not tried. A name such as `localhost` has an IPv6 address,
    /// too, and a server may listen on either.
    ///
    /// # Errors
    /// As [`Address::endpoints`].
    pub fn endpoint(&self, timeout: Duration) -> std::io::Result<Endpoint> {
        let mut found = self.endpoints()?;
        let place = first_that_accepts(&found, timeout);
        Ok(found.swap_remove(place))
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

/// The index of the first endpoint that accepts a connection within `timeout`; 0 if none does, or if
/// there is one only, which is then not tried.
fn first_that_accepts(endpoints: &[Endpoint], timeout: Duration) -> usize {
    let accepts = |endpoint: &Endpoint| match endpoint {
        Endpoint::Tcp(address) => TcpStream::connect_timeout(address, timeout).is_ok(),
        Endpoint::Unix(_) => true,
    };
    if endpoints.len() < 2 { 0 } else { endpoints.iter().position(accepts).unwrap_or(0) }
}

/// Splits an authority into host (with its brackets) and port.
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

fn without_fragment(request_target: &str) -> String {
    request_target.split('#').next().unwrap_or(request_target).to_owned()
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, TcpListener};

    use super::*;

    #[test]
    fn a_url_is_taken_apart() {
        let address: Address = "http://127.0.0.1:9001/a?b=c#d".parse().expect("it is a URL");
        assert_eq!((address.authority(), address.request_target()), ("127.0.0.1:9001", "/a?b=c"));
        let tcp = "127.0.0.1:9001".parse().expect("it is an address");
        assert_eq!(address.endpoints().expect("no name to look up"), [Endpoint::Tcp(tcp)]);
    }

    #[test]
    fn omitted_parts_have_defaults() {
        for (text, request_target, port) in [
            ("http://127.0.0.1", "/", 80),
            ("http://127.0.0.1?x", "/?x", 80),
            ("http://[::1]:81", "/", 81),
            ("http://[::1]", "/", 80),
        ] {
            let address: Address = text.parse().expect("it is a URL");
            assert_eq!(address.request_target(), request_target);
            let found = address.endpoints().expect("no name to look up");
            let [Endpoint::Tcp(tcp)] = found[..] else { panic!("{text} is one address") };
            assert_eq!(tcp.port(), port);
        }
    }

    #[test]
    fn a_secure_url_has_another_port() {
        for (text, port) in [("https://[::1]/", 443), ("https://127.0.0.1:8443", 8443)] {
            let address: Address = text.parse().expect("it is a URL");
            let found = address.endpoints().expect("no name to look up");
            let [Endpoint::Tcp(tcp)] = found[..] else { panic!("{text} is one address") };
            assert_eq!((tcp.port(), address.is_secure()), (port, true));
            assert!(["::1", "127.0.0.1"].contains(&address.host()));
        }
        let plain: Address = "http://localhost".parse().expect("it is a URL");
        assert_eq!((plain.host(), plain.is_secure()), ("localhost", false));
    }

    #[test]
    fn a_unix_socket_has_two_spellings() {
        let short: Address = "unix:/run/a.sock:/x?u=http://y".parse().expect("it is a URL");
        assert_eq!(short.request_target(), "/x?u=http://y");
        let long: Address = "http://localhost/x?u=http://y".parse().expect("it is a URL");
        let long = long.with_unix_socket(Path::new("/run/a.sock"));
        assert_eq!(short.endpoints().expect("a path"), long.endpoints().expect("a path"));
        let bare: Address = "unix:a.sock".parse().expect("it is a URL");
        assert_eq!(bare.request_target(), "/");
    }

    /// A listener on `own` only, and both addresses of a name such as `localhost` in this order.
    fn listening_on(own: &str, both: [&str; 2]) -> Option<(TcpListener, Vec<Endpoint>)> {
        // Without IPv6 there is nothing to test.
        let listener = TcpListener::bind((own, 0)).ok()?;
        let port = listener.local_addr().expect("it is bound").port();
        let endpoint = |address: &str| {
            Endpoint::Tcp((address.parse::<IpAddr>().expect("it is an address"), port).into())
        };
        Some((listener, both.map(endpoint).into()))
    }

    #[test]
    fn of_several_addresses_the_one_that_accepts_is_used() {
        let timeout = Duration::from_secs(2);
        for (own, both) in [
            ("::1", ["127.0.0.1", "::1"]),
            ("127.0.0.1", ["::1", "127.0.0.1"]),
            ("127.0.0.1", ["127.0.0.1", "::1"]),
        ] {
            let Some((_listener, endpoints)) = listening_on(own, both) else { continue };
            let found = &endpoints[first_that_accepts(&endpoints, timeout)];
            let Endpoint::Tcp(found) = found else { panic!("it is a TCP address") };
            assert_eq!(found.ip().to_string(), own, "{both:?}");
        }
    }

    #[test]
    fn a_name_is_resolved_to_where_its_server_listens() {
        for own in ["127.0.0.1", "::1"] {
            let Some((listener, _)) = listening_on(own, [own, own]) else { continue };
            let wanted = listener.local_addr().expect("it is bound");
            let address: Address =
                format!("http://localhost:{}/", wanted.port()).parse().expect("it is a URL");
            let wanted = Endpoint::Tcp(wanted);
            // A machine may know it by one address only.
            if address.endpoints().expect("localhost is known").contains(&wanted) {
                let found = address.endpoint(Duration::from_secs(2)).expect("localhost is known");
                assert_eq!(found, wanted);
            }
        }
    }

    #[test]
    fn invalid_urls_are_rejected() {
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
