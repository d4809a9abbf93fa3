//! What the report of an error has of the target of its request.

use std::fmt::{self, Write};

use jissoku_http::Head;

/// Bytes of method and path that are kept.
const SIZE_MAX: usize = 126;

/// The method and the beginning of the path of a request, without its query, which may have secrets.
///
/// On the heap, because it is moved with each request, and read at an error only.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestName {
    bytes: Box<[u8]>,
    is_cut: bool,
}

impl RequestName {
    /// That of a request with this head.
    pub(crate) fn new(head: &Head, bytes: &[u8]) -> Self {
        let method = head.method_name.of(bytes);
        let target = head.path_and_query(bytes);
        let end = target.iter().position(|&byte| byte == b'?').unwrap_or(target.len());
        let mut name = Vec::with_capacity(SIZE_MAX.min(method.len() + 1 + end));
        for part in [method, b" ", &target[..end]] {
            let room = SIZE_MAX - name.len();
            name.extend_from_slice(&part[..part.len().min(room)]);
        }
        let is_cut = method.len() + 1 + end > SIZE_MAX;
        Self { bytes: name.into_boxed_slice(), is_cut }
    }
}

impl fmt::Display for RequestName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", Escaped(&self.bytes))?;
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
