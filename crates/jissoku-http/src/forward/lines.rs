//! Copies header lines. Neighbouring lines that are canonical already are copied with one call.

use crate::head::{Fields, trim};
use crate::scan;

/// Appends those of `lines`, the header lines of a valid head, for which `keeps` returns true to
/// `output`, each as `name: value` and CRLF. `keeps` is called with name and value.
///
/// # Errors
/// The first error of `keeps`.
pub(super) fn copy<'a, E>(
    lines: &'a [u8],
    output: &mut Vec<u8>,
    mut keeps: impl FnMut(&'a [u8], &'a [u8]) -> Result<bool, E>,
) -> Result<(), E> {
    // Canonical lines from here on are not copied yet.
    let mut run_at = 0;
    let mut at = 0;
    while at < lines.len() {
        let name_size = scan::token_end(&lines[at..]);
        let value_at = at + name_size + 1;
        let raw_size = scan::value_end(&lines[value_at..]);
        let (name, raw) = (&lines[at..][..name_size], &lines[value_at..][..raw_size]);
        let value = trim(raw);
        let end = value_at + raw_size + 2;
        let is_canonical = raw.first() == Some(&b' ') && raw.len() == value.len() + 1;
        let is_kept = keeps(name, value)?;
        if !is_kept || !is_canonical {
            output.extend_from_slice(&lines[run_at..at]);
            if is_kept {
                write(name, value, output);
            }
            run_at = end;
        }
        at = end;
    }
    output.extend_from_slice(&lines[run_at..]);
    Ok(())
}

/// Appends one line.
pub(super) fn write(name: &[u8], value: &[u8], output: &mut Vec<u8>) {
    output.extend_from_slice(name);
    output.extend_from_slice(b": ");
    output.extend_from_slice(value);
    output.extend_from_slice(b"\r\n");
}

/// The values of all Connection fields of a head, if it has any.
#[derive(Clone, Debug)]
pub(super) struct ConnectionOptions<'a> {
    fields: Option<Fields<'a>>,
}

impl<'a> ConnectionOptions<'a> {
    /// The options in `fields`. If not `is_present`, there are none, and `fields` are not read again.
    pub(super) fn new(fields: Fields<'a>, is_present: bool) -> Self {
        Self { fields: is_present.then_some(fields) }
    }

    /// All options.
    pub(super) fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let fields = self.fields.clone().into_iter().flatten();
        let values = fields.filter(|(name, _)| name.eq_ignore_ascii_case(b"connection"));
        values.flat_map(|(_, value)| value.split(|&byte| byte == b',').map(trim))
    }

    /// Whether `name` is one of them.
    pub(super) fn has(&self, name: &[u8]) -> bool {
        self.fields.is_some() && self.iter().any(|option| option.eq_ignore_ascii_case(name))
    }
}

/// Names of fields, compared without regard to case. The size of a name shows of most that they are none
/// of these.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldNames {
    names: Vec<Box<str>>,
    /// Bit n is set if a name has n bytes, and the last one if a name has more.
    sizes: u64,
}

impl FieldNames {
    /// Adds a name.
    pub fn add(&mut self, name: &str) {
        if !self.has(name.as_bytes()) {
            self.names.push(name.into());
            self.sizes |= size_bit(name.len());
        }
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.sizes == 0
    }

    /// Whether `name` is one of them.
    #[inline]
    pub fn has(&self, name: &[u8]) -> bool {
        self.sizes & size_bit(name.len()) != 0
            && self.names.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
    }
}

const fn size_bit(size: usize) -> u64 {
    1 << if size < 63 { size } else { 63 }
}
