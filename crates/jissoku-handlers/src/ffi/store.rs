//! The functions of stores. They use no request but that of `get`, and any thread may call them.

use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_void};

use jissoku_store::{Change, Store};

use super::{DONE, Request, Str, Visit, array, bytes, text};
use crate::stores::{self, Failure};

/// What a function returns that has an answer besides errors.
const YES: c_int = 1;
const NO: c_int = 0;

/// Entries of one transaction of a scan: `visit` is called outside of it.
const SCAN_COUNT: usize = 256;

/// `jsk_store`, which is open until the process ends.
pub(super) type Handle = Option<&'static Store>;

pub(super) type Open = extern "C" fn(*const c_char, *mut Handle) -> c_int;
pub(super) type Get = extern "C" fn(Handle, Request<'_>, Str, *mut Str) -> c_int;
pub(super) type Read = extern "C" fn(Handle, Str, *mut c_void, *mut usize) -> c_int;
pub(super) type Put = extern "C" fn(Handle, Str, Str, i64) -> c_int;
pub(super) type PutMany = extern "C" fn(Handle, *const Entry, usize, i64) -> c_int;
pub(super) type Swap = extern "C" fn(Handle, Str, Str, Str, i64) -> c_int;
pub(super) type Delete = extern "C" fn(Handle, Str) -> c_int;
pub(super) type Increment = extern "C" fn(Handle, Str, i64, i64, *mut i64) -> c_int;
pub(super) type Scan = extern "C" fn(Handle, Str, Option<Visit>, *mut c_void) -> c_int;

/// `jsk_entry`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) key: Str,
    pub(super) value: Str,
    pub(super) is_removed: c_int,
}

thread_local! {
    /// The last failure of this thread.
    static LAST: RefCell<Failure> = const { RefCell::new(Failure { code: DONE, why: String::new() }) };
}

pub(super) extern "C" fn error() -> Str {
    LAST.with_borrow(|last| Str::of(last.why.as_bytes()))
}

/// The sentence of the last failure of this thread, if that had this code.
pub(super) fn sentence_of(code: c_int) -> Option<String> {
    LAST.with_borrow(|last| (code != DONE && last.code == code).then(|| last.why.clone()))
}

/// An answer, or why there is none.
type Done = Result<c_int, Failure>;

/// Returns the answer, or a code, whose sentence is kept.
fn code_of(done: Done) -> c_int {
    done.unwrap_or_else(|failure| {
        let code = failure.code;
        LAST.set(failure);
        code
    })
}

fn opened(store: Handle) -> Result<&'static Store, Failure> {
    store.ok_or_else(|| Failure::of_argument("the store is NULL"))
}

fn given<'a>(text: Str, what: &str) -> Result<&'a [u8], Failure> {
    let given = bytes(text.ptr.cast(), text.len);
    given.ok_or_else(|| Failure::of_argument(&format!("{what} is NULL, and has a length")))
}

/// Passes a result to the handler.
fn pass<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: by the interface, there is room for a result of this type.
        unsafe { to.write(value) };
    }
}

pub(super) extern "C" fn open(name: *const c_char, store: *mut Handle) -> c_int {
    let name = text(name).and_then(|name| std::str::from_utf8(name).ok());
    let name = name.ok_or_else(|| Failure::of_argument("the name of the store is no text"));
    let found = name.and_then(stores::open);
    pass(store, found.as_ref().ok().copied());
    code_of(found.map(|_| DONE))
}

pub(super) extern "C" fn get(
    store: Handle,
    request: Request<'_>,
    key: Str,
    value: *mut Str,
) -> c_int {
    let read = || -> Done {
        let request = request.ok_or_else(|| Failure::of_argument("the request is NULL"))?;
        let found = opened(store)?.get(given(key, "the key")?)?;
        let is_found = found.is_some();
        pass(value, found.map_or(Str::ABSENT, |found| Str::of(request.keep(found))));
        Ok(if is_found { YES } else { NO })
    };
    code_of(read())
}

pub(super) extern "C" fn read(
    store: Handle,
    key: Str,
    buffer: *mut c_void,
    size: *mut usize,
) -> c_int {
    let read = || -> Done {
        let snapshot = opened(store)?.snapshot()?;
        let found = snapshot.get(given(key, "the key")?)?;
        if size.is_null() {
            return Err(Failure::of_argument("the size of the buffer is NULL"));
        }
        let Some(found) = found else { return Ok(NO) };
        // SAFETY: by the interface, it is the size of the buffer.
        let room = unsafe { size.read() };
        let count = room.min(found.len());
        if count > 0 && buffer.is_null() {
            return Err(Failure::of_argument("the buffer is NULL"));
        }
        if count > 0 {
            // SAFETY: by the interface, there is room for this many bytes, which are not those of the
            // store: its file is mapped to be read only.
            unsafe { std::ptr::copy_nonoverlapping(found.as_ptr(), buffer.cast(), count) };
        }
        pass(size, found.len());
        Ok(YES)
    };
    code_of(read())
}

pub(super) extern "C" fn put(store: Handle, key: Str, value: Str, ttl_ms: i64) -> c_int {
    let write = || -> Done {
        let (key, value) = (given(key, "the key")?, given(value, "the value")?);
        opened(store)?.put(key, value, stores::ttl_of(ttl_ms))?;
        Ok(DONE)
    };
    code_of(write())
}

pub(super) extern "C" fn put_many(
    store: Handle,
    entries: *const Entry,
    count: usize,
    ttl_ms: i64,
) -> c_int {
    let write = || -> Done {
        let entries = array(entries, count);
        let entries = entries.ok_or_else(|| Failure::of_argument("the entries are NULL"))?;
        let changes = entries.iter().enumerate().map(|(index, entry)| change(index, *entry));
        let changes = changes.collect::<Result<Vec<_>, _>>()?;
        opened(store)?.put_many(&changes, stores::ttl_of(ttl_ms))?;
        Ok(DONE)
    };
    code_of(write())
}

fn change<'a>(index: usize, entry: Entry) -> Result<Change<'a>, Failure> {
    let key = given(entry.key, &format!("entries[{index}].key"))?;
    if entry.is_removed != 0 {
        return Ok((key, None));
    }
    Ok((key, Some(given(entry.value, &format!("entries[{index}].value"))?)))
}

pub(super) extern "C" fn put_if_absent(store: Handle, key: Str, value: Str, ttl: i64) -> c_int {
    swap(store, key, Str::ABSENT, value, ttl)
}

pub(super) extern "C" fn swap(
    store: Handle,
    key: Str,
    expected: Str,
    value: Str,
    ttl_ms: i64,
) -> c_int {
    let write = || -> Done {
        let (key, value) = (given(key, "the key")?, given(value, "the value")?);
        let expected = match expected {
            Str { ptr, len: 0 } if ptr.is_null() => None,
            expected => Some(given(expected, "the expected value")?),
        };
        let ttl = stores::ttl_of(ttl_ms);
        let is_written = opened(store)?.compare_and_swap(key, expected, value, ttl)?;
        Ok(if is_written { YES } else { NO })
    };
    code_of(write())
}

pub(super) extern "C" fn delete(store: Handle, key: Str) -> c_int {
    let write = || -> Done {
        let had_value = opened(store)?.delete(given(key, "the key")?)?;
        Ok(if had_value { YES } else { NO })
    };
    code_of(write())
}

pub(super) extern "C" fn increment(
    store: Handle,
    key: Str,
    by: i64,
    ttl_ms: i64,
    sum: *mut i64,
) -> c_int {
    let write = || -> Done {
        let ttl = stores::ttl_of(ttl_ms);
        pass(sum, opened(store)?.increment(given(key, "the key")?, by, ttl)?);
        Ok(DONE)
    };
    code_of(write())
}

pub(super) extern "C" fn scan(
    store: Handle,
    prefix: Str,
    visit: Option<Visit>,
    argument: *mut c_void,
) -> c_int {
    let scan = || -> Done {
        let visit = visit.ok_or_else(|| Failure::of_argument("the function is NULL"))?;
        // `visit` may change what the handler has passed.
        let (store, prefix) = (opened(store)?, given(prefix, "the prefix")?.to_vec());
        let mut after = None;
        loop {
            let entries = store.scan(&prefix, after.as_deref(), SCAN_COUNT)?;
            for (key, value) in &entries {
                // SAFETY: by the interface, it is a function of this type. The texts are those of this
                // call, and stay until it returns.
                let result = unsafe { visit(argument, Str::of(key), Str::of(value)) };
                if result != 0 {
                    return Ok(result);
                }
            }
            let Some((last, _)) = entries.into_iter().next_back() else { return Ok(DONE) };
            after = Some(last);
        }
    };
    code_of(scan())
}
