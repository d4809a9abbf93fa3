//! Names of fields that are not forwarded.

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
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.sizes == 0
    }

    /// Whether `name` is one of them.
    #[inline]
    #[must_use]
    pub fn has(&self, name: &[u8]) -> bool {
        self.sizes & size_bit(name.len()) != 0
            && self.names.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
    }
}

const fn size_bit(size: usize) -> u64 {
    1 << if size < 63 { size } else { 63 }
}
