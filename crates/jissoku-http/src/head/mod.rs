//! What the head of a request says. The bytes stay where they were: a [`Head`] holds places, not copies.

mod fields;
mod host;
mod line;
mod noted;
mod reader;

pub use fields::Fields;
pub(crate) use fields::trim;
pub use noted::Noted;
pub use reader::HeadReader;

use crate::framing::Body;

/// A place in the bytes the head was read from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The bytes at this place.
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

/// The head of one request that is complete and in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// What is asked for.
    pub method: Method,
    /// Where the method's name is.
    pub method_name: Span,
    /// The request target as it was sent, in whichever form.
    pub target: Span,
    /// Which rules hold.
    pub version: Version,
    /// How the body is delimited.
    pub body: Body,
    /// Whether the client can take another answer on this connection (RFC 9112 section 9.3).
    pub keeps_alive: bool,
    /// Whether the client waits for `100 Continue` before it sends the body.
    pub awaits_continue: bool,
    /// Which of the header lines that change an answer are there.
    pub noted: Noted,
    /// All header lines, without the empty line that ends them.
    pub fields: Span,
    /// Bytes of the head, from the front of the bytes it was read from to the end of its empty line.
    pub size: u32,
}

impl Head {
    /// The header lines in order, each as name and value, from the bytes the head was read from.
    #[must_use]
    pub fn fields<'a>(&self, bytes: &'a [u8]) -> Fields<'a> {
        Fields::new(self.fields.of(bytes))
    }

    /// The path and query of the target: an absolute form has its scheme and authority taken off
    /// (RFC 9112 section 3.2.2), where an empty path counts as `/`.
    #[must_use]
    #[inline]
    pub fn path_and_query<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let target = self.target.of(bytes);
        if target.first() == Some(&b'/') { target } else { line::after_authority(target) }
    }
}

#[cfg(test)]
mod tests;
