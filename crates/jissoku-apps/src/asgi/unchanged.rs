//! Scopes that their applications have left as they were: a later request with the same head gets
//! the same objects, to which there are no other references.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::interpreter::{references, version};

/// The scope of one request.
#[derive(Debug)]
pub(super) struct Scope {
    pub(super) dict: Py<PyDict>,
    /// If it may be used again.
    pub(super) record: Option<Box<Record>>,
}

/// What a scope is for, and how it was given to the application.
#[derive(Debug)]
pub(super) struct Record {
    /// The slot of its header section.
    pub(super) slot: usize,
    /// The request line.
    pub(super) line: Box<[u8]>,
    pub(super) listener: usize,
    pub(super) client: Py<PyAny>,
    /// The version of the scope.
    pub(super) version: u64,
    /// The dictionaries in it, with their versions.
    pub(super) parts: Vec<(Py<PyDict>, u64)>,
    /// The list of header fields in it.
    pub(super) headers: Py<PyList>,
    /// The list that it is a copy of.
    pub(super) fields: Py<PyList>,
    /// The version of the lifespan's state that the scope has a copy of.
    pub(super) state: u64,
}

impl Scope {
    pub(super) fn new(dict: Bound<'_, PyDict>) -> Self {
        Self { dict: dict.unbind(), record: None }
    }

    /// Records how it is now, so that it can be used again. `fields` is the list of its headers, and
    /// the one that it is a copy of.
    pub(super) fn recorded(
        self,
        (line, (slot, listener, client)): (&[u8], (usize, usize, Py<PyAny>)),
        parts: Vec<Bound<'_, PyDict>>,
        (headers, fields): (Bound<'_, PyList>, Py<PyList>),
        state: Option<u64>,
    ) -> Self {
        let with_version = |part: Bound<'_, PyDict>| {
            let seen = version(&part)?;
            Some((part.unbind(), seen))
        };
        let parts: Option<Vec<_>> = parts.into_iter().map(with_version).collect();
        let seen = version(self.dict.bind(headers.py()));
        let (Some(parts), Some(version), Some(state)) = (parts, seen, state) else { return self };
        let (line, headers) = (line.into(), headers.unbind());
        let record =
            Record { slot, line, listener, client, version, parts, headers, fields, state };
        Self { record: Some(Box::new(record)), ..self }
    }

    /// Whether it is as it was, and the application has kept no part of it.
    pub(super) fn is_unchanged(&self, python: Python<'_>) -> bool {
        let Some(record) = &self.record else { return false };
        // References of the scope and of the record.
        let is_same = |(part, seen): &(Py<PyDict>, u64)| {
            let part = part.bind(python);
            references(part) == 2 && version(part) == Some(*seen)
        };
        let dict = self.dict.bind(python);
        references(dict) == 1
            && version(dict) == Some(record.version)
            && record.parts.iter().all(is_same)
            && record.has_its_headers(python)
    }
}

impl Record {
    fn has_its_headers(&self, python: Python<'_>) -> bool {
        let (headers, fields) = (self.headers.bind(python), self.fields.bind(python));
        references(headers) == 2
            && headers.len() == fields.len()
            && headers.iter().zip(fields.iter()).all(|(one, other)| one.is(&other))
    }
}
