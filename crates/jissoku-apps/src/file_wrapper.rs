//! `wsgi.file_wrapper`: a file of the system is sent by the kernel, any other object is read in
//! blocks (PEP 3333, "Optional Platform-Specific File Handling").

use std::ops::Range;
use std::sync::Arc;

use jissoku_os::file::File;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// The default block size.
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

impl FileWrapper {
    /// The rest of the file, if the kernel can send it: the same bytes that `read` would return.
    /// `None` for other objects and after any error; `read` is called then.
    pub(crate) fn rest(&self, python: Python<'_>) -> Option<(Arc<File>, Range<u64>)> {
        let file = plain_file(self.file.bind(python)).ok()??;
        let rest = || -> PyResult<(File, u64)> {
            // `flush` writes buffered data, so that the kernel sends it.
            file.call_method0(intern!(python, "flush"))?;
            let number = file.call_method0(intern!(python, "fileno"))?.extract()?;
            let start = file.call_method0(intern!(python, "tell"))?.extract()?;
            Ok((File::duplicate(number)?, start))
        };
        let (file, start) = rest().ok()?;
        let end = file.stamp().size;
        // A file without a size may have content, such as those of /proc.
        (start < end).then(|| (Arc::new(file), start..end))
    }
}

/// The object of `io` that reads a file unchanged. Another class with a `fileno` may return other
/// bytes than those of the file: `gzip.GzipFile` decompresses.
fn plain_file<'py>(file: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let python = file.py();
    let is_exact = |object: &Bound<'py, PyAny>, module: &str, name: &str| -> PyResult<bool> {
        Ok(object.get_type().is(&python.import(module)?.getattr(name)?))
    };
    let file = if is_exact(file, "tempfile", "_TemporaryFileWrapper")? {
        file.getattr(intern!(python, "file"))?
    } else {
        file.clone()
    };
    let is_buffered =
        is_exact(&file, "io", "BufferedReader")? || is_exact(&file, "io", "BufferedRandom")?;
    let raw = if is_buffered { file.getattr(intern!(python, "raw"))? } else { file.clone() };
    let is_readable = || file.call_method0(intern!(python, "readable"))?.is_truthy();
    Ok((is_exact(&raw, "io", "FileIO")? && is_readable()?).then_some(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files by their names, at their positions, of a file of five bytes.
    const FILES: &std::ffi::CStr = c"
import gzip, io, os, tempfile

def temporary(position=0):
    file = tempfile.NamedTemporaryFile()
    file.write(b'12345')
    file.seek(position)
    return file

class Decrypted(io.FileIO):
    def read(self, size=-1):
        return b''

kept = temporary()
kept.flush()
name = kept.name
read_ahead = open(name, 'rb')
read_ahead.read(2)
sent = [(temporary(), 0), (temporary(3), 3), (open(name, 'rb'), 0), (read_ahead, 2),
        (open(name, 'rb', buffering=0), 0), (tempfile.TemporaryFile(), None)]
read = [io.BytesIO(b'x'), temporary(5), temporary(9), open(name), open(name, 'ab'), Decrypted(name),
        open(name, 'ab', buffering=0), gzip.open(name), object(), os.fdopen(os.pipe()[0], 'rb')]
gone = open(name, 'rb')
gone.close()
read.append(gone)
";

    #[test]
    fn the_kernel_sends_what_read_would_return() {
        Python::initialize();
        Python::attach(|python| {
            let module =
                PyModule::from_code(python, FILES, c"f.py", c"f").expect("the module compiles");
            let list = |name| module.getattr(name).expect("the module defines it");
            let rest = |file: Bound<'_, PyAny>| {
                let wrapper = FileWrapper::new(file.unbind(), BLOCK_SIZE);
                wrapper.rest(python).map(|(_, range)| range)
            };
            for (index, pair) in list("sent").try_iter().expect("a list").enumerate() {
                let (file, start): (_, Option<u64>) =
                    pair.and_then(|pair| pair.extract()).expect("a pair");
                assert_eq!(rest(file), start.map(|start| start..5), "file {index}");
            }
            for (index, file) in list("read").try_iter().expect("a list").enumerate() {
                assert_eq!(rest(file.expect("a file")), None, "file {index}");
            }
        });
    }
}
