//! The functions of stores.

use std::any::Any;
use std::ffi::{c_char, c_int, c_void};
use std::ops::ControlFlow;
use std::panic::{self, AssertUnwindSafe};
use std::ptr::{self, NonNull};

use super::{DONE, Server, Str, Visit, with_c_name};

/// `jsk_store`: what is in it, the server knows only.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct RawStore {
    _private: [u8; 0],
}

pub(super) type Open = unsafe extern "C" fn(*const c_char, *mut *mut RawStore) -> c_int;
pub(super) type Read = unsafe extern "C" fn(*mut RawStore, Str, *mut c_void, *mut usize) -> c_int;
pub(super) type Put = unsafe extern "C" fn(*mut RawStore, Str, Str, i64) -> c_int;
pub(super) type PutMany = unsafe extern "C" fn(*mut RawStore, *const RawEntry, usize, i64) -> c_int;
pub(super) type Swap = unsafe extern "C" fn(*mut RawStore, Str, Str, Str, i64) -> c_int;
pub(super) type Delete = unsafe extern "C" fn(*mut RawStore, Str) -> c_int;
pub(super) type Increment = unsafe extern "C" fn(*mut RawStore, Str, i64, i64, *mut i64) -> c_int;
pub(super) type Scan = unsafe extern "C" fn(*mut RawStore, Str, Visit, *mut c_void) -> c_int;

/// `jsk_entry`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawEntry {
    pub(super) key: Str,
    pub(super) value: Str,
    pub(super) is_removed: c_int,
}

impl RawEntry {
    /// Without a value, the key is removed.
    fn of(key: &[u8], value: Option<&[u8]>) -> Self {
        let is_removed = c_int::from(value.is_none());
        Self { key: Str::of(key), value: value.map_or(Str::ABSENT, Str::of), is_removed }
    }
}

/// Is called with keys and values.
pub(crate) type Visitor<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// What [`StoreCalls`] return if the server has no stores.
const OLD: c_int = -1;

/// What a scan returns that its function has ended.
const ENDED: c_int = 1;

/// The functions of an open store. A negative result is a failure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreCalls {
    server: Server,
    store: NonNull<RawStore>,
}

// SAFETY: any thread may call these functions, and a store is open until the process ends.
unsafe impl Send for StoreCalls {}

// SAFETY: as above.
unsafe impl Sync for StoreCalls {}

impl Server {
    /// Opens a store.
    pub(crate) fn open_store(self, name: &str) -> Option<StoreCalls> {
        let open = function!(self, store_open)?;
        let mut store = ptr::null_mut();
        let result = with_c_name(name, |name| {
            // SAFETY: the name ends with a zero, and there is room for a pointer.
            unsafe { open(name, &raw mut store) }
        });
        if result != Some(DONE) {
            return None;
        }
        NonNull::new(store).map(|store| StoreCalls { server: self, store })
    }

    /// Why the last function of a store has failed on this thread.
    pub(crate) fn store_error(self) -> Option<String> {
        let error = function!(self, store_error)?;
        // SAFETY: any thread may call it.
        let text = unsafe { error() };
        text.bytes().map(|text| String::from_utf8_lossy(text).into_owned())
    }
}

impl StoreCalls {
    pub(crate) const fn server(self) -> Server {
        self.server
    }

    /// Reads the value of a key to `buffer`, and its whole size to `size`.
    pub(crate) fn read(self, key: &[u8], buffer: &mut [u8], size: &mut usize) -> c_int {
        let Some(read) = function!(self.server, store_read) else { return OLD };
        *size = buffer.len();
        let start = buffer.as_mut_ptr().cast();
        // SAFETY: the store is open, the key outlives the call, and there is room for both.
        unsafe { read(self.store.as_ptr(), Str::of(key), start, &raw mut *size) }
    }

    pub(crate) fn put(self, key: &[u8], value: &[u8], ttl_ms: i64) -> c_int {
        let Some(put) = function!(self.server, store_put) else { return OLD };
        // SAFETY: the store is open, and the texts outlive the call.
        unsafe { put(self.store.as_ptr(), Str::of(key), Str::of(value), ttl_ms) }
    }

    /// Writes all entries, or none; those without a value are removed. `None`: the server is older.
    pub(crate) fn put_many(self, entries: &[(&[u8], Option<&[u8]>)], ttl_ms: i64) -> Option<c_int> {
        let put = function!(self.server, store_put_many)?;
        let entries: Vec<_> =
            entries.iter().map(|&(key, value)| RawEntry::of(key, value)).collect();
        // SAFETY: the store is open, and the entries and their texts outlive the call.
        Some(unsafe { put(self.store.as_ptr(), entries.as_ptr(), entries.len(), ttl_ms) })
    }

    pub(crate) fn put_if_absent(self, key: &[u8], value: &[u8], ttl_ms: i64) -> c_int {
        let Some(put) = function!(self.server, store_put_if_absent) else { return OLD };
        // SAFETY: the store is open, and the texts outlive the call.
        unsafe { put(self.store.as_ptr(), Str::of(key), Str::of(value), ttl_ms) }
    }

    pub(crate) fn swap(
        self,
        key: &[u8],
        expected: Option<&[u8]>,
        value: &[u8],
        ttl_ms: i64,
    ) -> c_int {
        let Some(swap) = function!(self.server, store_swap) else { return OLD };
        let expected = expected.map_or(Str::ABSENT, Str::of);
        // SAFETY: the store is open, and the texts outlive the call.
        unsafe { swap(self.store.as_ptr(), Str::of(key), expected, Str::of(value), ttl_ms) }
    }

    pub(crate) fn delete(self, key: &[u8]) -> c_int {
        let Some(delete) = function!(self.server, store_delete) else { return OLD };
        // SAFETY: the store is open, and the key outlives the call.
        unsafe { delete(self.store.as_ptr(), Str::of(key)) }
    }

    pub(crate) fn increment(self, key: &[u8], by: i64, ttl_ms: i64, sum: &mut i64) -> c_int {
        let Some(increment) = function!(self.server, store_increment) else { return OLD };
        // SAFETY: the store is open, the key outlives the call, and there is room for the sum.
        unsafe { increment(self.store.as_ptr(), Str::of(key), by, ttl_ms, &raw mut *sum) }
    }

    pub(crate) fn scan(self, prefix: &[u8], visit: &mut Visitor<'_>) -> c_int {
        let Some(scan) = function!(self.server, store_scan) else { return OLD };
        let mut scanning = Scanning { visit, panic: None };
        let argument = (&raw mut scanning).cast();
        // SAFETY: the store is open, and the prefix and the argument outlive the call.
        let result = unsafe { scan(self.store.as_ptr(), Str::of(prefix), visit_next, argument) };
        if let Some(payload) = scanning.panic {
            panic::resume_unwind(payload);
        }
        result
    }
}

/// What the function of a scan needs.
struct Scanning<'a> {
    visit: &'a mut Visitor<'a>,
    /// With which the function has panicked, on its way through the server.
    panic: Option<Box<dyn Any + Send>>,
}

unsafe extern "C" fn visit_next(argument: *mut c_void, name: Str, value: Str) -> c_int {
    // SAFETY: it is that of a scan, which nothing else uses meanwhile.
    let scanning = unsafe { &mut *argument.cast::<Scanning<'_>>() };
    let (name, value) = (name.bytes().unwrap_or_default(), value.bytes().unwrap_or_default());
    let visit = AssertUnwindSafe(|| (scanning.visit)(name, value));
    match panic::catch_unwind(visit) {
        Ok(ControlFlow::Continue(())) => DONE,
        Ok(ControlFlow::Break(())) => ENDED,
        Err(payload) => {
            scanning.panic = Some(payload);
            ENDED
        }
    }
}
