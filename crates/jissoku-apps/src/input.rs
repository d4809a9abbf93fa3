//! `wsgi.input`: the complete request body as a file (PEP 3333, "Input and Error Streams").
//!
//! The application is called when the body has arrived, so that a slow client occupies no worker.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::body::Content;

/// Read ahead from a file, for lines.
const FILE_BUFFER_SIZE: usize = 64 * 1024;

/// A request body. An empty one never changes and is shared by all requests.
#[pyclass(module = "jissoku")]
#[derive(Debug)]
pub(crate) struct Input {
    source: Source,
}

#[derive(Debug)]
enum Source {
    /// Bytes, and the first one that was not read.
    Memory(Vec<u8>, usize),
    /// A file, and the number of bytes that were not read.
    File(BufReader<File>, u64),
}

impl Input {
    pub(crate) fn new(content: Content) -> Self {
        let source = match content {
            Content::Memory(bytes) => Source::Memory(bytes, 0),
            Content::File(file, size) => {
                Source::File(BufReader::with_capacity(FILE_BUFFER_SIZE, file), size)
            }
        };
        Self { source }
    }

    fn is_at_end(&self) -> bool {
        match &self.source {
            Source::Memory(bytes, at) => *at == bytes.len(),
            Source::File(_, left) => *left == 0,
        }
    }

    /// Takes at most `size` bytes; all if it is `None` or negative.
    fn take<'py>(
        &mut self,
        python: Python<'py>,
        size: Option<isize>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        match &mut self.source {
            Source::Memory(bytes, at) => {
                let end = at.saturating_add(limit(size)).min(bytes.len());
                Ok(PyBytes::new(python, &bytes[std::mem::replace(at, end)..end]))
            }
            Source::File(reader, left) => {
                let size = usize::try_from(*left).unwrap_or(usize::MAX).min(limit(size));
                let bytes = PyBytes::new_with(python, size, |bytes| Ok(reader.read_exact(bytes)?))?;
                *left -= size as u64;
                Ok(bytes)
            }
        }
    }

    /// Takes a line with its end, and at most `size` bytes of it.
    fn take_line<'py>(
        &mut self,
        python: Python<'py>,
        size: Option<isize>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        match &mut self.source {
            Source::Memory(bytes, at) => {
                let rest = &bytes[*at..];
                let end =
                    rest.iter().position(|&byte| byte == b'\n').map_or(rest.len(), |it| it + 1);
                let line = &rest[..end.min(limit(size))];
                *at += line.len();
                Ok(PyBytes::new(python, line))
            }
            Source::File(reader, left) => {
                let mut line = Vec::new();
                let size_max = (*left).min(limit(size) as u64);
                reader.by_ref().take(size_max).read_until(b'\n', &mut line)?;
                *left -= line.len() as u64;
                Ok(PyBytes::new(python, &line))
            }
        }
    }
}

impl Default for Input {
    fn default() -> Self {
        Self { source: Source::Memory(Vec::new(), 0) }
    }
}

fn limit(size: Option<isize>) -> usize {
    size.and_then(|size| usize::try_from(size).ok()).unwrap_or(usize::MAX)
}

#[pymethods]
impl Input {
    #[pyo3(signature = (size=None, /))]
    fn read<'py>(
        &mut self,
        python: Python<'py>,
        size: Option<isize>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        self.take(python, size)
    }

    #[pyo3(signature = (size=None, /))]
    fn readline<'py>(
        &mut self,
        python: Python<'py>,
        size: Option<isize>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        self.take_line(python, size)
    }

    /// Lines until at least `hint` bytes were read; all if it is `None` or not positive.
    #[pyo3(signature = (hint=None, /))]
    fn readlines<'py>(
        &mut self,
        python: Python<'py>,
        hint: Option<isize>,
    ) -> PyResult<Bound<'py, PyList>> {
        let enough = limit(hint.filter(|&hint| hint > 0));
        let (lines, mut size) = (PyList::empty(python), 0);
        while size < enough && !self.is_at_end() {
            let line = self.take_line(python, None)?;
            size += line.as_bytes().len();
            lines.append(line)?;
        }
        Ok(lines)
    }

    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&mut self, python: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let line = self.take_line(python, None)?;
        Ok(Some(line).filter(|line| !line.as_bytes().is_empty()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::Body;

    const TEXT: &[u8] = b"one\ntwo\n\nthree";

    #[test]
    fn lines_keep_their_line_end_and_sizes_are_limits() {
        Python::initialize();
        // In memory, in a file from a part on, and in a file from the start.
        for memory_max in [100, 6, 0] {
            let mut body = Body::default();
            TEXT.chunks(4).for_each(|part| body.push(part, memory_max));
            let content = body.finish().expect("there is room for a file");
            assert_eq!(matches!(content, Content::Memory(_)), memory_max == 100);
            assert_eq!(content.size(), TEXT.len() as u64);
            Python::attach(|python| -> PyResult<()> {
                let mut input = Input::new(content);
                assert_eq!(input.take_line(python, Some(2))?.as_bytes(), b"on");
                assert_eq!(input.take_line(python, Some(-1))?.as_bytes(), b"e\n");
                assert_eq!(input.take(python, Some(1))?.as_bytes(), b"t");
                assert_eq!(input.take_line(python, None)?.as_bytes(), b"wo\n");
                assert_eq!(input.take_line(python, Some(0))?.as_bytes(), b"");
                assert_eq!(input.take_line(python, Some(5))?.as_bytes(), b"\n");
                assert!(!input.is_at_end());
                assert_eq!(input.take(python, None)?.as_bytes(), b"three");
                assert!(input.is_at_end());
                assert_eq!(input.take(python, None)?.as_bytes(), b"");
                assert_eq!(input.take_line(python, None)?.as_bytes(), b"");
                assert!(input.__next__(python)?.is_none());
                Ok(())
            })
            .expect("it can be read");
        }
    }
}
