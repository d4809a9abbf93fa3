//! Stores: keys and values that all workers of a server see.

use std::error::Error;
use std::ffi::c_int;
use std::fmt;
use std::ops::ControlFlow;
use std::time::Duration;

use crate::ffi::Server;
use crate::ffi::store::StoreCalls;

/// Values up to this size are read at once.
const USUAL_SIZE: usize = 1024;

/// A store, for any thread; open until the worker ends. Keys have 1 to 500 bytes, values up to 16 MiB,
/// and each function is one transaction.
#[derive(Clone, Copy, Debug)]
pub struct Store(StoreCalls);

/// How long an entry lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ttl {
    /// As long as the configuration of the store says.
    OfStore,
    /// For ever.
    Never,
    /// For a time of at least a millisecond.
    For(Duration),
}

impl Ttl {
    fn milliseconds(self) -> i64 {
        match self {
            Self::OfStore => 0,
            Self::Never => -1,
            Self::For(time) => i64::try_from(time.as_millis()).unwrap_or(i64::MAX).max(1),
        }
    }
}

/// Why a function of a store has failed: a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreError(String);

impl fmt::Display for StoreError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl Error for StoreError {}

impl StoreError {
    fn last(server: Server) -> Self {
        Self(server.store_error().unwrap_or_else(|| "the server has no stores".to_owned()))
    }
}

impl Store {
    /// Opens the store of this name, `[store.NAME]` of the configuration file.
    ///
    /// # Errors
    /// There is none, or the server is older than stores.
    pub fn open(server: Server, name: &str) -> Result<Self, StoreError> {
        server.open_store(name).map(Self).ok_or_else(|| StoreError::last(server))
    }

    fn checked(self, result: c_int) -> Result<c_int, StoreError> {
        if result < 0 { Err(StoreError::last(self.0.server())) } else { Ok(result) }
    }

    /// The value of a key, if it has one.
    ///
    /// # Errors
    /// The key is not valid, or the store cannot be read; here and below.
    pub fn get(self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, StoreError> {
        let mut value = vec![0; USUAL_SIZE];
        loop {
            let mut size = 0;
            if self.checked(self.0.read(key.as_ref(), &mut value, &mut size))? == 0 {
                return Ok(None);
            }
            // A longer one may be written before it is read again.
            let is_whole = size <= value.len();
            value.resize(size, 0);
            if is_whole {
                return Ok(Some(value));
            }
        }
    }

    /// Writes the value of a key.
    ///
    /// # Errors
    /// An argument is not valid, or there is no room; here and below.
    pub fn put(
        self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Ttl,
    ) -> Result<(), StoreError> {
        self.checked(self.0.put(key.as_ref(), value.as_ref(), ttl.milliseconds())).map(drop)
    }

    /// Writes all entries in their order, or none of them if it fails, and removes the keys that have no
    /// value here: others see all of it or nothing. It takes less time than single calls; what else
    /// writes waits meanwhile.
    ///
    /// # Errors
    /// As above, with the entry as `entries[2]`; or the server is older than this function.
    pub fn put_many<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        self,
        entries: &[(K, Option<V>)],
        ttl: Ttl,
    ) -> Result<(), StoreError> {
        let entries = entries.iter();
        let entries = entries.map(|(key, value)| (key.as_ref(), value.as_ref().map(AsRef::as_ref)));
        let entries: Vec<_> = entries.collect();
        let result = self.0.put_many(&entries, ttl.milliseconds());
        let result = result.ok_or_else(|| StoreError("the server has no put_many".to_owned()))?;
        self.checked(result).map(drop)
    }

    /// Writes the value of a key that has none. Returns whether it had none.
    ///
    /// # Errors
    /// As above.
    pub fn put_if_absent(
        self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Ttl,
    ) -> Result<bool, StoreError> {
        let result = self.0.put_if_absent(key.as_ref(), value.as_ref(), ttl.milliseconds());
        self.checked(result).map(|result| result > 0)
    }

    /// Writes the value of a key that has the value `expected`, or none if that is `None`. Returns
    /// whether it had.
    ///
    /// # Errors
    /// As above.
    pub fn swap(
        self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Ttl,
    ) -> Result<bool, StoreError> {
        let result = self.0.swap(key.as_ref(), expected, value.as_ref(), ttl.milliseconds());
        self.checked(result).map(|result| result > 0)
    }

    /// Removes a key. Returns whether it had a value.
    ///
    /// # Errors
    /// As above.
    pub fn delete(self, key: impl AsRef<[u8]>) -> Result<bool, StoreError> {
        self.checked(self.0.delete(key.as_ref())).map(|result| result > 0)
    }

    /// Adds to the number of a key, which is text in decimal, and returns the sum. A key without a value
    /// has 0, and gets this time to live.
    ///
    /// # Errors
    /// The value or the sum is not a whole number of 64 bits; as above.
    pub fn increment(self, key: impl AsRef<[u8]>, by: i64, ttl: Ttl) -> Result<i64, StoreError> {
        let mut sum = 0;
        let result = self.0.increment(key.as_ref(), by, ttl.milliseconds(), &mut sum);
        self.checked(result).map(|_| sum)
    }

    /// Calls `visit` with the keys that begin so and their values, in the order of their bytes, until
    /// it breaks. It may use the store.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn scan(
        self,
        prefix: impl AsRef<[u8]>,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.checked(self.0.scan(prefix.as_ref(), &mut visit)).map(drop)
    }
}
