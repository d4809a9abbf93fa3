//! Limits of a single request. Sizes only; timeouts are up to the caller.

/// Limits of one request. [`Limits::DEFAULT`] holds the defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Size of the request line including CRLF; beyond it 414 (RFC 9112 section 3 recommends at
    /// least 8,000).
    pub request_line_size_max: u32,
    /// Size of one header field including CRLF; beyond it 431.
    pub field_size_max: u32,
    /// Size of all header fields and the empty line; beyond it 431. The same applies to trailers.
    pub fields_size_max: u32,
    /// Number of header fields; beyond it 431. The same applies to trailers.
    pub fields_count_max: u32,
    /// Size of the body; beyond it 413, before any of the excess is read.
    pub body_size_max: u64,
    /// Size of all chunk extensions of a body, which are ignored.
    pub extensions_size_max: u32,
}

impl Limits {
    /// The default limits.
    pub const DEFAULT: Self = Self {
        request_line_size_max: 8 * 1024,
        field_size_max: 8 * 1024,
        fields_size_max: 32 * 1024,
        fields_count_max: 100,
        body_size_max: 1024 * 1024,
        extensions_size_max: 4 * 1024,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
