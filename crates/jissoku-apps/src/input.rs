//! `wsgi.input`: the complete request body as a file (PEP 3333, "Input and Error Streams").
//!
//! The application is called when the body has arrived, so that a slow client occupies no worker.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

/// A request body. An empty one never changes and is shared by all requests.
#[pyclass(module = "jissoku")]
#[derive(Debug, Default)]
pub(crate) struct Input {
    body: Vec<u8>,
    /// The first byte that was not read.
    at: usize,
}

impl Input {
    pub(crate) const fn new(body: Vec<u8>) -> Self {
        Self { body, at: 0 }
    }

    /// Takes at most `size` bytes; all if it is `None` or negative.
    fn take(&mut self, size: Option<isize>) -> &[u8] {
        let rest = self.body.len() - self.at;
        self.advance(limit(size).min(rest))
    }

    /// Takes a line with its end, and at most `size` bytes of it.
    fn take_line(&mut self, size: Option<isize>) -> &[u8] {
        let rest = &self.body[self.at..];
        let end = rest.iter().position(|&byte| byte == b'\n').map_or(rest.len(), |at| at + 1);
        self.advance(limit(size).min(end))
    }

    fn advance(&mut self, size: usize) -> &[u8] {
        let start = self.at;
        self.at += size;
        &self.body[start..self.at]
    }
}

fn limit(size: Option<isize>) -> usize {
    size.and_then(|size| usize::try_from(size).ok()).unwrap_or(usize::MAX)
}

#[pymethods]
impl Input {
    #[pyo3(signature = (size=None, /))]
    fn read<'py>(&mut self, python: Python<'py>, size: Option<isize>) -> Bound<'py, PyBytes> {
        PyBytes::new(python, self.take(size))
    }

    #[pyo3(signature = (size=None, /))]
    fn readline<'py>(&mut self, python: Python<'py>, size: Option<isize>) -> Bound<'py, PyBytes> {
        PyBytes::new(python, self.take_line(size))
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
        while size < enough && self.at < self.body.len() {
            let line = self.take_line(None);
            size += line.len();
            lines.append(PyBytes::new(python, line))?;
        }
        Ok(lines)
    }

    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&mut self, python: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        let line = self.take_line(None);
        (!line.is_empty()).then(|| PyBytes::new(python, line))
    }
}

#[cfg(test)]
mod tests {
    use super::Input;

    #[test]
    fn lines_keep_their_line_end_and_sizes_are_limits() {
        let mut input = Input::new(b"one\ntwo\n\nthree".to_vec());
        assert_eq!(input.take_line(Some(2)), b"on");
        assert_eq!(input.take_line(Some(-1)), b"e\n");
        assert_eq!(input.take(Some(1)), b"t");
        assert_eq!(input.take_line(None), b"wo\n");
        assert_eq!(input.take_line(Some(0)), b"");
        assert_eq!(input.take_line(Some(5)), b"\n");
        assert_eq!(input.take(None), b"three");
        assert_eq!(input.take(None), b"");
        assert_eq!(input.take_line(None), b"");
    }
}
