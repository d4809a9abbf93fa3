//! What the report of an error has of the target of its request.

use std::fmt::{self, Write};

use jissoku_http::Head;

/// Bytes of method and path that are kept.
const SIZE_MAX: usize = 126;

/// The method and the beginning of the path of a request, without its query, which may have secrets.
#[derive(Clone, Debug)]
pub(crate) struct RequestName {
    bytes: [u8; SIZE_MAX],
    size: u8,
    is_cut: bool,
}

impl RequestName {
    /// That of a request with this head.
    pub(crate) fn new(head: &Head, bytes: &[u8]) -> Self {
        let mut name = Self::NONE;
        let target = head.path_and_query(bytes);
        let end = target.iter().position(|&byte| byte == b'?').unwrap_or(target.len());
        for part in [head.method_name.of(bytes), b" ", &target[..end]] {
            let begin = usize::from(name.size);
            let size = part.len().min(SIZE_MAX - begin);
            name.bytes[begin..begin + size].copy_from_slice(&part[..size]);
            name.size = u8::try_from(begin + size).unwrap_or(u8::MAX);
            name.is_cut |= size < part.len();
        }
        name
    }

    /// That of no request.
    pub(crate) const NONE: Self = Self { bytes: [0; SIZE_MAX], size: 0, is_cut: false };
}

impl fmt::Display for RequestName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", Escaped(&self.bytes[..usize::from(self.size)]))?;
        if self.is_cut { formatter.write_str("...") } else { Ok(()) }
    }
}

/// Bytes as text: visible ASCII as it is, and other bytes as in a URL.
pub(crate) struct Escaped<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|&byte| match byte {
            b' '..=b'~' => formatter.write_char(char::from(byte)),
            _ => write!(formatter, "%{byte:02X}"),
        })
    }
}
