//! Request heads. A [`Head`] holds spans of the parsed bytes, and no copies.

mod fields;
mod header_flags;
mod host;
mod reader;
mod request_line;

pub use fields::Fields;
pub(crate) use fields::trim;
pub use header_flags::HeaderFlags;
pub use reader::HeadReader;

use crate::framing::Body;

/// A span of the bytes that the head was parsed from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The bytes of this span.
    #[must_use]
    #[inline]
    pub fn of(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.start as usize..self.end as usize]
    }
}

/// The method of a request (RFC 9110 section 9, RFC 5789). The name is case-sensitive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// `GET`.
    #[default]
    Get,
    /// `HEAD`.
    Head,
    /// `POST`.
    Post,
    /// `PUT`.
    Put,
    /// `DELETE`.
    Delete,
    /// `OPTIONS`.
    Options,
    /// `PATCH`.
    Patch,
    /// Another token; [`Head::method_name`] has it.
    Other,
}

/// The version of a request. A minor version above 1 counts as 1 (RFC 9110 section 2.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1.
    #[default]
    Http11,
}

/// A complete and valid request head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The method.
    pub method: Method,
    /// The name of the method.
    pub method_name: Span,
    /// The request target as received, in any form.
    pub target: Span,
    /// The HTTP version.
    pub version: Version,
    /// The framing of the body.
    pub body: Body,
    /// Whether the client allows the connection to persist (RFC 9112 section 9.3).
    pub keeps_alive: bool,
    /// Whether the client waits for `100 Continue`.
    pub expects_continue: bool,
    /// Which fields that affect the response are present.
    pub flags: HeaderFlags,
    /// All header lines, without the empty line.
    pub fields: Span,
    /// Size of the head, from the start of the parsed bytes to the end of the empty line.
    pub size: u32,
}

impl Head {
    /// Iterates over the header fields in order, as name and value.
    #[must_use]
    pub fn fields<'a>(&self, bytes: &'a [u8]) -> Fields<'a> {
        Fields::new(self.fields.of(bytes))
    }

    /// The path and query of the target: scheme and authority of an absolute form are removed
    /// (RFC 9112 section 3.2.2), and an empty path is `/`.
    #[must_use]
    #[inline]
    pub fn path_and_query<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let target = self.target.of(bytes);
        if target.first() == Some(&b'/') { target } else { request_line::after_authority(target) }
    }
}

#[cfg(test)]
mod tests;
