//! The address of an upstream server, as the user writes it.

use std::collections::BTreeSet;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use std::sync::Arc;

use jissoku_os::socket::Endpoint;
use jissoku_server::TlsName;

use crate::policy::configuration::Protocol;
use crate::policy::routes::Rewrite;

/// Addresses of one name that are used at most.
const ADDRESSES_MAX: usize = 64;

/// Where requests are forwarded to, as it was parsed: a value whose fields are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its addresses: several if the host is a name that has several. At least one.
    pub(crate) endpoints: Vec<Arc<Endpoint>>,
    /// Its host and port as written, for requests without Host.
    pub(crate) host: Box<str>,
    /// Host and port, if the host is a name.
    pub(crate) name: Option<Box<str>>,
    /// What the server speaks.
    pub protocol: Protocol,
    /// The name of its certificate, if it has TLS and is not a Unix socket.
    pub(crate) tls_name: Option<TlsName>,
    /// What is put before the paths of requests: nothing, or a path without a final slash.
    pub prefix: Box<str>,
}

impl Target {
    /// Whether it has the address of a Unix socket, which has no name of a host.
    pub fn is_unix(&self) -> bool {
        self.endpoints.iter().any(|endpoint| matches!(**endpoint, Endpoint::Unix(_)))
    }

    /// Parses `HOST:PORT` or `unix:PATH` of a server that speaks `protocol`. The name of a host is
    /// resolved.
    ///
    /// # Errors
    /// The name cannot be resolved.
    pub fn of_server(text: &str, protocol: Protocol) -> Result<Self, String> {
        let scheme = if protocol.has_tls() { "https" } else { "http" };
        let is_unix = text.starts_with("unix:");
        let url = if is_unix { text.to_owned() } else { format!("{scheme}://{text}") };
        url.parse().map_err(|_| format!("{text}: this host cannot be resolved"))
    }
}

impl FromStr for Target {
    type Err = String;

    /// Parses `http[s]://HOST[:PORT][/PATH]` or `unix:PATH`, and for the uwsgi protocol
    /// `uwsgi://HOST:PORT[/PATH]` or `uwsgi+unix:PATH`. The name of a host is resolved.
    fn from_str(text: &str) -> Result<Self, String> {
        let refuse = |why: &str| Err(format!("{text}: {why}"));
        let unix = find_scheme(text, ["unix:", "uwsgi+unix:"]);
        if let Some((path, protocol)) = unix {
            if path.is_empty() {
                return refuse("the path of the socket is missing");
            }
            let endpoint = Arc::new(Endpoint::Unix(path.into()));
            return Ok(Self {
                endpoints: vec![endpoint],
                host: "localhost".into(),
                name: None,
                protocol,
                tls_name: None,
                prefix: Box::default(),
            });
        }
        let https = text.strip_prefix("https://").map(|rest| (rest, Protocol::Https));
        let found = https.or_else(|| find_scheme(text, ["http://", "uwsgi://"]));
        let Some((rest, protocol)) = found else {
            return refuse(
                "write http://HOST:PORT, https://HOST:PORT or unix:PATH, or uwsgi://HOST:PORT or \
                 uwsgi+unix:PATH",
            );
        };
        let (authority, prefix) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
        if authority.is_empty() || rest.contains(['?', '#', '@', ' ']) {
            return refuse("write http://HOST:PORT/PATH, https:// or uwsgi://, without a query");
        }
        if !prefix.is_empty()
            && let Err(error) = Rewrite::new().with_prefix(prefix)
        {
            return refuse(&format!("{prefix}: {error}"));
        }
        let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
        if !has_port && protocol == Protocol::Uwsgi {
            return refuse("the port is missing, for which the uwsgi protocol has no default");
        }
        let port = authority.rsplit_once(':').filter(|_| has_port).map(|(_, port)| port);
        if port.is_some_and(|port| !port.parse::<u16>().is_ok_and(|port| port > 0)) {
            return refuse("the port is that at which the server listens, 1 to 65535");
        }
        let usual_port = if protocol.has_tls() { 443 } else { 80 };
        let address =
            if has_port { authority.to_owned() } else { format!("{authority}:{usual_port}") };
        let host = address.rsplit_once(':').map_or(authority, |(host, _)| host);
        let tls_name = protocol.has_tls().then(|| TlsName::parse(host));
        if tls_name == Some(None) {
            return refuse("this host cannot be the name of a certificate");
        }
        let tls_name = tls_name.flatten();
        let addresses = resolve(&address).unwrap_or_default();
        if addresses.is_empty() {
            return refuse("this host cannot be resolved");
        }
        let name = address.parse::<SocketAddr>().is_err().then(|| address.into());
        let endpoints = endpoints_of(&addresses);
        let prefix = prefix.into();
        Ok(Self { endpoints, host: authority.into(), name, protocol, tls_name, prefix })
    }
}

/// Finds the addresses of `HOST:PORT`. It may block.
pub type Lookup = fn(&str) -> io::Result<Vec<SocketAddr>>;

/// When and how names are resolved again.
#[derive(Clone, Copy, Debug)]
pub struct Resolution {
    /// The time between two lookups, in nanoseconds.
    pub every_ns: u64,
    /// Finds addresses.
    pub lookup: Lookup,
    /// Reports a new address, a name that cannot be resolved any more, a certificate that is not
    /// accepted, or whether a server is used, to the operator, as one sentence.
    pub report: fn(&str),
}

impl Resolution {
    /// By the system, every 30 s, and without reports.
    pub const DEFAULT: Self =
        Self { every_ns: 30_000_000_000, lookup: resolve, report: |_: &str| {} };
}

/// Finds the addresses of `HOST:PORT` as the system does (`getaddrinfo(3)`).
///
/// # Errors
/// The name cannot be resolved.
pub fn resolve(name: &str) -> io::Result<Vec<SocketAddr>> {
    name.to_socket_addrs().map(Iterator::collect)
}

/// The addresses that are used of those of a name. They do not depend on the order of the answer.
pub(crate) fn endpoints_of(addresses: &[SocketAddr]) -> Vec<Arc<Endpoint>> {
    let all: BTreeSet<_> = addresses.iter().collect();
    let used = all.into_iter().take(ADDRESSES_MAX);
    used.map(|address| Arc::new(Endpoint::Tcp(*address))).collect()
}

/// What follows the scheme, and whether it is that of HTTP or of the uwsgi protocol.
fn find_scheme<'a>(text: &'a str, [http, uwsgi]: [&str; 2]) -> Option<(&'a str, Protocol)> {
    let http = text.strip_prefix(http).map(|rest| (rest, Protocol::Http));
    http.or_else(|| text.strip_prefix(uwsgi).map(|rest| (rest, Protocol::Uwsgi)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let check = |text: &str, endpoint: &str, host: &str| {
            let target: Target = text.parse().expect("it is an address");
            let found: Vec<_> = target.endpoints.iter().map(ToString::to_string).collect();
            assert_eq!((found, &*target.host), (vec![endpoint.to_owned()], host));
            assert_eq!(target.protocol == Protocol::Uwsgi, text.starts_with("uwsgi"), "{text}");
        };
        check("http://127.0.0.1:9001", "127.0.0.1:9001", "127.0.0.1:9001");
        check("http://127.0.0.1/", "127.0.0.1:80", "127.0.0.1");
        check("https://127.0.0.1", "127.0.0.1:443", "127.0.0.1");
        check("https://[::1]:8443", "[::1]:8443", "[::1]:8443");
        check("http://[::1]", "[::1]:80", "[::1]");
        check("http://[::1]:81", "[::1]:81", "[::1]:81");
        check("unix:/run/app.sock", "unix:/run/app.sock", "localhost");
        check("uwsgi://127.0.0.1:9001", "127.0.0.1:9001", "127.0.0.1:9001");
        check("uwsgi+unix:/run/app.sock", "unix:/run/app.sock", "localhost");
        let prefix_of = |text: &str| text.parse::<Target>().expect("an address").prefix;
        for (text, prefix) in
            [("", ""), ("/", ""), ("/base", "/base"), ("/a/b%20c/", "/a/b%20c"), ("/~a", "/~a")]
        {
            assert_eq!(&*prefix_of(&format!("http://127.0.0.1:9001{text}")), prefix);
        }
        let name_of = |text: &str| text.parse::<Target>().expect("it is an address").name;
        assert_eq!(name_of("http://localhost").as_deref(), Some("localhost:80"));
        for address in ["http://127.0.0.1:9001", "http://[::1]", "unix:/run/app.sock"] {
            assert_eq!(name_of(address), None);
        }
        let wrong = [
            "",
            "127.0.0.1:80",
            "ftp://a",
            "https://",
            "https://127.0.0.1:0",
            "http://",
            "http://127.0.0.1/a/../b",
            "http://127.0.0.1/a//",
            "http://127.0.0.1//",
            "http://127.0.0.1/a?b",
            "http://127.0.0.1/{b}",
            "http://u@a",
            "unix:",
            "http://a:x",
            "http://127.0.0.1:0",
            "http://127.0.0.1:65536",
            "http://[::1]:0/",
            "uwsgi://127.0.0.1:0",
            "uwsgi://127.0.0.1",
            "uwsgi://[::1]/",
            "uwsgi:127.0.0.1:9001",
            "uwsgi+unix:",
            "httpunix:/run/app.sock",
        ];
        for wrong in wrong {
            let error = wrong.parse::<Target>().expect_err("it is no address");
            assert!(error.starts_with(wrong), "{error}");
        }
    }
}
