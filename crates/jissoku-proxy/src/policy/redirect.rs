//! Redirects: `https://{hostname}{target}`, whose host is that of the configuration, or that of the
//! request if the configuration says so.

use super::fields::FieldRules;
use super::template::{Template, Values, Variable};

/// Statuses of redirects.
pub const STATUSES: [u16; 5] = [301, 302, 303, 307, 308];

/// Where a route's requests are redirected to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    /// The location as it was written.
    pub(crate) text: Box<str>,
    location: Template,
    pub(crate) status: u16,
    /// Rules for the fields of responses, none of which is for one of [`Redirect::OWN_FIELDS`].
    pub fields: FieldRules,
    /// Whether the location is a path on the host of the request.
    is_local: bool,
}

impl Redirect {
    /// Parses a location with variables. `segments` are the variables of the route's path.
    ///
    /// # Errors
    ///
    /// One sentence: it is neither a URL nor a path, or its host could be chosen by a part of a request
    /// that is not its host.
    pub fn parse(text: &str, segments: &[&str], status: u16) -> Result<Self, String> {
        let location = Template::parse(text, segments)?;
        let is_signs =
            |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
        if !is_signs(text) {
            return Err("a location has neither spaces nor backslashes, and only ASCII".to_owned());
        }
        let is_local = ["/", "{path}", "{target}"].iter().any(|it| text.starts_with(it));
        if ["//", "/{path}", "/{target}"].iter().any(|it| text.starts_with(it)) {
            return Err("two slashes would begin the name of a host".to_owned());
        }
        if !is_local {
            check_host(text)?;
        }
        let (text, fields) = (text.into(), FieldRules::default());
        Ok(Self { text, location, status, fields, is_local })
    }

    /// Fields of the response that no rule can change.
    pub const OWN_FIELDS: [&str; 2] = ["Location", "Content-Type"];

    /// The header lines of the response to a request; `None` if its Host is no name of a host, or its
    /// path could be read as another host.
    pub fn lines(&self, values: &Values<'_>) -> Option<Vec<u8>> {
        if values.head.path_and_query(values.bytes).first() != Some(&b'/') {
            return None;
        }
        let uses_host = |variable| matches!(variable, Variable::Host | Variable::Hostname);
        if self.location.variables().any(uses_host) && !is_host(values.host()) {
            return None;
        }
        let mut lines = b"Location: ".to_vec();
        let start = lines.len();
        self.location.write(values, &mut lines);
        let location = &lines[start..];
        let is_other_host = self.is_local && matches!(location.get(1), Some(b'/' | b'\\'));
        let path = location.split(|byte| *byte == b'?').next().unwrap_or_default();
        if is_other_host || path.contains(&b'\\') {
            return None;
        }
        lines.extend_from_slice(b"\r\n");
        self.fields.write(values, &mut lines);
        Some(lines)
    }
}

/// Refuses a URL whose host is not literal, `{host}` or `{hostname}` with or without a port.
fn check_host(text: &str) -> Result<(), String> {
    let schemes = ["https://", "http://", "{scheme}://"];
    let Some(rest) = schemes.iter().find_map(|scheme| text.strip_prefix(scheme)) else {
        return Err("a location is https://HOST/PATH, http://HOST/PATH or /PATH".to_owned());
    };
    let (name, rest) = ["{hostname}", "{host}"]
        .iter()
        .find_map(|name| Some((*name, rest.strip_prefix(name)?)))
        .unwrap_or_else(|| rest.split_at(rest.find(['/', '?', '{', '#']).unwrap_or(rest.len())));
    let (port, rest) = match rest.strip_prefix(':') {
        Some(port) if name == "{hostname}" => {
            port.split_at(port.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(port.len()))
        }
        _ => ("80", rest),
    };
    let is_name = name.starts_with('{') || is_host(name.as_bytes());
    let is_port = port.parse::<u16>().is_ok_and(|port| port > 0);
    let begins_path = |rest: &str| rest.starts_with('/') || rest.starts_with("{path}");
    if !is_name || !is_port {
        return Err(
            "the host is a name or an address, {host}, or {hostname} with a port".to_owned()
        );
    }
    if rest.is_empty() || begins_path(rest) || rest.starts_with("{target}") {
        return Ok(());
    }
    Err("the host is followed by a slash, {path} or {target}: anything else could be a part of it"
        .to_owned())
}

/// Whether this is a name or an address, with or without a port: without user information, a path or
/// anything else.
fn is_host(text: &[u8]) -> bool {
    let is_name_byte = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._".contains(byte);
    let is_port = |port: &[u8]| !port.is_empty() && port.iter().all(u8::is_ascii_digit);
    if let Some(address) = text.strip_prefix(b"[") {
        let Some(end) = address.iter().position(|byte| *byte == b']') else { return false };
        let (address, rest) = (&address[..end], &address[end + 1..]);
        return str::from_utf8(address).is_ok_and(|it| it.parse::<std::net::Ipv6Addr>().is_ok())
            && (rest.is_empty() || rest.strip_prefix(b":").is_some_and(is_port));
    }
    let mut parts = text.splitn(2, |byte| *byte == b':');
    let name = parts.next().unwrap_or_default();
    !name.is_empty() && name.iter().all(is_name_byte) && parts.next().is_none_or(is_port)
}

#[cfg(test)]
mod tests;
