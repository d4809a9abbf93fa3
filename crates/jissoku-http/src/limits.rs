//! How much one client may ask of us. Sizes only; times belong to whoever has a clock.

/// Limits on one request. [`Limits::DEFAULT`] is what a server starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the request line, its CRLF counted; beyond it 414 (RFC 9112 section 3 asks for at
    /// least 8,000).
    pub request_line_size_max: u32,
    /// Bytes of one header line, its CRLF counted; beyond it 431.
    pub field_size_max: u32,
    /// Bytes of all header lines and the empty line after them; beyond it 431. Trailers have the same
    /// allowance.
    pub fields_size_max: u32,
    /// How many header lines; beyond it 431. Trailers have the same allowance.
    pub fields_count_max: u32,
    /// Bytes of the body; beyond it 413, decided before any of the excess is read.
    pub body_size_max: u64,
    /// Bytes of chunk extensions in one body. They carry nothing we use, so little is enough.
    pub extensions_size_max: u32,
}

impl Limits {
    /// The limits in force when nobody chose others.
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
