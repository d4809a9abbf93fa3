//! Encoded lines of headers that are constants of an application.
//!
//! A tuple of two strings in the source code is one object, in every call. A tuple and its strings
//! never change, and as long as a reference is held no other object has its address.

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::interpreter::references;

/// Headers kept at most, a power of two.
const HEADERS_MAX: usize = 32;

/// References to a header that is in a list and in a variable of the caller, and nowhere else.
const TEMPORARY_REFERENCES: isize = 2;

/// A header and its line.
type Constant = (Py<PyTuple>, Box<[u8]>);

/// The headers that were used recently. A header has one possible slot.
#[derive(Debug, Default)]
pub(crate) struct ConstantHeaders {
    slots: [Option<Constant>; HEADERS_MAX],
}

impl ConstantHeaders {
    /// The line of a cached header.
    #[inline]
    pub(crate) fn line(&self, header: &Bound<'_, PyTuple>) -> Option<&[u8]> {
        match self.slots.get(slot_of(header)) {
            Some(Some((kept, line))) if kept.is(header) => Some(line),
            _ => None,
        }
    }

    /// Caches a header with its line, if it is a constant and the line is its only effect: `line`
    /// is empty for fields of the connection, and Date and Content-Length have further effects.
    pub(crate) fn insert_if_constant(&mut self, header: &Bound<'_, PyTuple>, line: &[u8]) {
        let is_temporary = references(header) <= TEMPORARY_REFERENCES;
        let is_date = line.get(..5).is_some_and(|name| name.eq_ignore_ascii_case(b"date:"));
        if line.is_empty() || is_temporary || is_date {
            return;
        }
        if let Some(slot) = self.slots.get_mut(slot_of(header)) {
            *slot = Some((header.clone().unbind(), line.into()));
        }
    }
}

fn slot_of(header: &Bound<'_, PyTuple>) -> usize {
    // Objects are aligned to 16 bytes.
    (header.as_ptr() as usize >> 4) & (HEADERS_MAX - 1)
}
