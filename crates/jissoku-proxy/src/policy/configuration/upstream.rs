//! `[upstream.NAME]`: servers, how they are chosen, and their limits.

use std::ops::RangeInclusive;

use toml::de::DeValue;

use super::table::{Table, field_of, integer, text_of, wrong};
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
    /// How they are used.
    pub policy: UpstreamPolicy,
    /// TLS, if they speak it.
    pub tls: TlsOptions,
    /// For how long an idle connection is kept; `None`: as the server says.
    pub idle_ns: Option<u64>,
    /// The time between two lookups of names; `None`: as the server says.
    pub resolve_ns: Option<u64>,
}

/// How the servers of an upstream are used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamPolicy {
    /// How one is chosen.
    pub balance: Balance,
    /// What is hashed, if one is chosen by hash.
    pub hash_key: HashKey,
    /// What the servers speak.
    pub protocol: Protocol,
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
    /// Unused connections to each server that each worker opens before they are needed, up to
    /// [`IDLE_MIN_MAX`].
    pub idle_min: u32,
}

impl Default for UpstreamPolicy {
    fn default() -> Self {
        Self {
            balance: Balance::default(),
            hash_key: HashKey::default(),
            protocol: Protocol::Http,
            host: HostField::Client,
            has_via: true,
            ejection: HealthPolicy::default(),
            health: None,
            retry_statuses: Statuses::NONE,
            queue: None,
            idle_min: 0,
        }
    }
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
    pub const fn is_http(self) -> bool {
        matches!(self, Self::Http | Self::Https)
    }

    /// Whether a connection has TLS.
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
    pub fn passes(&self, status: u16) -> bool {
        match &self.statuses {
            Some(statuses) => statuses.contains(status),
            None => (200..=399).contains(&status),
        }
    }
}

/// The path of the keys of an upstream.
pub(super) fn path_of(name: &str) -> String {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if name.bytes().all(is_bare) {
        format!("upstream.{name}")
    } else {
        format!("upstream.{name:?}")
    }
}

pub(super) fn read(name: &str, mut table: Table<'_, '_>) -> Upstream {
    let defaults = UpstreamPolicy::default();
    let in_flight_max = table.integer("connections-max", 1..=1_000_000, CONNECTIONS_MAX);
    table.require("servers", format!("upstream {name:?} has no servers"));
    let servers = servers(&mut table, in_flight_max);
    let protocol = table.word("protocol", &PROTOCOLS).unwrap_or(defaults.protocol);
    let idle_ns = table.duration("idle-time");
    let idle_min = table.integer("min-idle", 0..=IDLE_MIN_MAX.into(), defaults.idle_min);
    for (key, is_given) in [("idle-time", idle_ns.is_some()), ("min-idle", idle_min > 0)] {
        let why = format!("{key}: connections of the protocol \"uwsgi\" are not kept");
        table.only(key, protocol.is_http() || !is_given, &why);
    }
    let balance = table.word("balance", &BALANCES).unwrap_or_default();
    let failures = table.integer("failures", 1..=255, defaults.ejection.failures);
    let policy = UpstreamPolicy {
        balance,
        hash_key: hash_key(&mut table, balance),
        protocol,
        host: table.text("host", host).unwrap_or(defaults.host),
        has_via: table.switch("via").unwrap_or(defaults.has_via),
        ejection: HealthPolicy { failures, ..defaults.ejection },
        health: table.table("health").map(health),
        retry_statuses: statuses(&mut table, "retry-statuses", 400..=599).unwrap_or_default(),
        queue: table.table("queue").map(queue),
        idle_min,
    };
    let upstream = Upstream {
        name: name.to_owned(),
        line: table.line(),
        servers,
        tls: tls(&mut table, policy.protocol),
        policy,
        idle_ns,
        resolve_ns: table.duration("resolve-every"),
    };
    table.finish();
    upstream
}

fn hash_key(table: &mut Table<'_, '_>, balance: Balance) -> HashKey {
    let key = table.text("hash-by", |text| match text {
        "target" => Ok(HashKey::Target),
        "address" => Ok(HashKey::Address),
        _ => field_of(text).map(HashKey::Field).ok_or_else(|| {
            format!("hash-by is \"target\", \"address\" or \"field:NAME\", not {text:?}")
        }),
    });
    let is_hash = balance == Balance::Hash || table.has_refused("balance");
    table.only("hash-by", is_hash, "hash-by is for balance = \"hash\"");
    key.unwrap_or_default()
}

/// Whether a byte may be in the name or the address of a host.
fn is_sign(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte)
}

fn tls(table: &mut Table<'_, '_>, protocol: Protocol) -> TlsOptions {
    let authorities = table.string("tls-ca");
    let name = table.text("tls-name", |text| {
        let is_host = !text.is_empty() && text.bytes().all(is_sign);
        let why = || format!("tls-name is a name or an address, not {text:?}");
        is_host.then(|| text.to_owned()).ok_or_else(why)
    });
    let accepts_all = table.switch("tls-insecure").unwrap_or_default();
    let has_tls = protocol.has_tls() || table.has_refused("protocol");
    let mut keys = ["tls-ca", "tls-name", "tls-insecure"].into_iter();
    if let Some(key) = keys.find(|&key| table.value(key).is_some()) {
        table.only(key, has_tls, "tls-ca, tls-name and tls-insecure are for protocol = \"https\"");
    }
    let why = "tls-ca has no effect with tls-insecure = true";
    table.only("tls-ca", !accepts_all || !has_tls, why);
    TlsOptions { authorities, name, accepts_all }
}

fn host(text: &str) -> Result<HostField, String> {
    match text {
        "client" => Ok(HostField::Client),
        "upstream" => Ok(HostField::Upstream),
        name if !name.is_empty() && name.bytes().all(is_sign) => {
            Ok(HostField::Name(name.to_owned()))
        }
        _ => Err(format!("host is \"client\", \"upstream\" or a name, not {text:?}")),
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

fn servers(table: &mut Table<'_, '_>, in_flight_max: u32) -> Vec<ServerSpec> {
    let Some(values) = table.array("servers", "a list") else { return Vec::new() };
    if values.is_empty() {
        table.refuse("servers", "servers is an empty list");
    }
    let mut servers: Vec<ServerSpec> = Vec::new();
    for (index, value) in values.iter().enumerate() {
        let endpoint = |text: &str| endpoint(text, &servers);
        let (found, weight) = if let DeValue::Table(_) = value.get_ref() {
            let Some(mut server) = table.within(("servers", index), value, "a server") else {
                continue;
            };
            server.require("at", "a server has an address: { at = \"HOST:PORT\" }");
            let weight = server.integer("weight", 1..=WEIGHT_MAX, 1);
            let found = server.text("at", endpoint);
            server.finish();
            (found, weight)
        } else {
            let read = |value| endpoint(text_of("a server", "a string", value)?);
            (table.checked("servers", value, read), 1)
        };
        let spec = |endpoint| ServerSpec { endpoint, weight, in_flight_max };
        servers.extend(found.map(spec));
    }
    servers
}

fn endpoint(text: &str, others: &[ServerSpec]) -> Result<String, String> {
    if !is_endpoint(text) {
        return Err(format!(
            "a server is HOST:PORT with a port of 1 to 65535, or unix:/PATH, not {text:?}"
        ));
    }
    if others.iter().any(|server| server.endpoint == text) {
        return Err(format!("the server {text:?} is there twice"));
    }
    Ok(text.to_owned())
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

fn health(mut table: Table<'_, '_>) -> HealthCheck {
    let defaults = ProbePolicy::default();
    let why = "health wants a path that begins with a slash";
    table.require("path", why);
    let path = table.text("path", |path| {
        let is_target = path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic());
        is_target.then(|| path.to_owned()).ok_or_else(|| why.to_owned())
    });
    let check = HealthCheck {
        path: path.unwrap_or_default(),
        time_ns: table.duration("time").unwrap_or(SECOND_NS),
        statuses: statuses(&mut table, "statuses", 200..=599),
        policy: ProbePolicy {
            every_ns: table.duration("every").unwrap_or(defaults.every_ns),
            rise: table.integer("rise", 1..=100, defaults.rise),
            fall: table.integer("fall", 1..=100, defaults.fall),
        },
    };
    table.finish();
    check
}

fn queue(mut table: Table<'_, '_>) -> QueuePolicy {
    let policy = QueuePolicy {
        size_max: table.integer("size", 1..=1_000_000, 256),
        time_ns: table.duration("time").unwrap_or(SECOND_NS / 2),
    };
    table.finish();
    policy
}

/// A list of statuses and of ranges of statuses, such as `[500, "502-504"]`, all of which are within
/// `permitted`; `None` without this key.
fn statuses(
    table: &mut Table<'_, '_>,
    key: &'static str,
    permitted: RangeInclusive<u16>,
) -> Option<Statuses> {
    let wanted = "a list of statuses and of ranges, such as [500, \"502-504\"]";
    let (least, most) = (*permitted.start(), *permitted.end());
    let mut statuses = Statuses::NONE;
    let ranges = table.list(key, wanted, |value| match value.get_ref() {
        DeValue::Integer(_) => {
            let status = integer(key, value, i64::from(least)..=i64::from(most))?;
            Ok(status..=status)
        }
        DeValue::String(text) => range(text)
            .filter(|range| !range.is_empty() && least <= *range.start() && *range.end() <= most)
            .ok_or_else(|| format!("{key} has ranges within {least}-{most}, not {text:?}")),
        other => Err(wrong(key, wanted, other)),
    })?;
    table.only(key, !ranges.is_empty(), &format!("{key} is an empty list"));
    for range in ranges {
        statuses.insert(range);
    }
    Some(statuses)
}

/// As `502-504`.
fn range(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-')?;
    let is_status = |text: &str| text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
    let both = is_status(first) && is_status(last);
    both.then(|| Some(first.parse().ok()?..=last.parse().ok()?)).flatten()
}
