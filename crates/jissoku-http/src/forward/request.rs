//! The head of a forwarded request.

use super::lines::{self, ConnectionOptions, FieldNames};
use crate::connection_fields::ConnectionField;
use crate::forwarded::{ForwardedFields, XForwarded};
use crate::framing::Body;
use crate::head::{Head, HeaderFlags, Method, Version, trim};

/// What a proxy changes in a request head.
#[derive(Clone, Copy, Debug)]
pub struct RequestEdit<'a> {
    /// The name of this proxy in Via, if it adds one (RFC 9110 section 7.6.3): some servers do not
    /// compress responses to a proxy. A request that has it already has been here: it must be that of
    /// one instance.
    pub via: Option<&'a str>,
    /// What becomes of the Forwarded and X-Forwarded fields of the client.
    pub client_fields: ClientFields,
    /// The address of the client, for X-Forwarded-For; none over a Unix socket.
    pub client: Option<&'a str>,
    /// Whether the request came over TLS.
    pub is_secure: bool,
    /// The Host of the request.
    pub host: ForwardedHost,
    /// The host and port of the upstream server, for a request without Host.
    pub upstream_host: &'a str,
    /// The size of a chunked body that was collected, which is then sent with Content-Length. None
    /// if it is sent chunked.
    pub collected_size: Option<u64>,
    /// What is forwarded of the fields that concern one connection.
    pub passes: Option<HopField>,
    /// Whether the server can send trailers.
    pub has_trailers: bool,
    /// The name of a field that is dropped, since [`add_field`] will add it.
    pub own_field: Option<&'a str>,
    /// What is changed of the path.
    pub path: PathEdit<'a>,
    /// Fields that are dropped. None of them has a meaning here.
    pub removed: Option<&'a FieldNames>,
}

/// Another path for a server. The default changes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathEdit<'a> {
    /// The size of what is removed from the start: whole segments. X-Forwarded-Prefix has it.
    pub cut_size: usize,
    /// What is put before the rest: whole segments, or nothing.
    pub prefix: &'a str,
}

/// A field that concerns one connection, and can be forwarded nevertheless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HopField {
    /// `Expect: 100-continue`.
    Expect,
    /// The Upgrade of a GET without a body, if it is to WebSocket.
    Upgrade,
}

/// What a server may do in response to a forwarded request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientSupport {
    /// Send trailers: the client takes them (RFC 9110 section 6.5.1).
    pub takes_trailers: bool,
    /// Switch to WebSocket (RFC 9110 section 7.8).
    pub upgrades: bool,
}

/// What becomes of the Forwarded and X-Forwarded fields of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientFields {
    /// They are dropped: a client may claim anything.
    #[default]
    Drop,
    /// The client is a proxy that is trusted to set these: they are kept, and the address of the
    /// client is appended to X-Forwarded-For. The others are dropped.
    Append(ForwardedFields),
}

/// The Host of a forwarded request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForwardedHost {
    /// That of the client.
    #[default]
    Client,
    /// That of the upstream server.
    Upstream,
}

/// Why a request is not forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ForwardError {
    /// Connection names a field that is essential: Host, Content-Length, Transfer-Encoding, Cookie
    /// or Authorization.
    ConnectionOption,
    /// The target has a fragment (RFC 9112 section 3.2).
    Fragment,
    /// The request has passed this proxy before (RFC 9110 section 7.6.3).
    Loop,
    /// Max-Forwards is 0: this proxy is the final recipient (RFC 9110 section 7.6.2).
    MaxForwards,
    /// A chunked body for a server that has to know its size, larger than what is collected.
    LengthRequired,
    /// The head is too large for a packet of the uwsgi protocol.
    TooLarge,
}

impl ForwardError {
    /// The status code of the response.
    pub const fn status(self) -> u16 {
        match self {
            Self::ConnectionOption | Self::Fragment => 400,
            Self::Loop => 502,
            Self::MaxForwards => 204,
            Self::LengthRequired => 411,
            Self::TooLarge => 431,
        }
    }

    /// The error type of RFC 9209 section 2.3; empty for [`ForwardError::MaxForwards`].
    pub const fn error_type(self) -> &'static str {
        match self {
            Self::ConnectionOption | Self::Fragment | Self::LengthRequired | Self::TooLarge => {
                "http_request_error"
            }
            Self::Loop => "proxy_loop_detected",
            Self::MaxForwards => "",
        }
    }
}

/// Fields that Connection must not name.
const ESSENTIAL: [&[u8]; 5] =
    [b"host", b"content-length", b"transfer-encoding", b"cookie", b"authorization"];

/// What the fields of a request say to a proxy.
#[derive(Debug, Default)]
struct Received<'a> {
    host: Option<&'a [u8]>,
    /// Max-Forwards of the forwarded request.
    max_forwards: Option<u64>,
    /// What the client takes.
    offer: ClientSupport,
    has_forwarded_proto: bool,
    has_forwarded_host: bool,
    /// What a trusted proxy has removed from the path.
    forwarded_prefix: Option<&'a [u8]>,
}

/// Appends the forwarded form of `head`, which was parsed from `bytes`, to `output`. Its target is in
/// origin form ([`Head::in_origin_form`]).
///
/// # Errors
/// Why it is not forwarded; what was appended has no meaning then.
pub fn write_request_head(
    head: &Head,
    bytes: &[u8],
    edit: &RequestEdit<'_>,
    output: &mut Vec<u8>,
) -> Result<ClientSupport, ForwardError> {
    let has_options = head.flags.has(HeaderFlags::CONNECTION);
    let options = ConnectionOptions::new(head.fields(bytes), has_options);
    let is_essential =
        |option: &[u8]| ESSENTIAL.iter().any(|name| option.eq_ignore_ascii_case(name));
    if options.iter().any(is_essential) {
        return Err(ForwardError::ConnectionOption);
    }
    write_request_line(head, bytes, edit.path, output)?;
    let mut received = Received::default();
    let keeps_host = edit.host == ForwardedHost::Client;
    lines::copy(head.fields.of(bytes), output, |name, value| {
        received.keeps(name, value, &Rules { head, edit, options: &options, keeps_host })
    })?;
    if !keeps_host || received.host.is_none() {
        lines::write(b"Host", edit.upstream_host.as_bytes(), output);
    }
    if let Some(count) = received.max_forwards {
        lines::write(b"Max-Forwards", count.to_string().as_bytes(), output);
    }
    let upgrades = edit.passes == Some(HopField::Upgrade)
        && received.offer.upgrades
        && options.has(b"upgrade")
        && (head.method, head.version, head.body) == (Method::Get, Version::Http11, Body::Empty);
    if upgrades {
        output.extend_from_slice(b"Upgrade: websocket\r\nConnection: Upgrade\r\n");
    }
    write_own_fields(head, bytes, edit, &received, output);
    output.extend_from_slice(b"\r\n");
    Ok(ClientSupport { upgrades, ..received.offer })
}

/// Appends a forwarded request to `output`, with one more field behind those of its head. That is at
/// the start of `request` and has `head_size` bytes.
pub fn add_field(
    request: &[u8],
    head_size: usize,
    (name, value): (&str, &str),
    output: &mut Vec<u8>,
) {
    // Before the empty line.
    let (fields, rest) = request.split_at(head_size.saturating_sub(2).min(request.len()));
    output.extend_from_slice(fields);
    lines::write(name.as_bytes(), value.as_bytes(), output);
    output.extend_from_slice(rest);
}

/// What decides whether a field is kept.
struct Rules<'a, 'b> {
    head: &'a Head,
    edit: &'a RequestEdit<'b>,
    options: &'a ConnectionOptions<'b>,
    keeps_host: bool,
}

impl<'a> Received<'a> {
    /// Whether a field is forwarded.
    fn keeps(
        &mut self,
        name: &'a [u8],
        value: &'a [u8],
        rules: &Rules<'_, '_>,
    ) -> Result<bool, ForwardError> {
        let is = |expected: &[u8]| name.eq_ignore_ascii_case(expected);
        let Rules { head, edit, options, keeps_host } = *rules;
        if edit.own_field.is_some_and(|own| name.eq_ignore_ascii_case(own.as_bytes())) {
            return Ok(false);
        }
        if edit.removed.is_some_and(|names| names.has(name)) {
            return Ok(false);
        }
        let is_forwarded_trusted =
            edit.client_fields == ClientFields::Append(ForwardedFields::Forwarded);
        let trusted = match edit.client_fields {
            ClientFields::Append(ForwardedFields::XForwarded(which)) => which,
            ClientFields::Append(ForwardedFields::Forwarded) | ClientFields::Drop => {
                XForwarded::default()
            }
        };
        Ok(match name.len() {
            2 if is(b"te") => {
                let mut codings = value.split(|&byte| byte == b',').map(trim);
                self.offer.takes_trailers |=
                    edit.has_trailers && codings.any(|name| name.eq_ignore_ascii_case(b"trailers"));
                false
            }
            3 if is(b"via") => {
                if edit.via.is_some_and(|own| names_proxy(value, own)) {
                    return Err(ForwardError::Loop);
                }
                !options.has(name)
            }
            4 if is(b"host") => {
                self.host = Some(value);
                keeps_host
            }
            6 if is(b"expect") => edit.passes == Some(HopField::Expect),
            7 if is(b"upgrade") => {
                self.offer.upgrades = value.eq_ignore_ascii_case(b"websocket");
                false
            }
            12 if is(b"max-forwards") && head.method == Method::Options => {
                match str::from_utf8(value).ok().and_then(|count| count.parse::<u64>().ok()) {
                    Some(0) => return Err(ForwardError::MaxForwards),
                    count => self.max_forwards = count.map(|count| count - 1),
                }
                self.max_forwards.is_none()
            }
            _ if is_dropped(name) || name.contains(&b'_') || options.has(name) => false,
            9 if is(b"forwarded") => is_forwarded_trusted,
            15 if is(b"x-forwarded-for") => trusted.address,
            16 if is(b"x-forwarded-host") => {
                self.has_forwarded_host = trusted.host;
                trusted.host
            }
            17 if is(b"x-forwarded-proto") => {
                self.has_forwarded_proto = trusted.scheme;
                trusted.scheme
            }
            18 if is(b"x-forwarded-prefix") && trusted.others => {
                self.forwarded_prefix = Some(value);
                edit.path.cut_size == 0
            }
            12.. if name[..X_FORWARDED.len()].eq_ignore_ascii_case(X_FORWARDED) => trusted.others,
            _ => true,
        })
    }
}

/// How the names of fields begin that name a client, or what it has asked for.
const X_FORWARDED: &[u8] = b"x-forwarded-";

/// Writes the request line.
fn write_request_line(
    head: &Head,
    bytes: &[u8],
    PathEdit { cut_size, prefix }: PathEdit<'_>,
    output: &mut Vec<u8>,
) -> Result<(), ForwardError> {
    let target = head.target.of(bytes);
    if target.contains(&b'#') {
        return Err(ForwardError::Fragment);
    }
    let rest = target.get(cut_size..).unwrap_or_default();
    let is_bare = prefix.is_empty() && matches!(rest.first(), None | Some(b'?'));
    let start = if is_bare { "/" } else { prefix };
    for part in [head.method_name.of(bytes), b" ", start.as_bytes(), rest, b" HTTP/1.1\r\n"] {
        output.extend_from_slice(part);
    }
    Ok(())
}

/// Writes the fields that a proxy adds.
fn write_own_fields(
    head: &Head,
    bytes: &[u8],
    edit: &RequestEdit<'_>,
    received: &Received<'_>,
    output: &mut Vec<u8>,
) {
    if received.offer.takes_trailers {
        output.extend_from_slice(b"TE: trailers\r\nConnection: TE\r\n");
    }
    if let Some(own) = edit.via {
        output.extend_from_slice(match head.version {
            Version::Http10 => b"Via: 1.0 ",
            Version::Http11 => b"Via: 1.1 ",
        });
        output.extend_from_slice(own.as_bytes());
        output.extend_from_slice(b"\r\n");
    }
    if let Some(client) = edit.client {
        lines::write(b"X-Forwarded-For", client.as_bytes(), output);
    }
    if !received.has_forwarded_proto {
        let scheme: &[u8] = if edit.is_secure { b"https" } else { b"http" };
        lines::write(b"X-Forwarded-Proto", scheme, output);
    }
    if let Some(host) = received.host.filter(|_| !received.has_forwarded_host) {
        lines::write(b"X-Forwarded-Host", host, output);
    }
    if edit.path.cut_size > 0 {
        let outer = received.forwarded_prefix.unwrap_or_default();
        let cut = head.target.of(bytes).get(..edit.path.cut_size).unwrap_or_default();
        let outer = outer.strip_suffix(b"/").unwrap_or(outer);
        lines::write(b"X-Forwarded-Prefix", &[outer, cut].concat(), output);
    }
    match (head.body, edit.collected_size) {
        (Body::Chunked, Some(size)) => {
            lines::write(b"Content-Length", size.to_string().as_bytes(), output);
        }
        (Body::Chunked, None) => lines::write(b"Transfer-Encoding", b"chunked", output),
        (Body::Empty | Body::Length(_), _) => {}
    }
}

/// Whether a field is of the client's connection. Trailers of requests are dropped, too.
fn is_dropped(name: &[u8]) -> bool {
    let field = ConnectionField::of(name);
    field.is_some_and(|field| field != ConnectionField::ProxyAuthenticate)
}

/// Whether a Via has the proxy of this name as a recipient.
fn names_proxy(via: &[u8], name: &str) -> bool {
    let hops = via.split(|&byte| byte == b',').map(trim);
    hops.into_iter().any(|hop| {
        let mut words = hop.split(|&byte| byte == b' ' || byte == b'\t');
        words.nth(1).is_some_and(|host| host.eq_ignore_ascii_case(name.as_bytes()))
    })
}
