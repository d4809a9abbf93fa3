//! A parsed request head.

use super::field_line::Fields;
use super::header_flags::HeaderFlags;
use super::request_line::{Method, Span, Version};
use crate::framing::Body;

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
    pub fn fields<'a>(&self, bytes: &'a [u8]) -> Fields<'a> {
        Fields::of_lines(self.fields.of(bytes))
    }

    /// The path and query of a target in origin form, which is the whole ([`Head::in_origin_form`]).
    #[inline]
    pub fn path_and_query<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        self.target.of(bytes)
    }

    /// The host and port that are asked for: the value of Host, of a request in origin form
    /// ([`Head::in_origin_form`]). A valid request of HTTP/1.1 has one.
    pub fn host<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let mut fields = self.fields(bytes);
        fields.find(|(name, _)| name.eq_ignore_ascii_case(b"host")).map(|(_, value)| value)
    }
}
