//! The fields that a Connection field names (RFC 9110 section 7.6.1).

use crate::head::{Fields, trim};

/// The values of all Connection fields of a head, if it has any.
#[derive(Clone, Debug)]
pub(super) struct ConnectionOptions<'a> {
    fields: Option<Fields<'a>>,
}

impl<'a> ConnectionOptions<'a> {
    /// Of `fields`, if `is_present`: so that heads without a Connection field are read once only.
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
