//! Flags for a reverse proxy.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, value_parser};
use jissoku_proxy::policy::configuration::Protocol;
use jissoku_proxy::policy::redirect::Redirect;
use jissoku_proxy::policy::routes::Rewrite;
use jissoku_proxy::{
    Content, Forwarding, Gateway, Resolution, RouteContent, Target, Timeouts, UpstreamGroup,
    UpstreamOptions,
};
use jissoku_server::{DynService, SecureListeners, TlsClient, TlsName, Trust, TrustedProxies};

use super::edit_args::{self, EditArgs};
use super::failure::{Failure, print_error};
use super::inputs::Inputs;
use super::instance;
use crate::units;

/// Flags for a reverse proxy.
#[derive(Debug, Args)]
pub(super) struct GatewayArgs {
    /// Forward all requests to another server, http://HOST:PORT, https://HOST:PORT or unix:PATH, in
    /// the uwsgi protocol uwsgi://HOST:PORT or uwsgi+unix:PATH, or to several, separated by commas;
    /// a path behind the port is put before those of requests
    #[arg(long, value_name = "URL", conflicts_with_all = ["folder", "fixed", "contract", "echo"])]
    pub(super) to: Option<String>,
    /// Redirect all requests to URL, in which {host}, {hostname}, {target} and others are variables,
    /// with 308 or another STATUS
    #[arg(long, value_name = "[STATUS=]URL", value_parser = edit_args::redirect,
        conflicts_with_all = ["folder", "fixed", "contract", "echo", "to"])]
    redirect: Option<Redirect>,
    #[command(flatten)]
    edit: EditArgs,
    /// Timeout for connecting to that server
    #[arg(long, value_name = "TIME", value_parser = units::duration_ns, default_value = "1s")]
    connect_time_max: u64,
    /// Timeout from the end of a request to the head of its response
    #[arg(long, value_name = "TIME", value_parser = units::duration_ns, default_value = "60s")]
    pub(super) response_time_max: u64,
    /// Timeout between two parts of a response
    #[arg(long, value_name = "TIME", value_parser = units::duration_ns, default_value = "60s")]
    read_time_max: u64,
    /// Time that an idle connection to that server is kept; choose less than the server's own
    /// timeout
    #[arg(long, value_name = "TIME", value_parser = units::duration_ns, default_value = "4s")]
    pub(super) upstream_idle_time: u64,
    /// Time between two lookups of the name of that server
    #[arg(long, value_name = "TIME", value_parser = units::duration_ns, default_value = "30s")]
    pub(super) upstream_resolve_every: u64,
    /// Idle timeout of a tunnel (WebSocket)
    #[arg(long, value_name = "TIME", value_parser = units::duration_ns, default_value = "1h")]
    tunnel_idle_time: u64,
    /// Size of the bodies of gathered responses that a worker holds at most; beyond it 503
    #[arg(long, value_name = "SIZE", value_parser = units::size, default_value = "64MiB")]
    gather_memory: u64,
    /// Number of header fields of a response of a server; beyond it 502
    #[arg(long, value_name = "COUNT", default_value = "100",
        value_parser = value_parser!(u32).range(1..=10_000))]
    response_fields_max: u32,
    /// Name of this instance in Via, by which forwarding loops are noticed; a random one unless it is
    /// given
    #[arg(long, value_name = "NAME", value_parser = instance::parse)]
    via_name: Option<String>,
    /// CA certificates for servers of `--to https://...`, in PEM [default: those of the system]
    #[arg(long, value_name = "FILE", conflicts_with = "upstream_tls_insecure")]
    upstream_tls_ca: Option<PathBuf>,
    /// Name that these servers are asked for (SNI) and that their certificates have [default: the host
    /// in the URL]
    #[arg(long, value_name = "NAME", value_parser = tls_name)]
    upstream_tls_name: Option<TlsName>,
    /// Accept every certificate of these servers: who is in between can read and change all
    #[arg(long)]
    upstream_tls_insecure: bool,
    /// Clients whose responses have Proxy-Status (RFC 9209) and Server-Timing: ADDRESS[/PREFIX] and
    /// unix, separated by commas
    #[arg(long, value_name = "CLIENTS")]
    diagnostics_for: Option<TrustedProxies>,
}

impl GatewayArgs {
    /// The reverse proxy, if `--to` is given, or the redirect. `body_size_max`: of the bodies of
    /// requests. `response_rules`: for fields of responses.
    pub(super) fn service(
        &self,
        secure: SecureListeners,
        body_size_max: u64,
        response_rules: &[String],
        inputs: &Inputs,
    ) -> Result<Option<DynService>, Failure> {
        if let Some(redirect) = &self.redirect {
            let (rule, edit) = self.edit.rule("", response_rules)?;
            if let Some(name) = Redirect::OWN_FIELDS.iter().find(|it| edit.response.concerns(it)) {
                return Err(Failure::of_input(&format!("--redirect sets {name}")));
            }
            let mut redirect = redirect.clone();
            redirect.fields = edit.response;
            let content = Content::Redirect(redirect);
            let gateway = self.gateway(Vec::new(), secure);
            let content = RouteContent::single(rule, content, gateway, body_size_max);
            return Ok(Some(Arc::new(content).without_app().into()));
        }
        let Some(to) = &self.to else { return Ok(None) };
        let words = to.split(',').map(str::trim).filter(|word| !word.is_empty());
        let targets: Vec<Target> = words
            .map(|word| {
                word.parse().map_err(|why: String| Failure::of_input(&format!("--to {why}")))
            })
            .collect::<Result<_, _>>()?;
        if targets.is_empty() {
            return Err(Failure::of_input("--to names no server"));
        }
        if targets.iter().any(|target| target.protocol != targets[0].protocol) {
            let why = "--to names servers of several protocols: write routes for them";
            return Err(Failure::of_input(why));
        }
        if targets.iter().any(|target| target.prefix != targets[0].prefix) {
            return Err(Failure::of_input("--to names servers with different paths"));
        }
        let edit = self.edit.read(&targets[0].prefix, response_rules)?;
        let timeouts = self.timeouts();
        let resolution = Resolution {
            every_ns: self.upstream_resolve_every,
            report: print_error,
            ..Resolution::DEFAULT
        };
        let options = UpstreamOptions {
            resolution,
            tls: self.tls(targets[0].protocol, inputs)?,
            tls_name: self.upstream_tls_name.clone(),
            ..UpstreamOptions::new(timeouts.idle_ns)
        };
        let upstream = UpstreamGroup::unnamed(targets, options);
        let mut gateway = self.gateway(vec![upstream], secure);
        Ok(Some(match edit {
            None => gateway.into(),
            // Without another path there is nothing to decide by the path.
            Some((_, edit)) if edit.rewrite == Rewrite::default() => {
                gateway.edit_all(edit);
                gateway.into()
            }
            Some((rule, edit)) => {
                let edit = gateway.add_edit(edit);
                let forwarding = Forwarding { edit, ..Forwarding::new(0, timeouts.head_ns) };
                let content = Content::Forward(forwarding);
                let content = RouteContent::single(rule, content, gateway, body_size_max);
                Arc::new(content).without_app().into()
            }
        }))
    }

    /// Whether all requests are forwarded or redirected.
    pub(super) const fn is_given(&self) -> bool {
        self.to.is_some() || self.redirect.is_some()
    }

    /// Rejects flags that have no effect without `--to`.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.to.is_some() {
            return Ok(());
        }
        self.edit.check_unused()?;
        self.check_tls_unused()
    }

    /// Rejects flags that have no effect without servers with TLS.
    fn check_tls_unused(&self) -> Result<(), Failure> {
        let flags = [
            ("ca", self.upstream_tls_ca.is_some()),
            ("name", self.upstream_tls_name.is_some()),
            ("insecure", self.upstream_tls_insecure),
        ];
        Failure::of_first(&flags, |flag| {
            format!(
                "--upstream-tls-{flag} needs --to https://HOST:PORT; an upstream has a key for it, \
                 tls-{flag}"
            )
        })
    }

    /// TLS to the servers of `--to`, if they speak that.
    fn tls(&self, protocol: Protocol, inputs: &Inputs) -> Result<Option<TlsClient>, Failure> {
        if protocol.has_tls() {
            let ca = self.upstream_tls_ca.as_deref();
            let flags = "--upstream-tls-ca or --upstream-tls-insecure";
            let client = tls_client(ca, self.upstream_tls_insecure, flags, inputs);
            return client.map(Some).map_err(|why| Failure::of_input(&why));
        }
        self.check_tls_unused().map(|()| None)
    }

    /// A reverse proxy with these flags.
    pub(super) fn gateway(
        &self,
        upstreams: Vec<UpstreamGroup>,
        secure: SecureListeners,
    ) -> Gateway {
        let mut gateway = Gateway::of(upstreams, self.timeouts());
        gateway.secure_listeners = secure;
        gateway.fields_max = self.response_fields_max;
        gateway.via_name = self.via_name.as_deref().unwrap_or(instance::name()).into();
        gateway.diagnostics_for = self.diagnostics_for.clone().unwrap_or_default();
        gateway.gather_memory = usize::try_from(self.gather_memory).unwrap_or(usize::MAX);
        gateway
    }

    const fn timeouts(&self) -> Timeouts {
        Timeouts {
            connect_ns: self.connect_time_max,
            head_ns: self.response_time_max,
            read_ns: self.read_time_max,
            idle_ns: self.upstream_idle_time,
            tunnel_ns: self.tunnel_idle_time,
        }
    }
}

/// TLS to servers, with the authorities of a file or of the system.
pub(super) fn tls_client(
    ca: Option<&Path>,
    accepts_all: bool,
    flags: &str,
    inputs: &Inputs,
) -> Result<TlsClient, String> {
    if accepts_all {
        return TlsClient::new(&Trust::AnyCertificate);
    }
    let (path, pem) = jissoku_tls::read_authorities(ca, flags, |path| inputs.read(path))?;
    TlsClient::new(&Trust::Authorities(pem)).map_err(|error| format!("{}: {error}", path.display()))
}

fn tls_name(text: &str) -> Result<TlsName, &'static str> {
    TlsName::parse(text).ok_or("write the name of a host, or an IP address")
}
