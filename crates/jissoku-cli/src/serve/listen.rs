//! Flags for the listeners, and for their TLS.

use std::ffi::OsStr;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{ArgMatches, Args};
use jissoku_os::socket::Endpoint;
use jissoku_proxy::policy::configuration::instead_of;
use jissoku_server::{
    CertificateFiles, Encryption, ForwardedFields, ListenerOptions, Protocol, RequestIdName, Tls,
    TrustedProxies, XForwarded,
};

use super::failure::Failure;
use super::inputs::Inputs;

/// Flags for listeners.
#[derive(Debug, Args)]
#[expect(clippy::struct_field_names, reason = "fields are named as their flags")]
pub(super) struct Listen {
    /// Address to listen on: HOST:PORT or unix:PATH; may be repeated; port 0 selects a free port;
    /// append `,uwsgi` for the uwsgi protocol, `,proxy-protocol` for the PROXY protocol, `,plain` for
    /// no TLS, `,redirect` or `,redirect=PORT` to redirect each request to https
    /// [default: the sockets passed by systemd or `Server::Starter`, else `0.0.0.0:$PORT` if
    /// that variable is set, else 127.0.0.1:8000]
    #[arg(long, value_name = "WHERE")]
    listen: Vec<Listener>,
    /// Mode of a Unix socket in octal, such as 660 [default: by the umask]
    #[arg(long, value_name = "MODE", value_parser = mode)]
    pub(super) socket_mode: Option<u32>,
    /// Peers whose X-Forwarded-For and X-Forwarded-Proto are trusted, and that may use the uwsgi
    /// and the PROXY protocol: ADDRESS[/PREFIX] and unix, separated by commas [default: none; for
    /// the two protocols, loopback addresses and Unix sockets]
    #[arg(long, value_name = "PROXIES")]
    pub(super) trusted_proxies: Option<TrustedProxies>,
    /// Give each request an id, in this field [X-Request-Id]: that of a trusted proxy, or a new one;
    /// applications, servers, clients and the access log get it
    #[arg(long, value_name = "NAME", value_parser = RequestIdName::parse, num_args = 0..=1,
        require_equals = true, default_missing_value = "X-Request-Id")]
    pub(super) request_id: Option<RequestIdName>,
    /// The fields that trusted proxies set: x-forwarded-for, x-forwarded-proto and
    /// x-forwarded-host, separated by commas; x-forwarded for all three; or forwarded (RFC 7239).
    /// x-forwarded-*: also all others that begin so, which are passed on
    #[arg(long, value_name = "FIELDS", default_value = DEFAULT_FIELDS, value_parser = fields)]
    pub(super) forwarded_fields: ForwardedFields,
}

const DEFAULT_FIELDS: &str = "x-forwarded-for,x-forwarded-proto";

fn fields(text: &str) -> Result<ForwardedFields, String> {
    match text {
        "x-forwarded" => Ok(ForwardedFields::XForwarded(XForwarded::ALL)),
        "forwarded" => Ok(ForwardedFields::Forwarded),
        list => {
            let mut which = XForwarded::default();
            for name in list.split(',').map(str::trim) {
                match name {
                    "x-forwarded-for" => which.address = true,
                    "x-forwarded-proto" => which.scheme = true,
                    "x-forwarded-host" => which.host = true,
                    "x-forwarded-*" => which.others = true,
                    _ => {
                        return Err("write forwarded, x-forwarded, or some of x-forwarded-for, \
                                    x-forwarded-proto, x-forwarded-host and x-forwarded-* with commas"
                            .to_owned());
                    }
                }
            }
            Ok(ForwardedFields::XForwarded(which))
        }
    }
}

fn mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| "write three octal digits such as 660".to_owned())
}

/// What may follow the address of a listener.
const OPTIONS: [&str; 5] = ["http", "uwsgi", "proxy-protocol", "plain", "redirect"];

/// The address without `--listen` and without sockets that were passed.
const DEFAULT: &str = "127.0.0.1:8000";

const HTTP_PORT: u16 = 80;

const HTTPS_PORT: u16 = 443;

/// The port of a redirect without one, until that of the first listener with TLS is known.
const UNKNOWN_PORT: u16 = 0;

/// An address to listen on, and the protocol of its peers.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Listener {
    endpoint: Endpoint,
    options: ListenerOptions,
}

impl FromStr for Listener {
    type Err = String;

    /// Parses an endpoint, and options that are separated by commas.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut options = ListenerOptions::default();
        let mut rest = text;
        while let Some((address, option)) = rest.rsplit_once(',') {
            match option.split_once('=').unwrap_or((option, "")) {
                ("http", "") => options.protocol = Protocol::Http,
                ("uwsgi", "") => options.protocol = Protocol::Uwsgi,
                ("proxy-protocol", "") => options.has_proxy_header = true,
                ("plain", "") => options.encryption = Encryption::Plain,
                ("redirect", "") => options.encryption = Encryption::Redirect(UNKNOWN_PORT),
                ("redirect", port) => {
                    let port = port.parse().ok().filter(|port| *port != UNKNOWN_PORT);
                    let port = port.ok_or("write redirect=PORT with the port of https")?;
                    options.encryption = Encryption::Redirect(port);
                }
                // The path of a Unix socket may have commas.
                _ if rest.starts_with("unix:") => break,
                _ => {
                    let instead = instead_of(option, &OPTIONS);
                    return Err(format!("unknown option {option:?} of a listener; {instead}"));
                }
            }
            rest = address;
        }
        if options.protocol == Protocol::Uwsgi && redirect_port(options).is_some() {
            return Err("a listener for uwsgi cannot redirect".to_owned());
        }
        let endpoint = rest.parse().map_err(|error: <Endpoint as FromStr>::Err| error.to_string());
        Ok(Self { endpoint: endpoint?, options })
    }
}

impl Listen {
    /// The addresses to listen on; `given` are those of inherited listeners, and `port` is the
    /// variable by which a platform for applications passes the port that it forwards to.
    pub(super) fn endpoints(
        &self,
        given: &[Endpoint],
        port: Option<&OsStr>,
    ) -> Result<Vec<Endpoint>, Failure> {
        match (&*self.listen, given, port.filter(|port| !port.is_empty())) {
            ([], [], None) => {
                Ok(vec![DEFAULT.parse().expect("a numeric address needs no resolver")])
            }
            ([], [], Some(port)) => {
                let number = port.to_str().and_then(|port| port.parse().ok());
                let number: u16 = number.ok_or_else(|| {
                    let port = port.display();
                    let why = "it is not the number of a port; --listen overrides it";
                    Failure::of_input(&format!("the variable PORT is {port}: {why}"))
                })?;
                Ok(vec![Endpoint::Tcp((Ipv4Addr::UNSPECIFIED, number).into())])
            }
            ([], given, _) => Ok(given.to_vec()),
            (wanted, ..) => Ok(wanted.iter().map(|listener| listener.endpoint.clone()).collect()),
        }
    }

    /// The listener of a URL's port and the URL that it redirects to, if it does.
    pub(super) fn redirect_of(&self, url: &str, has_certificate: bool) -> Option<(String, String)> {
        let rest = url.strip_prefix("http://")?;
        let (authority, target) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
            _ => (authority, HTTP_PORT),
        };
        let endpoints: Vec<_> = self.listen.iter().map(|it| it.endpoint.clone()).collect();
        let options = self.options(&endpoints, has_certificate).ok()?;
        let has_port = |endpoint: &Endpoint| match endpoint {
            Endpoint::Tcp(address) => address.port() == port,
            Endpoint::Unix(_) => false,
        };
        let (endpoint, options) = endpoints.iter().zip(options).find(|(it, _)| has_port(it))?;
        let other = match redirect_port(options)? {
            HTTPS_PORT => format!("https://{host}{target}"),
            port => format!("https://{host}:{port}{target}"),
        };
        Some((endpoint.to_string(), other))
    }

    /// The protocols of the peers of `endpoints`. Listeners with port 0 are matched by position,
    /// because the kernel has assigned a port.
    pub(super) fn options(
        &self,
        endpoints: &[Endpoint],
        has_certificate: bool,
    ) -> Result<Vec<ListenerOptions>, Failure> {
        let mut all: Vec<_> = self.options_as_written(endpoints).collect();
        let secure = endpoints.iter().zip(&all).find(|(endpoint, it)| it.use_tls(endpoint));
        let port = match secure {
            Some((Endpoint::Tcp(address), _)) if address.port() != UNKNOWN_PORT => address.port(),
            _ => HTTPS_PORT,
        };
        for (endpoint, options) in endpoints.iter().zip(&mut all) {
            if redirect_port(*options).is_some() && !has_certificate {
                return Err(Failure::of_input(&format!(
                    "--listen {endpoint},redirect has nothing to redirect to: give --tls-cert and \
                     --tls-key"
                )));
            }
            if redirect_port(*options) == Some(UNKNOWN_PORT) {
                options.encryption = Encryption::Redirect(port);
            }
        }
        Ok(all)
    }

    /// Which of these listeners speak the uwsgi protocol.
    pub(super) fn uwsgi_listeners(&self, endpoints: &[Endpoint]) -> Vec<bool> {
        let all = self.options_as_written(endpoints);
        all.map(|options| options.protocol == Protocol::Uwsgi).collect()
    }

    fn options_as_written(&self, endpoints: &[Endpoint]) -> impl Iterator<Item = ListenerOptions> {
        endpoints.iter().enumerate().map(|(place, endpoint)| {
            let at_place = self.listen.get(place);
            let same = at_place.filter(|listener| listener.endpoint == *endpoint);
            let named = || self.listen.iter().find(|listener| listener.endpoint == *endpoint);
            let bound = || at_place.filter(|listener| listener.has_any_port());
            same.or_else(named).or_else(bound).map(|listener| listener.options).unwrap_or_default()
        })
    }
}

const fn redirect_port(options: ListenerOptions) -> Option<u16> {
    match options.encryption {
        Encryption::Redirect(port) => Some(port),
        Encryption::WithCertificate | Encryption::Plain => None,
    }
}

impl Listener {
    const fn has_any_port(&self) -> bool {
        matches!(&self.endpoint, Endpoint::Tcp(address) if address.port() == 0)
    }
}

/// Flags for TLS.
#[derive(Debug, Args)]
pub(super) struct TlsArgs {
    /// Use TLS on TCP listeners, with the certificate chain in this PEM file; may be repeated, each
    /// with its --tls-key: a client gets the certificate of the name that it asks for (SNI), else the
    /// first one
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Vec<PathBuf>,
    /// Private key of the certificate, in PEM; may be repeated, in the order of the certificates
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Vec<PathBuf>,
}

impl TlsArgs {
    pub(super) const fn is_given(&self) -> bool {
        !self.tls_cert.is_empty()
    }

    /// Reads the certificates and keys, if they are configured.
    pub(super) fn load(&self, inputs: &Inputs) -> Result<Option<Tls>, Failure> {
        if !self.is_given() {
            return Ok(None);
        }
        let pairs = self.tls_cert.iter().zip(&self.tls_key);
        let files: Vec<CertificateFiles<'_>> = pairs.map(|(cert, key)| (&**cert, &**key)).collect();
        let tls = Tls::load(&files, &|path| inputs.read(path));
        tls.map(Some).map_err(|error| Failure::of_input(&error))
    }
}

/// What is wrong with the number of keys.
pub(super) fn refusal_of_keys(matches: &ArgMatches) -> Option<String> {
    let count = |id| matches.try_get_many::<PathBuf>(id).ok().flatten().map_or(0, Iterator::count);
    let (certificates, keys) = (count("tls_cert"), count("tls_key"));
    (certificates != keys && keys > 0 && certificates > 0).then(|| {
        format!(
            "tls-key has {keys} files and tls-cert {certificates}: name the key of each \
             certificate, in the same order"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const UWSGI: ListenerOptions = ListenerOptions {
        protocol: Protocol::Uwsgi,
        has_proxy_header: false,
        encryption: Encryption::WithCertificate,
    };

    fn listener(text: &str) -> Result<(String, ListenerOptions), String> {
        text.parse::<Listener>().map(|found| (found.endpoint.to_string(), found.options))
    }

    #[test]
    fn options_are_parsed_from_the_end() {
        let http = ListenerOptions::default();
        assert_eq!(listener("127.0.0.1:80"), Ok(("127.0.0.1:80".into(), http)));
        assert_eq!(listener("127.0.0.1:80,http"), Ok(("127.0.0.1:80".into(), http)));
        assert_eq!(listener("127.0.0.1:80,uwsgi"), Ok(("127.0.0.1:80".into(), UWSGI)));
        assert_eq!(listener("unix:/run/a.sock,uwsgi"), Ok(("unix:/run/a.sock".into(), UWSGI)));
        let both = ListenerOptions { has_proxy_header: true, ..UWSGI };
        assert_eq!(listener("unix:/a,uwsgi,proxy-protocol"), Ok(("unix:/a".into(), both)));
        assert_eq!(listener("unix:/run/a,b"), Ok(("unix:/run/a,b".into(), http)));
        let encrypted = |encryption| ListenerOptions { encryption, ..http };
        let address = "127.0.0.1:80".to_owned();
        let expected = (address.clone(), encrypted(Encryption::Plain));
        assert_eq!(listener("127.0.0.1:80,plain"), Ok(expected));
        let expected = (address, encrypted(Encryption::Redirect(8443)));
        assert_eq!(listener("127.0.0.1:80,redirect=8443"), Ok(expected));
        for wrong in ["redirect=0", "redirect=x", "redirect,uwsgi", "plain=1", "scgi"] {
            assert!(listener(&format!("127.0.0.1:80,{wrong}")).is_err(), "{wrong}");
        }
        let said = listener("127.0.0.1:80,plian").expect_err("a slip");
        assert!(said.ends_with("did you mean \"plain\"?"), "{said}");
        assert!(listener("127.0.0.1,uwsgi").is_err());
        assert!(listener(",uwsgi").is_err());
    }

    #[test]
    fn forwarded_fields_are_parsed_individually() {
        let which = |address, scheme, host| {
            let others = false;
            Ok(ForwardedFields::XForwarded(XForwarded { address, scheme, host, others }))
        };
        assert_eq!(fields(DEFAULT_FIELDS), Ok(ForwardedFields::default()));
        assert_eq!(fields("x-forwarded-proto"), which(false, true, false));
        assert_eq!(fields("x-forwarded-host, x-forwarded-for"), which(true, false, true));
        assert_eq!(fields("x-forwarded"), which(true, true, true));
        let others = XForwarded { scheme: true, others: true, ..XForwarded::default() };
        let others = Ok(ForwardedFields::XForwarded(others));
        assert_eq!(fields("x-forwarded-proto,x-forwarded-*"), others);
        assert_eq!(fields("forwarded"), Ok(ForwardedFields::Forwarded));
        for text in ["", "x-forwarded-for,", "x-forwarded-for,forwarded", "x-forwarded,forwarded"] {
            assert!(fields(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn the_port_of_a_platform_is_the_default() {
        let listening = |listen: &[&str], given: &[&str], port: Option<&str>| {
            let listen = Listen {
                listen: listen.iter().map(|text| text.parse().expect("a listener")).collect(),
                socket_mode: None,
                trusted_proxies: None,
                request_id: None,
                forwarded_fields: ForwardedFields::default(),
            };
            let given: Vec<Endpoint> =
                given.iter().map(|text| text.parse().expect("an endpoint")).collect();
            let found = listen.endpoints(&given, port.map(OsStr::new));
            found.map(|found| found[0].to_string()).map_err(|failure| failure.to_string())
        };
        let ok = |text: &str| Ok(text.to_owned());
        assert_eq!(listening(&[], &[], None), ok(DEFAULT));
        assert_eq!(listening(&[], &[], Some("")), ok(DEFAULT));
        assert_eq!(listening(&[], &[], Some("5000")), ok("0.0.0.0:5000"));
        assert_eq!(listening(&["127.0.0.1:1"], &[], Some("5000")), ok("127.0.0.1:1"));
        assert_eq!(listening(&["127.0.0.1:1"], &[], Some("no port")), ok("127.0.0.1:1"));
        assert_eq!(listening(&[], &["127.0.0.1:2"], Some("5000")), ok("127.0.0.1:2"));
        for wrong in ["no port", "70000", "tcp://10.0.0.1:80"] {
            let said = listening(&[], &[], Some(wrong)).expect_err("no number of a port");
            assert!(said.contains(wrong), "{said}");
        }
    }

    #[test]
    fn a_worker_gets_the_options_of_its_sockets() {
        let parse = |text: &str| text.parse().expect("a listener");
        let listen = Listen {
            listen: vec![parse("127.0.0.1:0"), parse("127.0.0.1:0,uwsgi"), parse("unix:/a,uwsgi")],
            socket_mode: None,
            trusted_proxies: None,
            request_id: None,
            forwarded_fields: ForwardedFields::default(),
        };
        let bound = ["127.0.0.1:4000", "127.0.0.1:4001", "unix:/a"];
        let bound = bound.map(|text| text.parse().expect("an endpoint"));
        let options = |bound: &[Endpoint]| listen.options(bound, false).map_err(|_| ());
        assert_eq!(options(&bound), Ok(vec![ListenerOptions::default(), UWSGI, UWSGI]));
        assert_eq!(options(&bound[2..]), Ok(vec![UWSGI]));
        // As before the ports are assigned.
        let wanted = ["127.0.0.1:0", "127.0.0.1:0"].map(|text| text.parse().expect("an endpoint"));
        assert_eq!(options(&wanted), Ok(vec![ListenerOptions::default(), UWSGI]));
    }

    #[test]
    fn the_listener_of_the_port_of_an_url_may_redirect() {
        let addresses = ["127.0.0.1:18080,redirect", "127.0.0.1:18443", "127.0.0.1:18081,plain"];
        let listen = Listen {
            listen: addresses.map(|text| text.parse().expect("a listener")).to_vec(),
            socket_mode: None,
            trusted_proxies: None,
            request_id: None,
            forwarded_fields: ForwardedFields::XForwarded(XForwarded::default()),
        };
        for (url, expected) in [
            ("http://shop.example:18080/api?x", Some("https://shop.example:18443/api?x")),
            ("http://[::1]:18080", Some("https://[::1]:18443")),
            ("http://shop.example:18081/api", None),
            ("http://shop.example/api", None),
            ("https://shop.example:18443/api", None),
            ("/api", None),
        ] {
            let found = listen.redirect_of(url, true);
            let expected = expected.map(|to| ("127.0.0.1:18080".to_owned(), to.to_owned()));
            assert_eq!(found, expected, "{url}");
        }
    }

    #[test]
    fn a_redirect_is_to_the_port_of_the_first_listener_with_tls() {
        let found = |listeners: &[&str]| {
            let listeners: Vec<Listener> =
                listeners.iter().map(|text| text.parse().expect("a listener")).collect();
            let endpoints: Vec<_> = listeners.iter().map(|it| it.endpoint.clone()).collect();
            let listen = Listen {
                listen: listeners,
                socket_mode: None,
                trusted_proxies: None,
                request_id: None,
                forwarded_fields: ForwardedFields::default(),
            };
            assert!(listen.options(&endpoints, false).is_err(), "there is no certificate");
            let options = listen.options(&endpoints, true).expect("it redirects");
            options.iter().copied().find_map(redirect_port)
        };
        let redirect = "127.0.0.1:80,redirect";
        assert_eq!(found(&[redirect, "127.0.0.1:81,plain", "127.0.0.1:8443"]), Some(8443));
        assert_eq!(found(&[redirect, "127.0.0.1:0"]), Some(443));
        assert_eq!(found(&["127.0.0.1:80,redirect=444", "127.0.0.1:8443"]), Some(444));
    }
}
