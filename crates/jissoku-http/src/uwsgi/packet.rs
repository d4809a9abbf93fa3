//! A packet, and its variables.

use crate::limits::Limits;
use crate::reject::Reject;

/// Size of the header of a packet: modifier 1, the size of the variables, modifier 2.
pub(super) const HEADER_SIZE: usize = 4;

/// Variables that are no header fields, beyond which a packet is too long.
const VARIABLES_MAX: u32 = 200;

/// A complete packet with valid lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Its variables.
    pub variables: Variables<'a>,
    /// Its size in bytes. The body of the request follows.
    pub size: usize,
}

/// Parses the packet that starts with `bytes`; `None` if it is incomplete.
///
/// # Errors
/// [`Reject::PacketInvalid`] for another modifier than 0 (WSGI) and 5 (PSGI), or lengths that
/// exceed the packet; [`Reject::PacketTooLong`] beyond the limits of a request head.
pub fn read<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Option<Packet<'a>>, Reject> {
    if !matches!(bytes.first(), None | Some(0 | 5)) {
        return Err(Reject::PacketInvalid);
    }
    let Some(&[_, low, high]) = bytes.first_chunk::<3>() else { return Ok(None) };
    let size = usize::from(u16::from_le_bytes([low, high]));
    if size as u64 > u64::from(limits.request_line_size_max) + u64::from(limits.fields_size_max) {
        return Err(Reject::PacketTooLong);
    }
    let Some(bytes) = bytes.get(HEADER_SIZE..HEADER_SIZE + size) else { return Ok(None) };
    let variables = Variables { bytes };
    let mut iterator = variables.iter();
    let count = iterator.by_ref().count();
    if !iterator.rest.is_empty() {
        return Err(Reject::PacketInvalid);
    }
    if count as u64 > u64::from(limits.fields_count_max) + u64::from(VARIABLES_MAX) {
        return Err(Reject::PacketTooLong);
    }
    Ok(Some(Packet { variables, size: HEADER_SIZE + size }))
}

/// The variables of a packet, in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Variables<'a> {
    bytes: &'a [u8],
}

impl<'a> Variables<'a> {
    /// The variables in `bytes`, as [`Variables::bytes`] returns them.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// The bytes of the packet without its header.
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Iterates over names and values.
    pub const fn iter(&self) -> VariablesIter<'a> {
        VariablesIter { rest: self.bytes }
    }

    /// The last value of a variable: a front-end that sets one again replaces it.
    pub fn get(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.iter().filter(|variable| variable.0 == name).last().map(|variable| variable.1)
    }

    /// Whether the client of the front-end uses TLS: HTTPS, or else `REQUEST_SCHEME`.
    pub fn is_secure(&self) -> bool {
        match self.get(b"HTTPS") {
            None | Some(b"") => {
                self.get(b"REQUEST_SCHEME").is_some_and(|it| it.eq_ignore_ascii_case(b"https"))
            }
            Some(value) => [b"on".as_slice(), b"1", b"true", b"https"]
                .iter()
                .any(|secure| value.eq_ignore_ascii_case(secure)),
        }
    }

    /// `SCRIPT_NAME` without a slash at its end, and `PATH_INFO` without `SCRIPT_NAME` at its start:
    /// nginx sends the whole path as `PATH_INFO`.
    pub fn script_and_path(&self) -> (&'a [u8], Option<&'a [u8]>) {
        let script = self.get(b"SCRIPT_NAME").unwrap_or_default();
        let script = script.strip_suffix(b"/").unwrap_or(script);
        let path = self.get(b"PATH_INFO").map(|path| match path.strip_prefix(script) {
            Some(rest @ ([] | [b'/', ..])) => rest,
            _ => path,
        });
        (script, path)
    }
}

impl<'a> IntoIterator for &Variables<'a> {
    type Item = (&'a [u8], &'a [u8]);
    type IntoIter = VariablesIter<'a>;

    fn into_iter(self) -> VariablesIter<'a> {
        self.iter()
    }
}

/// Iterator over variables; see [`Variables::iter`].
#[derive(Clone, Debug)]
pub struct VariablesIter<'a> {
    /// Unread bytes. Some are left at the end if a length exceeds the packet.
    rest: &'a [u8],
}

impl<'a> Iterator for VariablesIter<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (name, rest) = sized(self.rest)?;
        let (value, rest) = sized(rest)?;
        self.rest = rest;
        Some((name, value))
    }
}

/// The text behind its length of 16 bits, and the rest.
fn sized(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&size, rest) = bytes.split_first_chunk::<2>()?;
    rest.split_at_checked(usize::from(u16::from_le_bytes(size)))
}
