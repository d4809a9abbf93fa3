//! `wsgi.file_wrapper`: iterates over a file in blocks (PEP 3333, "Optional Platform-Specific File
//! Handling").

use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// The block size without one of the application's choice.
const BLOCK_SIZE: usize = 8 * 1024;

/// A file as an iterable of blocks from its current position on.
#[pyclass(module = "jissoku", frozen)]
#[derive(Debug)]
pub(crate) struct FileWrapper {
    file: Py<PyAny>,
    block_size: usize,
}

#[pymethods]
impl FileWrapper {
    #[new]
    #[pyo3(signature = (filelike, blksize=BLOCK_SIZE))]
    const fn new(filelike: Py<PyAny>, blksize: usize) -> Self {
        Self { file: filelike, block_size: blksize }
    }

    #[getter]
    fn filelike(&self, python: Python<'_>) -> Py<PyAny> {
        self.file.clone_ref(python)
    }

    const fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&self, python: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let block = self.file.bind(python).call_method1("read", (self.block_size,))?;
        let block = block.cast_into::<PyBytes>()?;
        Ok(Some(block).filter(|block| !block.as_bytes().is_empty()))
    }

    /// Closes the file, if it can be closed.
    fn close(&self, python: Python<'_>) -> PyResult<()> {
        match self.file.bind(python).getattr_opt("close")? {
            Some(close) => close.call0().map(drop),
            None => Ok(()),
        }
    }
}
