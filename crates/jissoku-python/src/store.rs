//! A store for Python: `jissoku.store` (`python/jissoku/store.py`) is written on top of this.

use std::path::PathBuf;

use jissoku_store::{Change, Durability, Error, Options, Ttl, WhenFull, default_folder};
use pyo3::exceptions::{PyFileNotFoundError, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// ENOSPC: `OSError.errno` of a full store is that of a full disk.
const NO_SPACE: i32 = 28;

/// An entry, as Python gets it.
type PyEntry<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// Entries, bytes in use, bytes at most, bytes of the file, time to live in milliseconds, durability
/// and policy.
type PyStats = (u64, u64, u64, u64, Option<u64>, &'static str, &'static str);

/// A store. Python's lock is free while it is written, and while its files are opened.
#[pyclass(frozen)]
#[derive(Debug)]
pub(crate) struct Store {
    store: jissoku_store::Store,
}

#[pymethods]
impl Store {
    /// Opens the store `name` in a folder, by default that of the server. `size` is the first of the
    /// options: without it, the store exists.
    #[new]
    #[pyo3(signature = (name, folder, size, ttl, durability, when_full))]
    fn new(
        python: Python<'_>,
        name: &str,
        folder: Option<PathBuf>,
        size: Option<&str>,
        ttl: Option<&str>,
        durability: &str,
        when_full: &str,
    ) -> PyResult<Self> {
        let folder = folder.or_else(|| default_folder().map(Into::into)).ok_or_else(|| {
            PyValueError::new_err(
                "no folder of stores: give one, or write [store.NAME] into the configuration file of \
                 the server",
            )
        })?;
        let invalid = |what: &str, why: String| PyValueError::new_err(format!("{what}: {why}"));
        let words = "durability is memory, lazy or durable, and when_full is refuse or drop";
        let options = match size {
            None => None,
            Some(size) => Some(Options {
                size: jissoku_cli::size(size).map_err(|why| invalid("size", why))?,
                ttl_ms: match ttl {
                    None => None,
                    Some(ttl) => {
                        let ns =
                            jissoku_cli::duration_ns(ttl).map_err(|why| invalid("ttl", why))?;
                        Some(ns / 1_000_000).filter(|ms| *ms > 0)
                    }
                },
                durability: Durability::of_word(durability)
                    .ok_or_else(|| PyValueError::new_err(words))?,
                when_full: WhenFull::of_word(when_full)
                    .ok_or_else(|| PyValueError::new_err(words))?,
            }),
        };
        let open = || jissoku_store::Store::open(&folder, name, options.as_ref());
        let store = python.detach(open).map_err(raised)?;
        Ok(Self { store })
    }

    /// A sentence about what was found when it was opened, if there is one.
    #[getter]
    fn notice(&self) -> Option<&str> {
        self.store.notice()
    }

    fn get<'py>(&self, python: Python<'py>, key: &[u8]) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let snapshot = self.store.snapshot().map_err(raised)?;
        let value = snapshot.get(key).map_err(raised)?;
        Ok(value.map(|value| PyBytes::new(python, value)))
    }

    /// Writes a value if the key has none, or in any case; returns whether it did.
    fn put(
        &self,
        python: Python<'_>,
        key: &[u8],
        value: &[u8],
        ttl: Option<f64>,
        if_absent: bool,
    ) -> PyResult<bool> {
        let ttl = ttl_of(ttl)?;
        let put = || {
            if if_absent {
                self.store.put_if_absent(key, value, ttl)
            } else {
                self.store.put(key, value, ttl).map(|()| true)
            }
        };
        python.detach(put).map_err(raised)
    }

    #[expect(clippy::needless_pass_by_value, reason = "Python's list is converted to a vector")]
    fn put_many(
        &self,
        python: Python<'_>,
        entries: Vec<(Bound<'_, PyBytes>, Option<Bound<'_, PyBytes>>)>,
        ttl: Option<f64>,
    ) -> PyResult<()> {
        let ttl = ttl_of(ttl)?;
        let entries: Vec<Change<'_>> = entries
            .iter()
            .map(|(key, value)| (key.as_bytes(), value.as_ref().map(PyBytesMethods::as_bytes)))
            .collect();
        python.detach(|| self.store.put_many(&entries, ttl)).map_err(raised)
    }

    fn compare_and_swap(
        &self,
        python: Python<'_>,
        key: &[u8],
        expected: Option<&[u8]>,
        value: &[u8],
        ttl: Option<f64>,
    ) -> PyResult<bool> {
        let ttl = ttl_of(ttl)?;
        let swap = || self.store.compare_and_swap(key, expected, value, ttl);
        python.detach(swap).map_err(raised)
    }

    fn increment(
        &self,
        python: Python<'_>,
        key: &[u8],
        by: i64,
        ttl: Option<f64>,
    ) -> PyResult<i64> {
        let ttl = ttl_of(ttl)?;
        python.detach(|| self.store.increment(key, by, ttl)).map_err(raised)
    }

    fn delete(&self, python: Python<'_>, key: &[u8]) -> PyResult<bool> {
        python.detach(|| self.store.delete(key)).map_err(raised)
    }

    /// Up to `count` entries behind the key `after`; there are further ones unless none is returned.
    fn scan<'py>(
        &self,
        python: Python<'py>,
        prefix: &[u8],
        after: Option<&[u8]>,
        count: usize,
    ) -> PyResult<Vec<PyEntry<'py>>> {
        let found = python.detach(|| self.store.scan(prefix, after, count)).map_err(raised)?;
        let bytes = |bytes: Vec<u8>| PyBytes::new(python, &bytes);
        Ok(found.into_iter().map(|(key, value)| (bytes(key), bytes(value))).collect())
    }

    fn sync(&self, python: Python<'_>) -> PyResult<()> {
        python.detach(|| self.store.sync()).map_err(raised)
    }

    fn stats(&self, python: Python<'_>) -> PyResult<PyStats> {
        let stats = python.detach(|| self.store.stats()).map_err(raised)?;
        let options = stats.options;
        Ok((
            stats.entries,
            stats.used_bytes,
            options.size,
            stats.file_bytes,
            options.ttl_ms,
            options.durability.word(),
            options.when_full.word(),
        ))
    }
}

/// Seconds; infinity is never, and none the time of the store.
fn ttl_of(seconds: Option<f64>) -> PyResult<Ttl> {
    let Some(seconds) = seconds else { return Ok(Ttl::Default) };
    if seconds == f64::INFINITY {
        return Ok(Ttl::Never);
    }
    let time = std::time::Duration::try_from_secs_f64(seconds)
        .map_err(|error| PyValueError::new_err(format!("ttl is a number of seconds: {error}")))?;
    Ok(Ttl::Ms(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)))
}

fn raised(error: Error) -> PyErr {
    let why = error.to_string();
    let error = match error {
        Error::Entry { error, .. } => *error,
        error => error,
    };
    match error {
        Error::Missing { .. } => PyFileNotFoundError::new_err(why),
        Error::Full | Error::FileFull => PyOSError::new_err((NO_SPACE, why)),
        Error::Io { error, .. } => PyOSError::new_err((error.raw_os_error(), why)),
        error if error.is_bad_input() => PyValueError::new_err(why),
        _ => PyOSError::new_err(why),
    }
}
