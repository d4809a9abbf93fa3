//! Texts with variables of a request: `https://{host}{target}`, compiled when the configuration is
//! read.
//!
//! A value is written as it came, percent-encoding included. One that could end a line is left out: no
//! request that was parsed has such a value.

use jissoku_http::Head;

use super::routes::Captures;
use super::spelling::instead_of;

/// A compiled text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Template {
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(Box<str>),
    Value(Variable),
}

/// What a variable stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variable {
    /// The address of the client; nothing for one on a Unix socket.
    Client,
    /// Host, as the client has sent it.
    Host,
    /// The same without a port.
    Hostname,
    /// The method.
    Method,
    /// The path, as it came.
    Path,
    /// The query without its question mark.
    Query,
    /// The id of the request; nothing if requests get none.
    RequestId,
    /// `http` or `https`.
    Scheme,
    /// Path and query, as they came.
    Target,
    /// A variable of the route's path, by its index.
    Segment(usize),
}

/// The variables that every request has.
const VARIABLES: [(&str, Variable); 9] = [
    ("client", Variable::Client),
    ("host", Variable::Host),
    ("hostname", Variable::Hostname),
    ("method", Variable::Method),
    ("path", Variable::Path),
    ("query", Variable::Query),
    ("request_id", Variable::RequestId),
    ("scheme", Variable::Scheme),
    ("target", Variable::Target),
];

/// The values of variables, for one request.
#[derive(Clone, Copy, Debug)]
pub struct Values<'a> {
    /// The head of the request.
    pub head: &'a Head,
    /// Its bytes.
    pub bytes: &'a [u8],
    /// The address of the client.
    pub client: Option<&'a str>,
    /// Whether the client uses TLS.
    pub is_secure: bool,
    /// The Host that the client has sent, if a proxy has replaced it.
    pub host: Option<&'a [u8]>,
    /// The id of the request, if it has one.
    pub request_id: Option<&'a [u8]>,
    /// The variables of the route's path.
    pub captures: &'a Captures,
}

impl Template {
    /// Parses a text with `{variable}`, and `{{` and `}}` for braces. `segments` are the variables of
    /// the route's path.
    ///
    /// # Errors
    ///
    /// One sentence: an unknown variable, a single brace, or a character that no field has.
    pub fn parse(text: &str, segments: &[&str]) -> Result<Self, String> {
        if text.bytes().any(|byte| matches!(byte, 0..=0x1f | 0x7f)) {
            return Err("a value has no control characters".to_owned());
        }
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            let (before, brace) = rest.split_at(at);
            literal.push_str(before);
            if let Some(tail) = brace.strip_prefix("{{").or_else(|| brace.strip_prefix("}}")) {
                literal.push_str(&brace[..1]);
                rest = tail;
                continue;
            }
            let named = brace.strip_prefix('{').and_then(|tail| tail.split_once('}'));
            let Some((name, tail)) = named else {
                return Err("a variable is {name}, and a brace is {{ or }}".to_owned());
            };
            if !literal.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut literal).into()));
            }
            pieces.push(Piece::Value(variable(name, segments)?));
            rest = tail;
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            pieces.push(Piece::Text(literal.into()));
        }
        Ok(Self { pieces })
    }

    /// The text, if it has no variables.
    pub(super) fn constant(&self) -> Option<&str> {
        match &*self.pieces {
            [] => Some(""),
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The variables, in their order.
    pub fn variables(&self) -> impl Iterator<Item = Variable> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Text(_) => None,
            Piece::Value(variable) => Some(*variable),
        })
    }

    /// Appends the text for one request.
    pub fn write(&self, values: &Values<'_>, output: &mut Vec<u8>) {
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => output.extend_from_slice(text.as_bytes()),
                Piece::Value(variable) => values.write(*variable, output),
            }
        }
    }
}

fn variable(name: &str, segments: &[&str]) -> Result<Variable, String> {
    let segment = segments.iter().position(|known| *known == name);
    let common = VARIABLES.iter().find(|(known, _)| *known == name);
    match (segment, common) {
        (Some(_), Some(_)) => {
            Err(format!("{{{name}}} is a variable of every request: rename that of the path"))
        }
        (Some(index), None) => Ok(Variable::Segment(index)),
        (None, Some((_, variable))) => Ok(*variable),
        (None, None) => {
            let known = VARIABLES.iter().map(|(known, _)| *known).chain(segments.iter().copied());
            let instead = instead_of(name, &known.collect::<Vec<_>>());
            Err(format!("there is no variable {{{name}}}; {instead}"))
        }
    }
}

fn without_port(host: &[u8]) -> &[u8] {
    let end = host.iter().rposition(|byte| *byte == b':');
    end.filter(|at| !host[*at..].contains(&b']')).map_or(host, |at| &host[..at])
}

impl<'a> Values<'a> {
    /// Host, as the client has sent it.
    pub fn host(&self) -> &'a [u8] {
        self.host.or_else(|| self.head.host(self.bytes)).unwrap_or_default()
    }

    fn write(&self, variable: Variable, output: &mut Vec<u8>) {
        let target = || self.head.path_and_query(self.bytes);
        let path_size = || target().iter().position(|&byte| byte == b'?').unwrap_or(target().len());
        let value = match variable {
            Variable::Client => self.client.unwrap_or_default().as_bytes(),
            Variable::Host => self.host(),
            Variable::Hostname => without_port(self.host()),
            Variable::Method => self.head.method_name.of(self.bytes),
            Variable::Path => &target()[..path_size()],
            Variable::Query => target().get(path_size() + 1..).unwrap_or_default(),
            Variable::RequestId => self.request_id.unwrap_or_default(),
            Variable::Scheme if self.is_secure => b"https",
            Variable::Scheme => b"http",
            Variable::Target => target(),
            Variable::Segment(index) => {
                let place = self.captures.span(index);
                place.and_then(|place| target().get(place)).unwrap_or_default()
            }
        };
        // Without an early end, so that many bytes are compared at a time.
        let is_control = |byte: &u8| matches!(byte, 0..=0x1f | 0x7f);
        if !value.iter().fold(false, |found, byte| found | is_control(byte)) {
            output.extend_from_slice(value);
        }
    }
}
