//! The interface between the server and a parser.

mod callback;
mod jissoku;
mod picohttpparser;
mod rust_httparse;

pub use callback::{HttpParser, Llhttp, Replayed};
pub use jissoku::Jissoku;
pub use picohttpparser::Pico;
pub use rust_httparse::Httparse;

/// Header lines of one request.
pub const FIELDS_MAX: usize = 100;

/// Bytes of one request's body.
pub const BODY_SIZE_MAX: usize = 65_536;

/// One request, complete and in order.
pub struct Request<'a> {
    pub method: &'a [u8],
    pub target: &'a [u8],
    pub keeps_alive: bool,
    pub fields: Fields<'a>,
}

/// The header lines, where each parser leaves them.
pub enum Fields<'a> {
    Jissoku(jissoku_http::head::Fields<'a>),
    Httparse(&'a [httparse::Header<'a>]),
    Pico(picohttpparser::Fields<'a>),
    Recorded(callback::Fields<'a>),
}

impl Fields<'_> {
    /// Hands over every header line, its value without white space around it.
    pub fn each(&self, mut field: impl FnMut(&[u8], &[u8])) {
        match self {
            Self::Jissoku(fields) => {
                fields.clone().for_each(|(name, value)| field(name, value));
            }
            Self::Httparse(fields) => {
                fields.iter().for_each(|one| field(one.name.as_bytes(), one.value.trim_ascii()));
            }
            Self::Pico(fields) => fields.iter().for_each(|(name, value)| field(name, value)),
            Self::Recorded(fields) => fields.iter().for_each(|(name, value)| field(name, value)),
        }
    }
}

/// Whether the requests behind one are still wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    On,
    Stop,
}

/// The status with which the client is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal(pub u16);

impl Refusal {
    pub const MALFORMED: Self = Self(400);
    pub const BODY_TOO_LONG: Self = Self(413);
    pub const TOO_LONG: Self = Self(431);
    pub const CHUNKED: Self = Self(501);
}

/// A parser, and what it remembers of one connection.
pub trait Parser {
    fn new() -> Self;

    /// Hands every complete request in `bytes` to `each`, in order.
    ///
    /// `bytes` begins with what was kept the last time, `kept` bytes of it. Returns from where on bytes
    /// must be kept for the request that has begun.
    fn feed(
        &mut self,
        bytes: &[u8],
        kept: usize,
        each: impl FnMut(&Request<'_>) -> Flow,
    ) -> Result<usize, Refusal>;

    /// Reads one head without any bookkeeping; whether it was complete.
    fn alone(&mut self, head: &[u8]) -> bool;
}

/// What a sequential parser found at the front of some bytes.
pub struct Found {
    /// Bytes of the head and of the body after it.
    pub size: usize,
    pub flow: Flow,
}

/// A parser that reads a whole head at once.
pub trait Sequential {
    fn new() -> Self;

    /// Reads the request at the front of `bytes`, of which `seen` bytes were there the last time, and
    /// hands it to `each` when it is complete.
    fn request(
        &mut self,
        bytes: &[u8],
        seen: usize,
        each: impl FnOnce(&Request<'_>) -> Flow,
    ) -> Result<Option<Found>, Refusal>;

    fn alone(&mut self, head: &[u8]) -> bool;
}

impl<S: Sequential> Parser for S {
    fn new() -> Self {
        Sequential::new()
    }

    #[inline]
    fn feed(
        &mut self,
        bytes: &[u8],
        kept: usize,
        mut each: impl FnMut(&Request<'_>) -> Flow,
    ) -> Result<usize, Refusal> {
        let mut at = 0;
        while at < bytes.len() {
            match self.request(&bytes[at..], kept.saturating_sub(at), &mut each)? {
                None => break,
                Some(found) => {
                    at += found.size;
                    if found.flow == Flow::Stop {
                        break;
                    }
                }
            }
        }
        Ok(at)
    }

    #[inline]
    fn alone(&mut self, head: &[u8]) -> bool {
        Sequential::alone(self, head)
    }
}

/// What the header lines say of the connection and the message, which parsers of lines alone leave to the
/// server.
#[derive(Default)]
pub struct Framing {
    has_host: bool,
    closes: bool,
    body_size: Option<usize>,
    is_chunked: bool,
}

impl Framing {
    /// Takes note of one header line.
    #[inline]
    pub fn heed(&mut self, name: &[u8], value: &[u8]) -> Result<(), Refusal> {
        match name.len() {
            4 if name.eq_ignore_ascii_case(b"host") => {
                if self.has_host {
                    return Err(Refusal::MALFORMED);
                }
                self.has_host = true;
            }
            10 if name.eq_ignore_ascii_case(b"connection") => {
                let mut options = value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
                self.closes |= options.any(|option| option.eq_ignore_ascii_case(b"close"));
            }
            14 if name.eq_ignore_ascii_case(b"content-length") => {
                if self.body_size.is_some() {
                    return Err(Refusal::MALFORMED);
                }
                self.body_size = Some(decimal(value)?);
            }
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => self.is_chunked = true,
            _ => {}
        }
        Ok(())
    }

    /// The size of the body, and whether the connection is kept.
    #[inline]
    pub fn finish(self, version_minor: u8) -> Result<(usize, bool), Refusal> {
        let body_size = self.body_size.unwrap_or(0);
        if (version_minor > 0 && !self.has_host) || (self.is_chunked && self.body_size.is_some()) {
            return Err(Refusal::MALFORMED);
        }
        if self.is_chunked {
            return Err(Refusal::CHUNKED);
        }
        if body_size > BODY_SIZE_MAX {
            return Err(Refusal::BODY_TOO_LONG);
        }
        Ok((body_size, version_minor > 0 && !self.closes))
    }
}

/// Reads 1*DIGIT; a number that is too great for a size is too great for a body, too.
fn decimal(value: &[u8]) -> Result<usize, Refusal> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return Err(Refusal::MALFORMED);
    }
    let text = str::from_utf8(value).map_err(|_| Refusal::MALFORMED)?;
    text.parse().map_err(|_| Refusal::BODY_TOO_LONG)
}
