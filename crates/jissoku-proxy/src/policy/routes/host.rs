//! Patterns for hosts: a name, `*.name` for all names below it, each with or without a port.

const FORM: &str = "a host is a name, `*.name` or an address, with or without a port";

/// A host that a route is for. Compared without regard to case and to a final dot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPattern {
    /// Lower case, without `*.` and port.
    name: String,
    includes_subdomains_only: bool,
    port: Option<u16>,
}

impl HostPattern {
    /// Parses `name`, `*.name`, `name:port`, `[::1]` and the like.
    ///
    /// # Errors
    ///
    /// An empty name, a `*` elsewhere, a port that is not a number, or a byte that no host has.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, port) = split_port(text.as_bytes());
        let port = port.map(|digits| parse_port(digits).ok_or(FORM)).transpose()?;
        let (name, includes_subdomains_only) =
            name.strip_prefix(b"*.").map_or((name, false), |rest| (rest, true));
        let name = name.strip_suffix(b".").unwrap_or(name);
        let is_host_byte =
            |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~[]:".contains(byte) || *byte >= 0x80;
        if name.is_empty() || !name.iter().all(is_host_byte) {
            return Err(FORM.to_owned());
        }
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        Ok(Self { name, includes_subdomains_only, port })
    }

    /// Whether a value of Host fits.
    pub fn matches(&self, host: &[u8]) -> bool {
        let (name, port) = split_port(host);
        let name = name.strip_suffix(b".").unwrap_or(name);
        let wanted = self.name.as_bytes();
        let fits = if self.includes_subdomains_only {
            name.len() > wanted.len() + 1
                && name.split_at_checked(name.len() - wanted.len()).is_some_and(|(below, end)| {
                    below.ends_with(b".") && end.eq_ignore_ascii_case(wanted)
                })
        } else {
            name.eq_ignore_ascii_case(wanted)
        };
        fits && self.port.is_none_or(|wanted| port.and_then(parse_port) == Some(wanted))
    }

    /// Whether every host that fits `other` fits this pattern.
    pub(super) fn covers(&self, other: &Self) -> bool {
        let name = if self.includes_subdomains_only {
            let below = other.name.strip_suffix(&self.name);
            let is_below = below.is_some_and(|below| below.len() > 1 && below.ends_with('.'));
            is_below || (other.includes_subdomains_only && other.name == self.name)
        } else {
            !other.includes_subdomains_only && other.name == self.name
        };
        name && (self.port.is_none() || self.port == other.port)
    }
}

/// `host:port` as its parts. The colons of an IPv6 address are within brackets.
fn split_port(host: &[u8]) -> (&[u8], Option<&[u8]>) {
    let colon = host.iter().rposition(|&byte| byte == b':');
    let bracket = host.iter().rposition(|&byte| byte == b']');
    match colon {
        Some(at) if bracket.is_none_or(|bracket| bracket < at) => {
            (host.get(..at).unwrap_or_default(), host.get(at + 1..))
        }
        _ => (host, None),
    }
}

fn parse_port(digits: &[u8]) -> Option<u16> {
    let text = std::str::from_utf8(digits).ok()?;
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}
