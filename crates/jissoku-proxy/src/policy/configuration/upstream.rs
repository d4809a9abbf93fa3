//! `[upstream.NAME]`: servers, how they are chosen, and their limits.

use toml::de::DeValue;

use super::statuses;
use super::table::{Refusal, Table, Value, is_field_name, refuse, string, wrong};
use crate::policy::balance::Balance;
use crate::policy::fleet::ServerSpec;
use crate::policy::health::{HealthPolicy, ProbePolicy};
use crate::policy::queue::QueuePolicy;
use crate::policy::statuses::Statuses;

const SECOND_NS: u64 = 1_000_000_000;
const WEIGHT_MAX: i64 = 1000;

/// Unused connections to each server that a worker opens before they are needed, at most.
pub const IDLE_MIN_MAX: u32 = 64;

/// Requests in flight at one server, unless the file says otherwise.
const CONNECTIONS_MAX: u32 = 1024;

/// A named group of servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upstream {
    /// What routes refer to.
    pub name: String,
    /// Its line, counted from 1.
    pub line: usize,
    /// At least one.
    pub servers: Vec<ServerSpec>,
    /// How one is chosen.
    pub balance: Balance,
    /// What is hashed, if one is chosen by hash.
    pub hash_key: HashKey,
    /// What the servers speak.
    pub protocol: Protocol,
    /// TLS, if they speak it.
    pub tls: TlsOptions,
    /// The Host of requests to them.
    pub host: HostField,
    /// Whether requests to them have Via (RFC 9110 section 7.6.3).
    pub has_via: bool,
    /// When a server is ejected.
    pub ejection: HealthPolicy,
    /// How servers are probed, if they are.
    pub health: Option<HealthCheck>,
    /// Statuses of responses after which a request may be sent to another server.
    pub retry_statuses: Statuses,
    /// Where requests wait when all servers are full; `None`: 503 at once.
    pub queue: Option<QueuePolicy>,
    /// For how long an idle connection is kept; `None`: as the server says.
    pub idle_ns: Option<u64>,
    /// Unused connections to each server that each worker opens before they are needed, up to
    /// [`IDLE_MIN_MAX`].
    pub idle_min: u32,
    /// The time between two lookups of names; `None`: as the server says.
    pub resolve_ns: Option<u64>,
}

/// Which certificates of servers are accepted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TlsOptions {
    /// The file of the authorities; `None`: those of the system.
    pub authorities: Option<String>,
    /// The name of the certificates; `None`: the host of each server.
    pub name: Option<String>,
    /// Whether all certificates are accepted.
    pub accepts_all: bool,
}

/// What requests to the same server have in common.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum HashKey {
    /// The path and the query.
    #[default]
    Target,
    /// The address of the client.
    Address,
    /// The value of a field; without it, the address of the client.
    Field(String),
}

/// The Host of forwarded requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostField {
    /// The Host of the client's request.
    Client,
    /// The address of the first server.
    Upstream,
    /// This one.
    Name(String),
}

/// What a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1.
    Http,
    /// HTTP/1.1 within TLS.
    Https,
    /// uWSGI's protocol.
    Uwsgi,
}

impl Protocol {
    /// Whether a connection can have several requests, and a body need not have a length.
    #[must_use]
    pub const fn is_http(self) -> bool {
        matches!(self, Self::Http | Self::Https)
    }

    /// Whether a connection has TLS.
    #[must_use]
    pub const fn has_tls(self) -> bool {
        matches!(self, Self::Https)
    }
}

/// A probe: GET `path`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthCheck {
    /// The request's target.
    pub path: String,
    /// The time for the response, in nanoseconds.
    pub time_ns: u64,
    /// The statuses that pass; `None`: 200 to 399.
    pub statuses: Option<Statuses>,
    /// When, and what follows.
    pub policy: ProbePolicy,
}

impl HealthCheck {
    /// Whether a response with this status passes.
    #[must_use]
    pub fn passes(&self, status: u16) -> bool {
        match &self.statuses {
            Some(statuses) => statuses.contains(status),
            None => (200..=399).contains(&status),
        }
    }
}

pub(super) fn read(name: &str, mut table: Table<'_, '_>) -> Result<Upstream, Refusal> {
    let defaults = HealthPolicy::default();
    let at = table.at.clone();
    let in_flight_max = table.integer("connections-max", 1..=1_000_000, CONNECTIONS_MAX)?;
    let given = table.value("servers");
    let protocol = table.word("protocol", &PROTOCOLS)?.unwrap_or(Protocol::Http);
    let idle_ns = table.duration("idle-time")?;
    if idle_ns.is_some() && !protocol.is_http() {
        return Err(refuse(at, "idle-time: connections of the protocol \"uwsgi\" are not kept"));
    }
    let idle_min = table.integer("min-idle", 0..=IDLE_MIN_MAX.into(), 0)?;
    if idle_min > 0 && !protocol.is_http() {
        return Err(refuse(at, "min-idle: connections of the protocol \"uwsgi\" are not kept"));
    }
    let balance = table.word("balance", &BALANCES)?.unwrap_or_default();
    let upstream = Upstream {
        name: name.to_owned(),
        line: 0,
        servers: given.map_or(Ok(Vec::new()), |value| servers(value, in_flight_max))?,
        balance,
        hash_key: hash_key(&mut table, balance)?,
        protocol,
        tls: tls(&mut table, protocol)?,
        host: host(&mut table)?,
        has_via: table.switch("via")?.unwrap_or(true),
        ejection: HealthPolicy {
            failures: table.integer("failures", 1..=255, defaults.failures)?,
            ..defaults
        },
        health: table.table("health")?.map(health).transpose()?,
        retry_statuses: statuses::read(&mut table, "retry-statuses", 400..=599)?
            .unwrap_or_default(),
        queue: table.table("queue")?.map(queue).transpose()?,
        idle_ns,
        idle_min,
        resolve_ns: table.duration("resolve-every")?,
    };
    table.finish()?;
    // Last: a key that is not known may be meant for it.
    if given.is_none() {
        return Err(refuse(at, &format!("upstream {name:?} has no servers")));
    }
    Ok(upstream)
}

fn hash_key(table: &mut Table<'_, '_>, balance: Balance) -> Result<HashKey, Refusal> {
    let Some((text, at)) = table.string("hash-by")? else { return Ok(HashKey::default()) };
    if balance != Balance::Hash {
        return Err(refuse(at, "hash-by is for balance = \"hash\""));
    }
    match (text.as_str(), text.strip_prefix("field:")) {
        ("target", _) => Ok(HashKey::Target),
        ("address", _) => Ok(HashKey::Address),
        (_, Some(name)) if is_field_name(name) => Ok(HashKey::Field(name.to_owned())),
        _ => {
            let why = format!("hash-by is \"target\", \"address\" or \"field:NAME\", not {text:?}");
            Err(refuse(at, &why))
        }
    }
}

/// Whether a byte may be in the name or the address of a host.
fn is_sign(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte)
}

fn tls(table: &mut Table<'_, '_>, protocol: Protocol) -> Result<TlsOptions, Refusal> {
    let (at, authorities, name) =
        (table.at.clone(), table.string("tls-ca")?, table.string("tls-name")?);
    let accepts_all = table.switch("tls-insecure")?;
    let first = [&authorities, &name].into_iter().flatten().map(|(_, at)| at.clone()).next();
    if !protocol.has_tls() && (first.is_some() || accepts_all.is_some()) {
        let why = "tls-ca, tls-name and tls-insecure are for protocol = \"https\"";
        return Err(refuse(first.unwrap_or(at), why));
    }
    let accepts_all = accepts_all.unwrap_or(false);
    if let (Some((_, at)), true) = (&authorities, accepts_all) {
        return Err(refuse(at.clone(), "tls-ca has no effect with tls-insecure = true"));
    }
    if let Some((text, at)) = &name
        && (text.is_empty() || !text.bytes().all(is_sign))
    {
        return Err(refuse(at.clone(), &format!("tls-name is a name or an address, not {text:?}")));
    }
    let text = |value: Option<(String, _)>| value.map(|(text, _)| text);
    Ok(TlsOptions { authorities: text(authorities), name: text(name), accepts_all })
}

fn host(table: &mut Table<'_, '_>) -> Result<HostField, Refusal> {
    let Some((text, at)) = table.string("host")? else { return Ok(HostField::Client) };
    match text.as_str() {
        "client" => Ok(HostField::Client),
        "upstream" => Ok(HostField::Upstream),
        name if !name.is_empty() && name.bytes().all(is_sign) => Ok(HostField::Name(text)),
        _ => Err(refuse(at, &format!("host is \"client\", \"upstream\" or a name, not {text:?}"))),
    }
}

const BALANCES: [(&str, Balance); 5] = [
    ("least", Balance::Least),
    ("two-choices", Balance::TwoChoices),
    ("ewma", Balance::Ewma),
    ("round-robin", Balance::RoundRobin),
    ("hash", Balance::Hash),
];

const PROTOCOLS: [(&str, Protocol); 3] =
    [("http", Protocol::Http), ("https", Protocol::Https), ("uwsgi", Protocol::Uwsgi)];

fn servers(value: &Value<'_>, in_flight_max: u32) -> Result<Vec<ServerSpec>, Refusal> {
    let DeValue::Array(values) = value.get_ref() else {
        return Err(wrong("servers", "a list", value.get_ref(), value));
    };
    let mut servers: Vec<ServerSpec> = Vec::new();
    for value in values {
        let ((endpoint, at), weight) = if let DeValue::Table(_) = value.get_ref() {
            let mut table = Table::of(value, "a server", &value.span())?;
            let weight = table.integer("weight", 1..=WEIGHT_MAX, 1)?;
            let endpoint = table.string("at")?;
            table.finish()?;
            let endpoint = endpoint.ok_or_else(|| {
                refuse(value.span(), "a server has an address: { at = \"HOST:PORT\" }")
            })?;
            (endpoint, weight)
        } else {
            (string("a server", value)?, 1)
        };
        if !is_endpoint(&endpoint) {
            let why = format!(
                "a server is HOST:PORT with a port of 1 to 65535, or unix:/PATH, not {endpoint:?}"
            );
            return Err(refuse(at, &why));
        }
        if servers.iter().any(|server| server.endpoint == endpoint) {
            return Err(refuse(at, &format!("the server {endpoint:?} is there twice")));
        }
        servers.push(ServerSpec { endpoint, weight, in_flight_max });
    }
    if servers.is_empty() {
        return Err(refuse(value.span(), "servers is an empty list"));
    }
    Ok(servers)
}

fn is_endpoint(text: &str) -> bool {
    if let Some(path) = text.strip_prefix("unix:") {
        return path.starts_with('/');
    }
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|number| number > 0);
    let is_host = |host: &str| {
        let is_address = host.starts_with('[') && host.ends_with(']');
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        !host.is_empty() && (is_address || host.bytes().all(allowed))
    };
    text.rsplit_once(':').is_some_and(|(host, port)| is_host(host) && is_port(port))
}

fn health(mut table: Table<'_, '_>) -> Result<HealthCheck, Refusal> {
    let defaults = ProbePolicy::default();
    let at = table.at.clone();
    let path = table.string("path")?;
    let check = HealthCheck {
        path: path.map(|(path, _)| path).unwrap_or_default(),
        time_ns: table.duration("time")?.unwrap_or(SECOND_NS),
        statuses: statuses::read(&mut table, "statuses", 200..=599)?,
        policy: ProbePolicy {
            every_ns: table.duration("every")?.unwrap_or(defaults.every_ns),
            rise: table.integer("rise", 1..=100, defaults.rise)?,
            fall: table.integer("fall", 1..=100, defaults.fall)?,
        },
    };
    table.finish()?;
    let is_target =
        check.path.starts_with('/') && check.path.bytes().all(|byte| byte.is_ascii_graphic());
    if is_target {
        Ok(check)
    } else {
        Err(refuse(at, "health wants a path that begins with a slash"))
    }
}

fn queue(mut table: Table<'_, '_>) -> Result<QueuePolicy, Refusal> {
    let policy = QueuePolicy {
        size_max: table.integer("size", 1..=1_000_000, 256)?,
        time_ns: table.duration("time")?.unwrap_or(SECOND_NS / 2),
    };
    table.finish()?;
    Ok(policy)
}
